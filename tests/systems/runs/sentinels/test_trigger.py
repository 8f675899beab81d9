"""A sentinel is triggered by any of its events, or by all of them in their order."""

from __future__ import annotations

import pytest

from interlock.systems.runs.sentinels.trigger import SentinelEvent, SentinelTrigger


def matched(trigger: SentinelTrigger, names: str) -> list[str]:
    """Return the numbers of the events of each match, as text."""
    partial: tuple[SentinelEvent, ...] = ()
    found = []
    for number, name in enumerate(names):
        partial, match = trigger.advance(partial, SentinelEvent(name, number, {}))
        if match:
            found.append("".join(str(event.at_ms) for event in match))
    return found


@pytest.mark.parametrize(
    ("names", "matches"),
    [("", []), ("xyx", []), ("axb", ["0", "2"]), ("aab", ["0", "1", "2"])],
)
def test_any_of_its_events_triggers_a_sentinel(names: str, matches: list[str]) -> None:
    assert matched(SentinelTrigger(("a", "b"), ordered=False), names) == matches


@pytest.mark.parametrize(
    ("names", "matches"),
    [
        ("abc", ["012"]),
        ("axbyc", ["024"]),  # others may come in between
        ("acb", []),
        ("bca", []),
        ("aabc", ["023"]),  # the earliest that fits
        ("abcabc", ["012", "345"]),  # it starts again
        ("ababcc", ["014"]),  # an event counts for one match
        ("ab", []),
    ],
)
def test_a_sequence_triggers_when_its_events_came_in_their_order(
    names: str, matches: list[str]
) -> None:
    assert matched(SentinelTrigger(("a", "b", "c"), ordered=True), names) == matches


def test_one_event_may_stand_in_a_sequence_twice() -> None:
    assert matched(SentinelTrigger(("a", "a"), ordered=True), "axaaxa") == ["02", "35"]
