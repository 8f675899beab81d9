"""Guards of moves, restores and repairs, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_moves as moves
from tests.kernel.store import test_restores as restores
from tests.kernel.store.mutant import Mutant

RESTORES: tuple[Mutant, ...] = (
    Mutant(
        "the data of a record that exists are compared",
        "restore",
        " and stored_data == plan.data",
        "",
        restores.test_another_record_of_the_same_id_is_never_replaced,
    ),
    Mutant(
        "the digest of a record that exists is compared",
        "restore",
        "same and digest == plan.digest",
        "same",
        restores.test_another_record_of_the_same_id_is_never_replaced,
    ),
    Mutant(
        "a root may change while its family is restored",
        "restore",
        "same = same or is_root and is_restored_now",
        "",
        restores.test_a_root_that_took_mail_meanwhile_is_still_the_same,
    ),
    Mutant(
        "a root may not change after its family was restored",
        "restore",
        "is_root and is_restored_now",
        "is_root",
        restores.test_a_root_that_took_mail_meanwhile_is_still_the_same,
    ),
    Mutant(
        "a log without a record is not written over",
        "restore",
        "redis.call('EXISTS', log, chain[1])",
        "redis.call('EXISTS', chain[1])",
        restores.test_a_log_that_is_left_of_a_record_is_not_written_over,
    ),
    Mutant(
        "counters without a record are not counted twice",
        "restore",
        "redis.call('EXISTS', log, chain[1])",
        "redis.call('EXISTS', log)",
        restores.test_counters_that_are_left_of_a_record_are_not_counted_twice,
    ),
    Mutant(
        "a record is restored only while its root holds the name",
        "restore",
        "not is_restored_now or ",
        "",
        restores.test_nothing_comes_back_but_under_its_root_and_its_run,
    ),
    Mutant(
        "a record is restored only under its parent",
        "restore",
        " or redis.call('EXISTS', parent) == 0",
        "",
        restores.test_nothing_comes_back_but_under_its_root_and_its_run,
    ),
    Mutant(
        "new mail comes after the mail that was read",
        "restore",
        "if plan.read_up_to ~= '' and",
        "if false and",
        restores.test_what_is_posted_afterwards_comes_after_what_was_read,
    ),
    Mutant(
        "commits of one millisecond are restored",
        "restore_family_log",
        " or ms == last_ms and number > last_number",
        "",
        restores.test_the_order_of_commits_comes_back_once,
    ),
    Mutant(
        "the sums of a family without a root are not set",
        "recount",
        "if not version then",
        "version = version or '1'\nif false then",
        restores.test_sums_are_set_only_where_nothing_moved,
    ),
)

MOVES: tuple[Mutant, ...] = (
    Mutant(
        "a record that is gone is not moved",
        "move",
        "if not stored then",
        "stored = stored or plan.version\nif false then",
        moves.test_a_record_that_is_gone_is_not_moved,
    ),
    Mutant(
        "no effect is renamed under the hands of its holder",
        "move",
        "entry.state == 'leased' and entry.token ~= plan.token",
        "false",
        moves.test_an_effect_that_is_at_work_is_waited_for,
    ),
    Mutant(
        "its holder may move a record",
        "move",
        " and entry.token ~= plan.token",
        "",
        moves.test_an_effect_that_is_at_work_is_waited_for,
    ),
    Mutant(
        "a move resumes no record",
        "move",
        " and paused ~= '1' then",
        " then",
        moves.test_the_effect_of_a_paused_record_is_not_due,
    ),
    Mutant(
        "a record leaves the index of its old state",
        "move",
        "redis.call('ZREM', old_state_index, plan.id)",
        "local _ = old_state_index",
        moves.test_a_move_changes_names_and_data_and_leaves_the_rest,
    ),
    Mutant(
        "it has been in its state since it entered it",
        "move",
        "redis.call('ZADD', new_state_index, since, plan.id)",
        "redis.call('ZADD', new_state_index, now, plan.id)",
        moves.test_a_move_changes_names_and_data_and_leaves_the_rest,
    ),
    Mutant(
        "an effect needs the slots of its present name",
        "move",
        "put(fields, 's:' .. suffix, renamed.slots)",
        "local _ = renamed.slots",
        moves.test_a_move_changes_names_and_data_and_leaves_the_rest,
    ),
)
