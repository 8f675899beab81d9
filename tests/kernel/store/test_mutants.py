"""Each guard of the scripts is there for a reason: without it, the test that names it fails.

A mutant is a script with one guard removed. Its scenario is a test of this folder, which passes on
the original; here it must fail. A mutant that survives is a guard without a test, or a test that
shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kernel import lifecycle
from kernel.errors import KernelError
from tests.kernel.store import test_budget as budget
from tests.kernel.store import test_claims as claims
from tests.kernel.store import test_commits as commits
from tests.kernel.store import test_countdowns as countdowns
from tests.kernel.store import test_gate as gate
from tests.kernel.store import test_notes as notes
from tests.kernel.store import test_outcomes as outcomes
from tests.kernel.store import test_pause as pause
from tests.kernel.store import test_quarantine as quarantine
from tests.kernel.store import test_takes as takes
from tests.kernel.store.world import Text, World

Scenario = Callable[[World], None]


@dataclass(frozen=True)
class Mutant:
    """One guard that is gone: what it was, in which script, and who misses it."""

    guard: str
    script: str
    old: str
    new: str
    missed_by: Scenario


def _m(guard: str, script: str, old: str, new: str, missed_by: Scenario) -> Mutant:
    return Mutant(guard, script, old, new, missed_by)


MUTANTS = (
    # commit: op-ids
    _m(
        "a known op-id is answered, not committed",
        "commit",
        "if known then return",
        "if false then return",
        outcomes.test_a_repeated_outcome_is_answered_although_its_effect_is_gone,
    ),
    _m(
        "an op-id belongs to one call",
        "commit",
        "if was ~= digest then",
        "if false then",
        commits.test_an_op_id_is_for_one_call_only,
    ),
    _m(
        "op-ids are recorded",
        "commit",
        "op_record(KEYS[3], KEYS[4], plan.op",
        "local _ = (KEYS[3] == plan.op",
        commits.test_a_repeat_gets_the_first_outcome_and_changes_nothing,
    ),
    _m(
        "op-ids are dropped after the window",
        "commit",
        "if #old > 0 then",
        "if false then",
        commits.test_op_ids_are_dropped_after_the_window_two_at_a_time,
    ),
    _m(
        "two at a time",
        "commit",
        "'BYSCORE', 'LIMIT', 0, 2)",
        "'BYSCORE', 'LIMIT', 0, 9)",
        commits.test_op_ids_are_dropped_after_the_window_two_at_a_time,
    ),
    _m(
        "a note's op-id",
        "note",
        "if known then return",
        "if false then return",
        notes.test_a_notes_deltas_count_once_per_op_id,
    ),
    # commit: warrants
    _m(
        "warrants are looked at",
        "commit",
        "if not warranted(record, plan.warrant) then",
        "if false then",
        outcomes.test_an_outcome_of_a_released_or_left_effect_is_fenced,
    ),
    _m(
        "the token is compared",
        "commit",
        "return entry.token == warrant[3] and (entry.state",
        "return (entry.state",
        claims.test_a_lapsed_effect_goes_to_the_next_who_asks_and_fences_the_first,
    ),
    _m(
        "a token of drained work is void",
        "commit",
        "or entry.state == 'quarantined') end",
        "or entry.state == 'quarantined' or entry.state == 'draining') end",
        outcomes.test_an_outcome_of_a_released_or_left_effect_is_fenced,
    ),
    _m(
        "a quarantined holder's outcome is good",
        "commit",
        "or entry.state == 'lapsed' or entry.state == 'quarantined') end",
        "or entry.state == 'lapsed') end",
        quarantine.test_a_late_outcome_ends_the_quarantine,
    ),
    _m(
        "a lapsed holder's outcome is good",
        "commit",
        "(entry.state == 'leased' or entry.state == 'lapsed' or",
        "(entry.state == 'leased' or",
        outcomes.test_an_outcome_of_a_lapsed_effect_counts_until_somebody_else_claims,
    ),
    _m(
        "lapsed is a mark",
        "commit",
        "return entry.state == 'lapsed' and entry.token == warrant[3] end",
        "return entry.token == warrant[3] end",
        takes.test_a_carried_effect_that_comes_back_is_not_taken_for_lost,
    ),
    _m(
        "lapsed under that token",
        "commit",
        "return entry.state == 'lapsed' and entry.token == warrant[3] end",
        "return entry.state == 'lapsed' end",
        commits.test_a_lapsed_warrant_holds_only_while_marked_and_under_that_token,
    ),
    _m(
        "exhausted means no attempt is left",
        "commit",
        "entry.attempts >= entry.attempts_max and entry.attempts ==",
        "entry.attempts ==",
        commits.test_an_exhausted_warrant_counts_the_attempts,
    ),
    _m(
        "exhausted compares the attempts",
        "commit",
        " and entry.attempts == tonumber(warrant[3])",
        "",
        commits.test_an_exhausted_warrant_counts_the_attempts,
    ),
    _m(
        "exhausted needs nobody at work",
        "commit",
        "return (entry.state == 'owed' or entry.state == 'lapsed') and",
        "return",
        commits.test_an_exhausted_warrant_counts_the_attempts,
    ),
    _m(
        "due compares due_at",
        "commit",
        "return due_at == warrant[3] and born",
        "return born",
        commits.test_a_timer_that_was_set_anew_fires_no_more_at_its_old_time,
    ),
    _m(
        "due compares born",
        "commit",
        "and born == warrant[4] and",
        "and",
        commits.test_a_timer_of_a_state_that_was_left_and_entered_again_is_another,
    ),
    _m(
        "due compares the clock",
        "commit",
        " and tonumber(due_at) <= now",
        "",
        commits.test_a_sweeps_timer_fires_once_and_only_when_it_is_due,
    ),
    _m(
        "a paused timer is not due",
        "commit",
        "and left == '-' and",
        "and",
        pause.test_a_paused_timer_fires_nothing,
    ),
    _m(
        "a decision names its stay",
        "commit",
        "return redis.call('HGET', record, 'entered') == warrant[2] end",
        "return true end",
        commits.test_the_script_compares_the_stay_itself,
    ),
    _m(
        "a note's warrant",
        "note",
        "if not warranted(KEYS[1], plan.warrant) then",
        "if false then",
        notes.test_a_note_under_a_warrant_that_is_void_is_fenced,
    ),
    # commit: versions and facts
    _m(
        "the version is compared",
        "commit",
        "if stands[1] ~= plan.version then",
        "if false then",
        commits.test_a_decision_on_a_moved_version_commits_nothing_by_itself,
    ),
    _m(
        "facts are compared",
        "commit",
        "'version') ~= version then",
        "'version') == '' then",
        commits.test_facts_are_kept_in_the_event_and_compared_at_the_commit,
    ),
    # commit: effects
    _m(
        "an outcome ends its own effect",
        "commit",
        "then drop(at, suffix, entry, false); kept = false",
        "then kept = false",
        outcomes.test_an_outcome_ends_its_own_effect,
    ),
    _m(
        "leaving revokes",
        "commit",
        "elseif not stays then revoke(at, suffix, entry); kept = false",
        "elseif not stays then kept = false",
        outcomes.test_leaving_drops_what_nobody_began_and_drains_what_runs,
    ),
    _m(
        "revoked work drains",
        "commit",
        "if entry.state == 'leased' or entry.state == 'lapsed' then\n"
        "    entry.state, entry.kill_by",
        "if false then\n    entry.state, entry.kill_by",
        outcomes.test_leaving_drops_what_nobody_began_and_drains_what_runs,
    ),
    _m(
        "grace is given",
        "commit",
        "'draining', entry.lease_until + entry.grace",
        "'draining', entry.lease_until",
        takes.test_the_grace_of_a_carried_effect_is_its_own,
    ),
    _m(
        "carrying marks what has begun",
        "commit",
        "entry.carried = 1",
        "entry.carried = 0",
        outcomes.test_carrying_keeps_the_effect_and_its_token,
    ),
    _m(
        "what never began is not marked carried",
        "commit",
        "if entry.begun == 0 or",
        "if",
        outcomes.test_anybody_may_carry_and_what_never_began_may_still_start,
    ),
    _m(
        "carrying what was given back is a crash",
        "commit",
        "if entry.state == 'owed' then\n    entry.state = 'lapsed'",
        "if false then\n    entry.state = 'lapsed'",
        outcomes.test_carrying_what_was_given_back_makes_it_a_crash,
    ),
    _m(
        "an internal loop posts an interrupt",
        "commit",
        "entry.posted = entry.posted + 1;",
        "",
        claims.test_an_interrupt_is_told_until_it_is_acknowledged,
    ),
    _m(
        "a late carry revives",
        "commit",
        "then revive(at, suffix, entry) end",
        "then local _ = 0 end",
        quarantine.test_a_late_carry_by_its_own_holder_makes_it_live,
    ),
    _m(
        "a quarantine that is left keeps asking",
        "commit",
        "asks = asks or (kept and entry.state == 'quarantined')",
        "asks = false",
        quarantine.test_a_transitions_effect_stays_quarantined_when_the_state_is_left,
    ),
    _m(
        "leaving ends timers",
        "commit",
        "elseif string.sub(field, 1, 2) == 't:' then",
        "elseif false then",
        commits.test_leaving_ends_every_timer,
    ),
    _m(
        "effects are born off the index under pause",
        "commit",
        "if paused then return false end",
        "",
        pause.test_a_holder_goes_on_to_its_outcome_under_pause_and_what_follows_waits,
    ),
    _m(
        "timers are born still under pause",
        "commit",
        "if not paused then redis.call('ZADD', timers",
        "if true then redis.call('ZADD', timers",
        pause.test_timers_of_a_state_entered_under_pause_start_with_their_whole_time,
    ),
    _m(
        "the end lifts a pause",
        "commit",
        "elseif plan.ends and paused and entry.state == 'owed' then",
        "elseif false then",
        pause.test_a_terminal_commit_lifts_the_pause_and_what_is_still_owed_is_seen,
    ),
    # claim
    _m(
        "draining work is gone",
        "claim",
        "if not entry or entry.state == 'draining' then",
        "if not entry then",
        claims.test_a_draining_effect_is_gone_for_whoever_claims,
    ),
    _m(
        "a repeated claim is known by its nonce",
        "claim",
        "== nonce and entry.state ~= 'owed'",
        "== nonce and false",
        claims.test_a_repeated_claim_gets_its_own_lease_back_and_renews_it,
    ),
    _m(
        "a quarantined effect is nobody's",
        "claim",
        "if entry.state == 'quarantined' then return answer('quarantined') end",
        "",
        quarantine.test_nobody_gets_a_quarantined_effect,
    ),
    _m(
        "a paused record gives nothing",
        "claim",
        "if stands[1] == '1' then return answer('paused') end",
        "",
        claims.test_a_paused_record_gives_nothing,
    ),
    _m(
        "a lease is held however old",
        "claim",
        "if entry.state == 'leased' then",
        "if entry.state == 'leased' and now < entry.lease_until then",
        claims.test_a_lease_that_is_over_but_not_marked_stays_held,
    ),
    _m(
        "a lease is held",
        "claim",
        "if entry.state == 'leased' then return answer('held', entry.holder) end",
        "",
        claims.test_a_leased_effect_is_held_by_its_holder,
    ),
    _m(
        "a carried effect never starts again",
        "claim",
        "if entry.carried == 1 then return answer('carried') end",
        "",
        claims.test_a_carried_effect_never_starts_again,
    ),
    _m(
        "attempts are bounded",
        "claim",
        "if entry.attempts >= entry.attempts_max then",
        "if false then",
        claims.test_attempts_are_bounded,
    ),
    _m(
        "a backoff is waited for",
        "claim",
        "if now < entry.not_before then",
        "if false then",
        claims.test_a_backoff_is_waited_for,
    ),
    _m(
        "a newer schema is left alone",
        "claim",
        "if tonumber(stands[2]) > tonumber(ARGV[6]) then",
        "if false then",
        claims.test_an_older_worker_leaves_a_newer_record_alone_and_no_attempt_is_counted,
    ),
    _m(
        "what may run once is marked at its claim",
        "claim",
        "if entry.once == 1 then entry.carried = 1 end",
        "",
        claims.test_an_effect_that_may_run_once_is_carried_from_its_claim_on,
    ),
    _m(
        "tokens rise although the clock goes back",
        "claim",
        "math.max(tonumber(stands[3]) + 1, now_us)",
        "now_us",
        claims.test_a_token_is_higher_than_the_last_one_even_when_the_clock_goes_back,
    ),
    _m(
        "a lost holder's reservation is residue",
        "claim",
        "unreserve(chain, entry, true)",
        "unreserve(chain, entry, false)",
        budget.test_what_a_lost_holder_may_have_spent_is_residue,
    ),
    # renew, release, settle
    _m(
        "renewing needs the current token",
        "renew",
        "entry.token ~= lease.token or",
        "",
        claims.test_a_lapsed_effect_goes_to_the_next_who_asks_and_fences_the_first,
    ),
    _m(
        "renewing revives what lapsed",
        "renew",
        "or entry.state == 'owed' then order = 'lost'",
        "or entry.state == 'owed' or entry.state == 'lapsed' then order = 'lost'",
        claims.test_a_renewal_with_the_current_token_makes_a_lapsed_lease_live,
    ),
    _m(
        "draining work is told to stop and not prolonged",
        "renew",
        "elseif entry.state == 'draining' then order = 'stop'",
        "elseif entry.state == 'draining' then order = 'stop'; entry.kill_by = now + lease.ms;"
        " entry_write(record, lease.suffix, entry)",
        claims.test_a_renewal_is_told_stop_when_draining_and_prolongs_nothing,
    ),
    _m(
        "pause comes before an interrupt",
        "renew",
        "if stands == '1' then order = 'pause' elseif",
        "if",
        claims.test_pause_is_told_before_an_interrupt_and_stop_before_pause,
    ),
    _m(
        "a renewal ends a quarantine",
        "renew",
        "if was == 'quarantined' then",
        "if false then",
        quarantine.test_a_late_renewal_ends_the_quarantine,
    ),
    _m(
        "releases are capped",
        "release",
        "and entry.releases < tonumber(ARGV[6]) then",
        "then",
        claims.test_an_uncounted_release_gives_the_attempt_back_but_not_for_ever,
    ),
    _m(
        "a carried effect is not given back",
        "release",
        "if entry.carried == 1 then",
        "if false then",
        claims.test_a_carried_effect_that_is_released_is_lapsed_at_once,
    ),
    _m(
        "only the holder releases",
        "release",
        "entry.token ~= ARGV[3] or",
        "",
        claims.test_only_the_holder_can_release,
    ),
    _m(
        "a late release ends a quarantine",
        "release",
        "if was == 'quarantined' then",
        "if false then",
        quarantine.test_a_late_release_ends_the_quarantine,
    ),
    _m(
        "a live state effect is not settled",
        "settle",
        "if entry.kind == 'state' and entry.state ~= 'draining' then",
        "if false then",
        outcomes.test_a_live_state_effect_ends_by_an_outcome_only,
    ),
    _m(
        "only the holder settles",
        "settle",
        "or entry.token ~= plan.token then",
        "then",
        outcomes.test_settling_twice_or_with_an_old_token_changes_nothing,
    ),
    # take
    _m(
        "the score is looked at again",
        "take",
        "if not score or tonumber(score) > now then",
        "if false then",
        takes.test_a_look_that_another_sweep_took_is_not_taken_twice,
    ),
    _m(
        "looks double",
        "take",
        "entry.looks = entry.looks + 1",
        "",
        takes.test_an_effect_that_nobody_claims_is_published_at_doubling_distances,
    ),
    _m(
        "a live lease is not marked",
        "take",
        "elseif entry.state == 'leased' and now < entry.lease_until then",
        "elseif false then",
        takes.test_a_live_lease_is_looked_at_again_when_it_ends,
    ),
    _m(
        "the health gate",
        "take",
        "elseif entry.state == 'leased' and not plan.gate then",
        "elseif false then",
        takes.test_nothing_is_marked_lapsed_while_the_gate_is_closed,
    ),
    _m(
        "draining has a fixed end",
        "take",
        "if now >= entry.kill_by then unreserve",
        "if true then unreserve",
        takes.test_a_draining_entry_stays_until_its_fixed_end,
    ),
    _m(
        "what may not restart crashes",
        "take",
        "if entry.state == 'lapsed' and entry.carried == 1 then",
        "if false then",
        claims.test_a_carried_effect_never_starts_again,
    ),
    _m(
        "under pause a holder keeps its grace",
        "take",
        "if entry.state == 'lapsed' and now < entry.kill_by then again(entry.kill_by)",
        "if false then local _ = 0",
        takes.test_a_lapsed_effect_of_a_paused_record_is_given_up_only_after_its_grace,
    ),
    _m(
        "a quarantine waits for a person",
        "take",
        "redis.call('ZADD', KEYS[2], whole(now), look.id)",
        "",
        takes.test_used_up_attempts_without_a_way_out_are_quarantined,
    ),
    _m(
        "only a stage with a way out reports exhaustion",
        "take",
        "and entry.fires == 1 then",
        "then",
        takes.test_used_up_attempts_without_a_way_out_are_quarantined,
    ),
    # families
    _m(
        "the sentinel enters with the spawning",
        "commit",
        "if owed.kind == 'spawn' then",
        "if false then",
        countdowns.test_a_first_child_that_ends_before_the_second_exists_ends_nothing,
    ),
    _m(
        "nobody joins without the sentinel",
        "create",
        "if redis.call('SISMEMBER', KEYS[11], '*') == 0 then",
        "if false then",
        countdowns.test_nobody_joins_after_the_spawning_ended,
    ),
    _m(
        "a repeated birth is answered before it joins",
        "create",
        "if kept then return",
        "if kept and redis.call('SADD', KEYS[11] or KEYS[1] .. 'x', plan.id) then return",
        countdowns.test_a_repeated_birth_never_joins_twice,
    ),
    _m(
        "nobody is born under an ended parent",
        "create",
        "or parent[1] == '1' or",
        "or",
        countdowns.test_nobody_is_born_under_a_parent_that_ended,
    ),
    _m(
        "an ended parent is owed nothing",
        "commit",
        "or stands[2] == '1' then return '' end",
        "then return '' end",
        countdowns.test_a_child_that_ends_under_an_ended_parent_owes_nothing,
    ),
    _m(
        "who was not counted empties nothing",
        "depart",
        "if redis.call('SREM', parent.members, member) == 0 then return '' end",
        "redis.call('SREM', parent.members, member)",
        countdowns.test_a_member_that_should_have_left_departs_once,
    ),
    _m(
        "a member leaves before they are counted",
        "commit",
        "if redis.call('SREM', parent.members, member) == 0 then return '' end",
        "",
        countdowns.test_the_last_child_owes_the_advance_and_the_tally_says_how_they_ended,
    ),
    _m(
        "only the last one out owes the advance",
        "commit",
        "if redis.call('SCARD', parent.members) > 0 then return '' end",
        "",
        countdowns.test_sixty_four_children_that_end_at_once_advance_the_parent_once,
    ),
    _m(
        "a spawn's outcome leaves the sentinel",
        "commit",
        " and entry.kind ~= 'spawn' then drop",
        " then drop",
        countdowns.test_an_outcome_under_a_spawns_token_leaves_the_sentinel_to_its_settling,
    ),
    # birth and tombstones
    _m(
        "an id belongs to one payload",
        "create",
        "kept == plan.digest and 'replayed' or 'taken'",
        "'replayed'",
        commits.test_create_is_told_apart_by_its_payload,
    ),
    _m(
        "a tombstone keeps an id taken",
        "create",
        "if tombstone then return",
        "if false then return",
        notes.test_the_id_of_a_pruned_record_stays_taken,
    ),
    _m(
        "what is owed is not pruned",
        "prune",
        "if #entries_of(KEYS[1]) > 0 then return {'busy'} end",
        "",
        notes.test_what_lives_is_owed_or_ended_just_now_is_not_pruned,
    ),
    # pause, retry
    _m(
        "pausing takes what is owed off the index",
        "pause",
        "if entry_read(record, suffix).state == 'owed' then",
        "if false then",
        pause.test_pausing_takes_what_is_owed_off_the_index_and_resuming_brings_it_back,
    ),
    _m(
        "pausing keeps the remainder",
        "pause",
        "whole(math.max(tonumber(due_at) - now, 0))",
        "'0'",
        pause.test_timers_keep_their_remainder,
    ),
    _m(
        "retrying gives fresh attempts",
        "retry",
        "entry.attempts, entry.looks, entry.not_before = 'lapsed', 0, 0, 0",
        "entry.looks, entry.not_before = 'lapsed', 0, 0",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    _m(
        "a repeated retry is known",
        "retry",
        "if known then return",
        "if false then return",
        quarantine.test_retry_gives_fresh_attempts_and_the_old_token_stays_good,
    ),
    # money
    _m(
        "caps bound",
        "reserve",
        "if used + estimate > tonumber(sums[1]) then",
        "if false then",
        budget.test_what_does_not_fit_is_not_reserved,
    ),
    _m(
        "a repeated reservation replaces",
        "reserve",
        "unreserve(chain, entry, false)",
        "",
        budget.test_a_repeated_reservation_replaces_its_own,
    ),
    _m(
        "the whole chain is asked",
        "reserve",
        "for n = 2, #KEYS do chain",
        "for n = 2, 2 do chain",
        budget.test_children_share_the_cap_of_their_root_and_may_have_a_lower_one,
    ),
    # health
    _m(
        "a changed server closes the gate",
        "meet",
        "meta[2], meta[6] = ARGV[4], whole(now + tonumber(ARGV[7]))",
        "meta[2] = ARGV[4]",
        gate.test_a_changed_server_is_noted_once_and_closes_the_gate_for_one_lease,
    ),
    _m(
        "stalled sweeps close the gate",
        "meet",
        "> 2 * tonumber(ARGV[6])",
        "> 9999999",
        gate.test_sweeps_that_stalled_give_holders_one_lease,
    ),
    _m(
        "late sweeps open it again",
        "meet",
        " and tonumber(meta[6]) <= tonumber(meta[5])",
        "",
        gate.test_sweeps_that_are_always_late_find_their_orphans_too,
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard.replace(" ", "-"))
def test_a_guard_that_is_removed_is_missed(mutant: Mutant, world: World, text: Text) -> None:
    text.change(mutant.script, mutant.old, mutant.new)
    with pytest.raises((AssertionError, KernelError, pytest.fail.Exception)):
        mutant.missed_by(world)


PYTHON_MUTANTS: tuple[tuple[str, str, object, Scenario], ...] = (
    (
        "warrants-come-before-the-table",
        "entitled",
        lambda *_: True,
        outcomes.test_a_late_outcome_is_fenced_even_where_the_table_would_refuse_it,
    ),
    (
        "op-ids-have-a-bounded-length",
        "_nameable",
        lambda _: None,
        notes.test_deltas_without_an_op_id_are_refused,
    ),
    (
        "deltas-are-countable",
        "_countable",
        lambda _: None,
        commits.test_deltas_that_a_script_cannot_count_are_refused_before_anything_is_written,
    ),
    (
        "facts-are-read",
        "facts_read",
        lambda *_: (),
        commits.test_facts_of_ancestors_decide,
    ),
)


@pytest.mark.parametrize(
    ("name", "instead", "missed_by"),
    [mutant[1:] for mutant in PYTHON_MUTANTS],
    ids=[mutant[0] for mutant in PYTHON_MUTANTS],
)
def test_a_check_that_is_removed_is_missed(
    name: str,
    instead: object,
    missed_by: Scenario,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifecycle, name, instead)
    with pytest.raises((AssertionError, KernelError, pytest.fail.Exception)):
        missed_by(world)
