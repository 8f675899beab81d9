"""Guards of the scripts of holders and sweeps, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_budget as budget
from tests.kernel.store import test_claims as claims
from tests.kernel.store import test_outcomes as outcomes
from tests.kernel.store import test_polls as takes
from tests.kernel.store import test_quarantine as quarantine
from tests.kernel.store.mutant import Mutant

LEASES = (
    Mutant(
        "a draining effect is gone for a claim",
        "claim",
        "if not entry or entry.state == 'draining' then",
        "if not entry then",
        claims.test_a_draining_effect_is_gone_for_whoever_claims,
    ),
    Mutant(
        "a repeated claim is recognised by its nonce",
        "claim",
        "'^%d+%-(.*)$') == nonce",
        "'^%d+%-(.*)$') == nonce and false",
        claims.test_a_repeated_claim_gets_its_own_lease_back_and_renews_it,
    ),
    Mutant(
        "a quarantined effect is not granted",
        "claim",
        "if entry.state == 'quarantined' then\n    return refused",
        "if false then\n    return refused",
        quarantine.test_nobody_gets_a_quarantined_effect,
    ),
    Mutant(
        "an effect of a paused record is not granted",
        "claim",
        "if paused == '1' then",
        "if false then",
        claims.test_a_paused_record_gives_nothing,
    ),
    Mutant(
        "an old lease that is not marked lapsed is held",
        "claim",
        "if entry.state == 'leased' then",
        "if entry.state == 'leased' and now_ms < entry.lease_until then",
        claims.test_a_lease_that_is_over_but_not_marked_stays_held,
    ),
    Mutant(
        "a lease is held",
        "claim",
        "if entry.state == 'leased' then",
        "if false then",
        claims.test_a_leased_effect_is_held_by_its_holder,
    ),
    Mutant(
        "a carried effect never starts again",
        "claim",
        "if entry.carried == 1 then",
        "if false then",
        claims.test_a_carried_effect_never_starts_again,
    ),
    Mutant(
        "attempts are bounded",
        "claim",
        "if entry.attempts >= entry.attempts_max then",
        "if false then",
        claims.test_attempts_are_bounded,
    ),
    Mutant(
        "an effect is not granted before its backoff is over",
        "claim",
        "if now_ms < entry.not_before then",
        "if false then",
        claims.test_a_backoff_is_waited_for,
    ),
    Mutant(
        "a record of a newer schema is left alone",
        "claim",
        "if tonumber(schema) > schema_known then",
        "if false then",
        claims.test_an_older_worker_leaves_a_newer_record_alone_and_no_attempt_is_counted,
    ),
    Mutant(
        "an effect that may run once is marked at its claim",
        "claim",
        "if entry.once == 1 then",
        "if false then",
        claims.test_an_effect_that_may_run_once_is_carried_from_its_claim_on,
    ),
    Mutant(
        "tokens rise although the clock goes back",
        "claim",
        "math.max(tonumber(last_token) + 1, now_us)",
        "now_us",
        claims.test_a_token_is_higher_than_the_last_one_even_when_the_clock_goes_back,
    ),
    Mutant(
        "a lost holder's reservation is residue",
        "claim",
        "release_reservation(chain, entry, true)",
        "release_reservation(chain, entry, false)",
        budget.test_what_a_lost_holder_may_have_spent_is_residue,
    ),
    Mutant(
        "renewing needs the current token",
        "renew",
        "entry.token ~= lease.token or",
        "",
        claims.test_a_lapsed_effect_goes_to_the_next_who_asks_and_fences_the_first,
    ),
    Mutant(
        "renewing revives what lapsed",
        "renew",
        "or entry.state == 'owed' then",
        "or entry.state == 'owed' or entry.state == 'lapsed' then",
        claims.test_a_renewal_with_the_current_token_makes_a_lapsed_lease_live,
    ),
    Mutant(
        "a draining effect is ordered to stop and not prolonged",
        "renew",
        "    return 'stop'",
        (
            "    entry.kill_by = now_ms + lease.lease_ms\n    write_entry(record, "
            "lease.suffix, entry)\n    return 'stop'"
        ),
        claims.test_a_renewal_is_told_stop_when_draining_and_prolongs_nothing,
    ),
    Mutant(
        "pause comes before an interrupt",
        "renew",
        "if paused then",
        "if false then",
        claims.test_pause_is_told_before_an_interrupt_and_stop_before_pause,
    ),
    Mutant(
        "a renewal ends a quarantine",
        "renew",
        "if was_quarantined then",
        "if false then",
        quarantine.test_a_late_renewal_ends_the_quarantine,
    ),
    Mutant(
        "uncounted releases are limited",
        "release",
        "if not counted and entry.releases < releases_max then",
        "if not counted then",
        claims.test_an_uncounted_release_gives_the_attempt_back_but_not_for_ever,
    ),
    Mutant(
        "a carried effect is not given back",
        "release",
        "if entry.carried == 1 then",
        "if false then",
        claims.test_a_carried_effect_that_is_released_is_lapsed_at_once,
    ),
    Mutant(
        "only the holder releases",
        "release",
        "entry.token ~= token or",
        "",
        claims.test_only_the_holder_can_release,
    ),
    Mutant(
        "a late release ends a quarantine",
        "release",
        "if was_quarantined then",
        "if false then",
        quarantine.test_a_late_release_ends_the_quarantine,
    ),
    Mutant(
        "a live state effect is not settled",
        "settle",
        "if entry.kind == 'state' and entry.state ~= 'draining' then",
        "if false then",
        outcomes.test_a_live_state_effect_ends_by_an_outcome_only,
    ),
    Mutant(
        "only the holder settles",
        "settle",
        "or entry.token ~= plan.token then",
        "then",
        outcomes.test_settling_twice_or_with_an_old_token_changes_nothing,
    ),
    Mutant(
        "polling tests the score again",
        "poll_effects",
        "if not score or tonumber(score) > now_ms then",
        "if false then",
        takes.test_a_look_that_another_sweep_took_is_not_taken_twice,
    ),
    Mutant(
        "the time between polls doubles",
        "poll_effects",
        "entry.polls = entry.polls + 1",
        "",
        takes.test_an_effect_that_nobody_claims_is_published_at_doubling_distances,
    ),
    Mutant(
        "a live lease is not marked lapsed",
        "poll_effects",
        "if now_ms < entry.lease_until then",
        "if false then",
        takes.test_a_live_lease_is_looked_at_again_when_it_ends,
    ),
    Mutant(
        "no lease is marked lapsed while the gate is closed",
        "poll_effects",
        "if not sweep.gate_open then",
        "if false then",
        takes.test_nothing_is_marked_lapsed_while_the_gate_is_closed,
    ),
    Mutant(
        "a draining effect ends at its kill_by",
        "poll_effects",
        "poll_draining(_, poll, entry)\n  if now_ms < entry.kill_by then",
        "poll_draining(_, poll, entry)\n  if false then",
        takes.test_a_draining_entry_stays_until_its_fixed_end,
    ),
    Mutant(
        "the log has an end that nobody confirmed",
        "poll_effects",
        "entry.name .. '_finished'",
        "entry.name .. '_gone'",
        takes.test_a_draining_entry_stays_until_its_fixed_end,
    ),
    Mutant(
        "a carried effect that lapses is a crash",
        "poll_effects",
        "if entry.state == 'lapsed' and entry.carried == 1 then",
        "if false then",
        claims.test_a_carried_effect_never_starts_again,
    ),
    Mutant(
        "an effect of a paused record is given up after its grace only",
        "poll_effects",
        "if entry.state == 'lapsed' and now_ms < entry.kill_by then",
        "if false then",
        takes.test_a_lapsed_effect_of_a_paused_record_is_given_up_only_after_its_grace,
    ),
    Mutant(
        "a quarantine waits for a person",
        "poll_effects",
        "redis.call('ZADD', sweep.waits, now_ms, poll.id)",
        "",
        takes.test_used_up_attempts_without_a_way_out_are_quarantined,
    ),
    Mutant(
        "an effect is reported exhausted only where its state has a trigger for it",
        "poll_effects",
        " and entry.fires_exhausted == 1 then",
        " then",
        takes.test_used_up_attempts_without_a_way_out_are_quarantined,
    ),
)
