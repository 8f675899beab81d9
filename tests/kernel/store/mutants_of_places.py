"""Guards of exclusive effects and of adopting a lease, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_places as places
from tests.kernel.store.mutant import Mutant

PLACES = (
    Mutant(
        "a free place shortens no delay",
        "settle",
        "math.max(now_ms, entry.not_before)",
        "now_ms",
        places.test_a_place_that_is_freed_shortens_no_delay,
    ),
    Mutant(
        "only exclusive effects share a place",
        "claim",
        "entry.exclusive == 1 and occupied_until",
        "occupied_until",
        places.test_work_that_shares_no_place_need_not_wait_for_it,
    ),
    Mutant(
        "a live holder occupies its place",
        "claim",
        "found.state == 'leased' and other ~= suffix",
        "false",
        places.test_a_live_holder_keeps_its_siblings_out_however_old_its_lease,
    ),
    Mutant(
        "a lost holder occupies its place",
        "claim",
        "if found.state == 'lapsed' or found.state == 'draining' then",
        "if found.state == 'draining' then",
        places.test_a_lost_holder_of_a_place_keeps_it_until_it_is_surely_gone,
    ),
    Mutant(
        "a revoked holder occupies its place",
        "claim",
        "if found.state == 'lapsed' or found.state == 'draining' then",
        "if found.state == 'lapsed' then",
        places.test_a_new_round_waits_until_the_old_one_has_left_the_place,
    ),
    Mutant(
        "a place is free from kill_by on",
        "claim",
        "occupies = now_ms < found.kill_by",
        "occupies = true",
        places.test_a_lost_holder_of_a_place_keeps_it_until_it_is_surely_gone,
    ),
    Mutant(
        "an exclusive effect waits for its own last holder, too",
        "poll_effects",
        "local found = other == suffix and entry or read_entry(record, other)",
        "local found = read_entry(record, other)",
        places.test_a_lost_holder_of_a_place_keeps_it_until_it_is_surely_gone,
    ),
    Mutant(
        "an effect that waits for a place is not polled all the time",
        "poll_effects",
        "math.max(occupied, now_ms + sweep.poll_ms)",
        "occupied",
        places.test_a_live_holder_keeps_its_siblings_out_however_old_its_lease,
    ),
    Mutant(
        "a freed place wakes no effect of a paused record",
        "settle",
        " or redis.call('HGET', record, 'paused') == '1' then",
        " then",
        places.test_a_place_that_is_freed_under_pause_wakes_nobody,
    ),
    Mutant(
        "a revoked effect is not adopted",
        "adopt",
        "if not entry or entry.state == 'draining' then",
        "if not entry then",
        places.test_what_was_revoked_or_given_back_is_not_adopted,
    ),
    Mutant(
        "a repeated adoption is recognised by its nonce",
        "adopt",
        "'^%d+%-(.*)$') == plan.nonce",
        "'^%d+%-(.*)$') == plan.nonce and false",
        places.test_a_repeated_adoption_gets_its_own_lease_back_and_renews_it,
    ),
    Mutant(
        "adopted tokens rise",
        "adopt",
        "math.max(tonumber(last_token) + 1, now_us)",
        "now_us",
        places.test_an_adopted_token_is_higher_even_when_the_clock_goes_back,
    ),
)
