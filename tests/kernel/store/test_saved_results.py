"""What an attempt has saved, a later attempt has: under the lease, and until the effect ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import FencedError, InvalidPayloadError
from interlock.kernel.store import scripts
from interlock.kernel.store.codec import PAYLOAD_BYTES_MAX
from interlock.kernel.store.commands import UNHELD
from interlock.kernel.store.saved_results import RESULTS_MAX, SavedResult, SavedResults
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import LEASE_MS


def results(world: World, results_max: int = RESULTS_MAX) -> SavedResults:
    return SavedResults(world.client, world.keys, results_max)


def stored(world: World) -> set[str]:
    """Return the names of all results that a record has, without their effects."""
    found: Any = scripts.read(world.client, "HKEYS", world.keys.saved("r"))
    return {field.decode().split(" ", 1)[1] for field in found}


def lost(world: World, name: str = "work") -> None:
    """Let the lease of an effect lapse."""
    world.later(LEASE_MS)
    assert world.poll_status(world.key(name)) == "publish"


def test_a_later_attempt_gets_what_an_earlier_one_saved(world: World) -> None:
    world.at("working")
    first = world.claim()
    saved = results(world).save(first, "the model", {"b": (1, 2), "a": None})
    assert saved == SavedResult({"a": None, "b": [1, 2]}), "as JSON gives it back, at once"
    lost(world)

    second = world.claim(nonce="b")

    assert results(world).find(second, "the model") == saved
    assert results(world).find(second, "the mode") is None


def test_a_result_may_be_nothing(world: World) -> None:
    world.at("working")
    lease = world.claim()
    results(world).save(lease, "none", None)

    assert results(world).find(lease, "none") == SavedResult(None)


def test_a_lost_holder_saves_nothing(world: World) -> None:
    world.at("working")
    first = world.claim()
    lost(world)
    world.claim(nonce="b")

    with pytest.raises(FencedError):
        results(world).save(first, "late", 1)

    assert stored(world) == set()


def test_nobody_saves_under_an_effect_that_nobody_has(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, counted=True)

    with pytest.raises(FencedError):
        results(world).save(lease, "late", 1)
    with pytest.raises(FencedError):
        results(world).keep(replace(lease, token=UNHELD), {})


def test_what_was_saved_is_gone_when_the_state_is_left(world: World) -> None:
    world.at("working")
    lease = world.claim()
    results(world).save(lease, "one", 1)
    results(world).keep(lease, {"trigger": "done"})
    assert stored(world) == {"one", "@outcome"}

    world.fire("r", "done", warrant=token(lease))

    assert stored(world) == set()
    with pytest.raises(FencedError):
        results(world).save(lease, "late", 1)


def test_what_was_saved_is_gone_when_the_state_is_entered_anew(world: World) -> None:
    world.at("working")
    lease = world.claim()
    results(world).save(lease, "one", 1)

    world.fire("r", "again")

    assert stored(world) == set()
    with pytest.raises(FencedError):
        results(world).save(lease, "late", 1)


def test_what_was_saved_goes_along_with_an_effect_that_is_carried(world: World) -> None:
    world.at("working")
    lease = world.claim()
    results(world).save(lease, "one", 1)
    world.fire("r", "poke")

    world.fire("r", "go_on", warrant=token(lease))

    assert results(world).find(lease, "one") == SavedResult(1)


def test_an_effect_of_a_transition_keeps_its_results_until_it_is_settled(world: World) -> None:
    world.at("asking")
    notify = world.claim("notify")
    results(world).save(notify, "sent", "by mail")
    world.fire("r", "polish")
    polish = world.claim("polish")
    results(world).save(polish, "shine", 1)
    assert stored(world) == {"sent", "shine"}

    world.settle(notify)

    assert stored(world) == {"shine"}


def test_a_record_has_a_limited_number_of_results(world: World) -> None:
    world.at("working")
    lease = world.claim()
    for name in ("one", "two"):
        results(world, 2).save(lease, name, 1)

    with pytest.raises(InvalidPayloadError, match="r has 2 results already; save several as one"):
        results(world, 2).save(lease, "three", 1)
    results(world, 2).save(lease, "two", 2)
    results(world, 2).keep(lease, {"trigger": "done"})

    assert stored(world) == {"one", "two", "@outcome"}
    assert results(world).find(lease, "two") == SavedResult(2)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * PAYLOAD_BYTES_MAX, f"the limit is {PAYLOAD_BYTES_MAX}; pass a reference instead"),
        ({1, 2}, "the result big is invalid: it is not JSON"),
        (float("nan"), "it is not JSON"),
    ],
)
def test_what_is_no_json_or_too_large_is_refused(world: World, value: Any, why: str) -> None:
    world.at("working")
    lease = world.claim()

    with pytest.raises(InvalidPayloadError, match=why):
        results(world).save(lease, "big", value)

    assert stored(world) == set()


@pytest.mark.parametrize("name", ["", "@outcome", "x" * 101])
def test_a_name_that_cannot_be_one_is_refused(world: World, name: str) -> None:
    world.at("working")

    with pytest.raises(InvalidPayloadError, match="a name has up to 100 characters"):
        results(world).save(world.claim(), name, 1)


OUTCOME = {"trigger": "done", "payload": {"value": 1}, "deltas": {}, "reason": ""}


def test_an_outcome_that_is_kept_comes_with_the_next_claim(world: World) -> None:
    world.at("working")
    first = world.claim()
    assert first.outcome is None
    results(world).keep(first, OUTCOME)
    world.leases.release(first, counted=True)

    assert world.claim(nonce="b").outcome == OUTCOME
    assert world.claim(nonce="b").outcome == OUTCOME, "a repeat gets it as well"


def test_a_result_is_no_outcome(world: World) -> None:
    world.at("working", payload={"once": True})
    lease = world.claim()
    results(world).save(lease, "one", 1)

    assert world.leases.release(lease, counted=True) == "lapsed", "it may not start again"


def test_an_effect_that_is_done_once_may_start_again_when_its_outcome_is_kept(
    world: World,
) -> None:
    world.at("working", payload={"once": True})
    first = world.claim()
    results(world).keep(first, OUTCOME)

    assert world.leases.release(first, counted=True) == "owed"
    second = world.claim(nonce="b")

    assert second.outcome == OUTCOME
    lost(world)
    assert world.claim(nonce="c").outcome == OUTCOME, "its loss is no crash either"


def test_a_person_is_asked_where_a_kept_outcome_cannot_be_committed(world: World) -> None:
    world.at("working")
    results(world).keep(world.claim("work", "k"), OUTCOME)
    world.leases.release(world.claim("work", "k"), counted=True)
    key = world.key()

    world.leases.release(world.claim(nonce="b"), counted=True)
    world.later(2_000)
    assert world.poll_status(key) == "quarantined", "though its table fires fail then"

    world.flag("retry")
    assert world.claim(nonce="c").outcome == OUTCOME


def test_the_last_attempt_is_the_last_however_many_were_left(world: World) -> None:
    world.at("polishing")
    key = world.key("polish")

    assert world.leases.release(world.claim("polish"), counted=True, is_last=True) == "owed"

    world.later(2_000)
    assert world.poll_status(key) == "quarantined"
    assert (world.entry("polish").attempts, world.entry("polish").attempts_max) == (1, 1)


def test_an_attempt_that_is_not_the_last_leaves_the_others(world: World) -> None:
    world.at("polishing")
    world.leases.release(world.claim("polish"), counted=True)

    assert world.entry("polish").attempts_max == 2
    assert world.claim("polish", "b").attempt == 2


def test_that_an_attempt_hangs_comes_with_each_later_claim_until_the_effect_ends(
    world: World,
) -> None:
    world.at("working")
    first = world.claim()
    assert not first.has_hung
    results(world, 0).mark_hung(first)
    world.leases.release(first, counted=True)

    second = world.claim(nonce="b")

    assert (second.has_hung, second.outcome) == (True, None)
    world.leases.release(second, counted=True)
    world.fire("r", "again")
    assert not world.claim(nonce="c").has_hung


def test_only_the_holder_of_an_effect_says_that_its_attempt_hangs(world: World) -> None:
    world.at("working")
    first = world.claim()
    lost(world)
    world.claim(nonce="b")

    with pytest.raises(FencedError):
        results(world).mark_hung(first)
