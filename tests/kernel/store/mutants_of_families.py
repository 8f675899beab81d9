"""Guards of creating, countdowns, pauses, money and the health gate, with their tests."""

from __future__ import annotations

from tests.kernel.store import test_budget as budget
from tests.kernel.store import test_commits as commits
from tests.kernel.store import test_countdowns as countdowns
from tests.kernel.store import test_gate as gate
from tests.kernel.store import test_notes as notes
from tests.kernel.store import test_pause as pause
from tests.kernel.store import test_quarantine as quarantine
from tests.kernel.store.mutant import Mutant

FAMILIES = (
    Mutant(
        "a spawn puts the sentinel into its countdown",
        "commit",
        "if plan.spawns then",
        "if false then",
        countdowns.test_a_first_child_that_ends_before_the_second_exists_ends_nothing,
    ),
    Mutant(
        "nobody joins without the sentinel",
        "create",
        " or redis.call('SISMEMBER', members, '*') == 0",
        "",
        countdowns.test_nobody_joins_after_the_spawning_ended,
    ),
    Mutant(
        "a repeated create does not join the countdown again",
        "create",
        "if digest then",
        "if digest and (not plan.countdown or redis.call('SADD', countdown_keys[2], id)) then",
        countdowns.test_a_repeated_birth_never_joins_twice,
    ),
    Mutant(
        "no child is created under a parent that has ended",
        "create",
        "return ended == '1' or not state",
        "return not state",
        countdowns.test_nobody_is_born_under_a_parent_that_ended,
    ),
    Mutant(
        "a parent that has ended gets no advance",
        "commit",
        "if not state or ended == '1' then",
        "if not state then",
        countdowns.test_a_child_that_ends_under_an_ended_parent_owes_nothing,
    ),
    Mutant(
        "only a member can leave a countdown",
        "leave_countdown",
        "if redis.call('SREM', members, member) == 0 then",
        "if redis.call('SREM', members, member) == 2 then",
        countdowns.test_a_member_that_should_have_left_departs_once,
    ),
    Mutant(
        "a member that ends leaves the countdown",
        "commit",
        "if redis.call('SREM', members, member) == 0 then",
        "if false then",
        countdowns.test_the_last_child_owes_the_advance_and_the_tally_says_how_they_ended,
    ),
    Mutant(
        "only the last member creates the advance",
        "commit",
        "if redis.call('SCARD', members) > 0 then",
        "if false then",
        countdowns.test_sixty_four_children_that_end_at_once_advance_the_parent_once,
    ),
    Mutant(
        "a spawn's outcome leaves the sentinel",
        "commit",
        " and entry.kind ~= 'spawn' then",
        " then",
        countdowns.test_an_outcome_under_a_spawns_token_leaves_the_sentinel_to_its_settling,
    ),
    Mutant(
        "an id belongs to one payload",
        "create",
        "same and 'replayed' or 'taken'",
        "'replayed'",
        commits.test_create_is_told_apart_by_its_payload,
    ),
    Mutant(
        "only a record creates what is below its id",
        "create",
        "if machine and machine ~= above.machine then",
        "if false then",
        countdowns.test_an_id_below_a_record_is_refused_unless_that_record_creates_it,
    ),
    Mutant(
        "a record that another created is no child",
        "create",
        " or plan.countdown and countdown == plan.countdown",
        " or plan.countdown",
        countdowns.test_an_id_that_another_record_has_is_no_child_and_one_of_its_own_is,
    ),
    Mutant(
        "a child that an earlier attempt created is known",
        "create",
        " or plan.countdown and countdown == plan.countdown",
        "",
        countdowns.test_an_id_that_another_record_has_is_no_child_and_one_of_its_own_is,
    ),
    Mutant(
        "a tombstone keeps an id taken",
        "create",
        "if pruned_digest then",
        "if false then",
        notes.test_the_id_of_a_pruned_record_stays_taken,
    ),
    Mutant(
        "a record with an effect is not pruned",
        "prune",
        "if #entry_suffixes(record) > 0 then",
        "if false then",
        notes.test_what_lives_is_owed_or_ended_just_now_is_not_pruned,
    ),
    Mutant(
        "pausing takes owed effects out of the index",
        "pause",
        "if read_entry(record, suffix).state == 'owed' then",
        "if false then",
        pause.test_pausing_takes_what_is_owed_off_the_index_and_resuming_brings_it_back,
    ),
    Mutant(
        "pausing keeps the remaining time of a timer",
        "pause",
        "math.max(tonumber(due_at) - now_ms, 0)",
        "0",
        pause.test_timers_keep_their_remainder,
    ),
    Mutant(
        "retrying makes the effect due",
        "retry",
        "redis.call('ZADD', effects, now_ms, id .. ':' .. found.suffix)",
        "",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    Mutant(
        "retrying ends the delay",
        "retry",
        "entry.not_before = 0",
        "",
        quarantine.test_a_retry_begins_at_once_even_where_the_clock_was_set_back,
    ),
    Mutant(
        "retrying gives fresh attempts",
        "retry",
        "entry.attempts = 0",
        "",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    Mutant(
        "a repeated retry is known",
        "retry",
        "if known then",
        "if false then",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    Mutant(
        "a cap limits reservations",
        "reserve",
        "if used + cost > tonumber(cap) then",
        "if false then",
        budget.test_what_does_not_fit_is_not_reserved,
    ),
    Mutant(
        "a repeated reservation replaces the first",
        "reserve",
        "release_reservation(chain, entry, false)",
        "",
        budget.test_a_repeated_reservation_replaces_its_own,
    ),
    Mutant(
        "the caps of the whole chain are tested",
        "reserve",
        "{unpack(KEYS, 2)}",
        "{unpack(KEYS, 2, 2)}",
        budget.test_children_share_the_cap_of_their_root_and_may_have_a_lower_one,
    ),
    Mutant(
        "a changed server closes the gate",
        "identify_server",
        "incarnation = new_incarnation\n  open_at = tostring(now_ms + lease_ms)",
        "incarnation = new_incarnation",
        gate.test_a_changed_server_is_noted_once_and_closes_the_gate_for_one_lease,
    ),
    Mutant(
        "stalled sweeps close the gate",
        "identify_server",
        "> 2 * period_ms",
        "> 9999999",
        gate.test_sweeps_that_stalled_give_holders_one_lease,
    ),
    Mutant(
        "sweeps that are always late open the gate again",
        "identify_server",
        " and tonumber(open_at) <= tonumber(last_pass)",
        "",
        gate.test_sweeps_that_are_always_late_find_their_orphans_too,
    ),
)
