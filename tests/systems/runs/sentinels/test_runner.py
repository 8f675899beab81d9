"""A finishing or unloaded sentinel ignores events, and the first reason to unload is kept."""

from __future__ import annotations

from interlock.systems.runs.machines.values import UnloadReason
from interlock.systems.runs.sentinels.call import BookCost
from interlock.systems.runs.sentinels.call_timing import Batch
from interlock.systems.runs.sentinels.journal import REMARKS_MAX, Journal, Remark
from interlock.systems.runs.sentinels.runner import SentinelRunner
from interlock.systems.runs.sentinels.trigger import SentinelEvent
from tests.systems.runs.sentinels.sentinel_hosts import sentinel


async def never_called(events: Batch, book: BookCost) -> str:
    raise AssertionError(events, book)


def new_runner() -> SentinelRunner:
    specification = sentinel(command="true", strategy={"count": 9})
    return SentinelRunner(
        specification, never_called, clock_ms=lambda: 7, now_ms=lambda: 0.0, journal=Journal()
    )


def test_a_finishing_sentinel_ignores_events() -> None:
    runner = new_runner()
    runner.receive(SentinelEvent("e", 1, {}))
    runner.finish()
    runner.receive(SentinelEvent("e", 2, {}))

    assert runner.state.total_triggers == 1
    assert [event.at_ms for event in runner.backlog.take() or ()] == [1]


def test_an_unloaded_sentinel_ignores_events_and_counts_those_it_did_not_get() -> None:
    runner = new_runner()
    runner.receive(SentinelEvent("e", 1, {}))
    runner.unload(UnloadReason.FATAL_ERROR)
    runner.receive(SentinelEvent("e", 2, {}))
    runner.unload(UnloadReason.CODON_COMPLETE)

    assert runner.state.total_triggers == 1
    assert runner.state.unload_reason is UnloadReason.FATAL_ERROR
    assert (len(runner.backlog), runner.backlog.left_out) == (0, 1)


def test_of_too_many_remarks_the_newest_stay() -> None:
    journal = Journal()
    for number in range(REMARKS_MAX + 1):
        journal.remark(Remark("eye", number, ""))

    assert [one.at_ms for one in journal.take_remarks()] == list(range(1, REMARKS_MAX + 1))
    assert journal.take_remarks() == []
