"""A sentinel is triggered by any of its events, or by all of them in their order."""

from __future__ import annotations

import pytest

from interlock.workers.runs.sentinels.trigger import Event, Trigger


def matched(trigger: Trigger, names: str) -> list[str]:
    """Return the places of the events of each match, as text."""
    seen: tuple[Event, ...] = ()
    found = []
    for place, name in enumerate(names):
        seen, match = trigger.advance(seen, Event(name, place, {}))
        if match:
            found.append("".join(str(event.at_ms) for event in match))
    return found


@pytest.mark.parametrize(
    ("names", "matches"),
    [("", []), ("xyx", []), ("axb", ["0", "2"]), ("aab", ["0", "1", "2"])],
)
def test_any_of_its_events_triggers_a_sentinel(names: str, matches: list[str]) -> None:
    assert matched(Trigger(("a", "b"), ordered=False), names) == matches


@pytest.mark.parametrize(
    ("names", "matches"),
    [
        ("abc", ["012"]),
        ("axbyc", ["024"]),  # others may come in between
        ("acb", []),
        ("bca", []),
        ("aabc", ["023"]),  # the earliest that fits
        ("abcabc", ["012", "345"]),  # it begins anew
        ("ababcc", ["014"]),  # an event counts for one match
        ("ab", []),
    ],
)
def test_a_sequence_triggers_when_its_events_came_in_their_order(
    names: str, matches: list[str]
) -> None:
    assert matched(Trigger(("a", "b", "c"), ordered=True), names) == matches


def test_one_event_may_stand_in_a_sequence_twice() -> None:
    assert matched(Trigger(("a", "a"), ordered=True), "axaaxa") == ["02", "35"]
