"""Guards of the scripts of holders and sweeps, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_budget as budget
from tests.kernel.store import test_claims as claims
from tests.kernel.store import test_outcomes as outcomes
from tests.kernel.store import test_polls as takes
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
        "'^%d+%-(.*)$') == plan.nonce",
        "'^%d+%-(.*)$') == plan.nonce and false",
        claims.test_a_repeated_claim_gets_its_own_lease_back_and_renews_it,
    ),
    Mutant(
        "an old lease that is not marked lapsed is held",
        "claim",
        "if entry.state == 'leased' then",
        "if entry.state == 'leased' and now_ms < entry.lease_until then",
        claims.test_a_lease_that_is_over_but_not_marked_stays_held,
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
        "book_residue(record, chain, entry)\n  grant",
        "release_reservation(chain, entry)\n  grant",
        budget.test_what_a_lost_holder_may_have_spent_is_residue,
    ),
    Mutant(
        "renewing needs the current token",
        "renew",
        " or entry.token ~= lease.token",
        "",
        claims.test_a_lapsed_effect_goes_to_the_next_who_asks_and_fences_the_first,
    ),
    Mutant(
        "renewing revives what lapsed",
        "renew",
        "or entry.token ~= lease.token then",
        "or entry.token ~= lease.token or entry.state == 'lapsed' then",
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
        "an uncounted release uses up no attempt",
        "release",
        "if not plan.counted then",
        "if not plan.counted and entry.polls < 0 then",
        claims.test_an_effect_that_is_given_back_uncounted_uses_up_nothing_however_often,
    ),
    Mutant(
        "losses that use up no attempt are limited",
        "poll_effects",
        " and entry.losses <= sweep.losses_max then",
        " then",
        claims.test_a_lost_attempt_uses_up_none_that_may_fail,
    ),
    Mutant(
        "only the holder releases",
        "release",
        " or entry.token ~= plan.token",
        "",
        claims.test_only_the_holder_can_release,
    ),
    Mutant(
        "only the holder settles",
        "settle",
        "or entry.token ~= plan.token then",
        "then",
        outcomes.test_settling_twice_or_with_an_old_token_changes_nothing,
    ),
    Mutant(
        "the log has an end that nobody confirmed",
        "poll_effects",
        "entry.name .. '_finished'",
        "entry.name .. '_gone'",
        takes.test_a_draining_entry_stays_until_its_fixed_end,
    ),
)
