"""Guards of births, countdowns, flags, money and health, each with the test that misses it."""

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
        "the sentinel enters with the spawning",
        "commit",
        "if owed.kind == 'spawn' then",
        "if false then",
        countdowns.test_a_first_child_that_ends_before_the_second_exists_ends_nothing,
    ),
    Mutant(
        "nobody joins without the sentinel",
        "create",
        "if redis.call('SISMEMBER', KEYS[10], '*') == 0 then",
        "if false then",
        countdowns.test_nobody_joins_after_the_spawning_ended,
    ),
    Mutant(
        "a repeated birth is answered before it joins",
        "create",
        "if kept then return",
        "if kept and redis.call('SADD', KEYS[10] or KEYS[1] .. 'x', plan.id) then return",
        countdowns.test_a_repeated_birth_never_joins_twice,
    ),
    Mutant(
        "nobody is born under an ended parent",
        "create",
        "parent[1] == '1' or not parent[2]",
        "not parent[2]",
        countdowns.test_nobody_is_born_under_a_parent_that_ended,
    ),
    Mutant(
        "an ended parent is owed nothing",
        "commit",
        "or stands[2] == '1' then return '' end",
        "then return '' end",
        countdowns.test_a_child_that_ends_under_an_ended_parent_owes_nothing,
    ),
    Mutant(
        "who was not counted empties nothing",
        "leave_countdown",
        "if redis.call('SREM', parent.members, member) == 0 then return '' end",
        "redis.call('SREM', parent.members, member)",
        countdowns.test_a_member_that_should_have_left_departs_once,
    ),
    Mutant(
        "a member leaves before they are counted",
        "commit",
        "if redis.call('SREM', parent.members, member) == 0 then return '' end",
        "",
        countdowns.test_the_last_child_owes_the_advance_and_the_tally_says_how_they_ended,
    ),
    Mutant(
        "only the last one out owes the advance",
        "commit",
        "if redis.call('SCARD', parent.members) > 0 then return '' end",
        "",
        countdowns.test_sixty_four_children_that_end_at_once_advance_the_parent_once,
    ),
    Mutant(
        "a spawn's outcome leaves the sentinel",
        "commit",
        " and entry.kind ~= 'spawn' then drop",
        " then drop",
        countdowns.test_an_outcome_under_a_spawns_token_leaves_the_sentinel_to_its_settling,
    ),
    Mutant(
        "an id belongs to one payload",
        "create",
        "kept == plan.digest and 'replayed' or 'taken'",
        "'replayed'",
        commits.test_create_is_told_apart_by_its_payload,
    ),
    Mutant(
        "a tombstone keeps an id taken",
        "create",
        "if tombstone then return",
        "if false then return",
        notes.test_the_id_of_a_pruned_record_stays_taken,
    ),
    Mutant(
        "what is owed is not pruned",
        "prune",
        "if #entries_of(KEYS[1]) > 0 then return {'busy'} end",
        "",
        notes.test_what_lives_is_owed_or_ended_just_now_is_not_pruned,
    ),
    Mutant(
        "pausing takes what is owed off the index",
        "pause",
        "if entry_read(record, suffix).state == 'owed' then",
        "if false then",
        pause.test_pausing_takes_what_is_owed_off_the_index_and_resuming_brings_it_back,
    ),
    Mutant(
        "pausing keeps the remainder",
        "pause",
        "whole(math.max(tonumber(due_at) - now, 0))",
        "'0'",
        pause.test_timers_keep_their_remainder,
    ),
    Mutant(
        "retrying gives fresh attempts",
        "retry",
        "entry.attempts, entry.looks, entry.not_before = 'lapsed', 0, 0, 0",
        "entry.looks, entry.not_before = 'lapsed', 0, 0",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    Mutant(
        "a repeated retry is known",
        "retry",
        "if known then return",
        "if false then return",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    Mutant(
        "caps bound",
        "reserve",
        "if used + estimate > tonumber(sums[1]) then",
        "if false then",
        budget.test_what_does_not_fit_is_not_reserved,
    ),
    Mutant(
        "a repeated reservation replaces",
        "reserve",
        "unreserve(chain, entry, false)",
        "",
        budget.test_a_repeated_reservation_replaces_its_own,
    ),
    Mutant(
        "the whole chain is asked",
        "reserve",
        "for n = 2, #KEYS do chain",
        "for n = 2, 2 do chain",
        budget.test_children_share_the_cap_of_their_root_and_may_have_a_lower_one,
    ),
    Mutant(
        "a changed server closes the gate",
        "check_server",
        "meta[2], meta[6] = ARGV[4], whole(now + tonumber(ARGV[7]))",
        "meta[2] = ARGV[4]",
        gate.test_a_changed_server_is_noted_once_and_closes_the_gate_for_one_lease,
    ),
    Mutant(
        "stalled sweeps close the gate",
        "check_server",
        "> 2 * tonumber(ARGV[6])",
        "> 9999999",
        gate.test_sweeps_that_stalled_give_holders_one_lease,
    ),
    Mutant(
        "late sweeps open it again",
        "check_server",
        " and tonumber(meta[6]) <= tonumber(meta[5])",
        "",
        gate.test_sweeps_that_are_always_late_find_their_orphans_too,
    ),
)
