"""Who finishes or is unloaded hears nothing more, and the first reason to unload stays."""

from __future__ import annotations

from interlock.kernel.machines.runs.values import UnloadReason
from interlock.workers.runs.sentinels.call import Book
from interlock.workers.runs.sentinels.journal import REMARKS_MAX, Journal, Remark
from interlock.workers.runs.sentinels.runner import Watch
from interlock.workers.runs.sentinels.strategy import Batch
from interlock.workers.runs.sentinels.trigger import Event
from tests.workers.runs.sentinels.sentinel_hosts import sentinel


async def never_called(events: Batch, book: Book) -> str:
    raise AssertionError(events, book)


def watch() -> Watch:
    specification = sentinel(command="true", strategy={"count": 9})
    return Watch(
        specification, never_called, clock_ms=lambda: 7, now_ms=lambda: 0.0, journal=Journal()
    )


def test_who_finishes_hears_nothing_more() -> None:
    observer = watch()
    observer.hear(Event("e", 1, {}))
    observer.finish()
    observer.hear(Event("e", 2, {}))

    assert observer.state.total_triggers == 1
    assert [event.at_ms for event in observer.backlog.take() or ()] == [1]


def test_who_is_unloaded_hears_nothing_more_and_what_it_did_not_see_is_counted() -> None:
    observer = watch()
    observer.hear(Event("e", 1, {}))
    observer.unload(UnloadReason.FATAL_ERROR)
    observer.hear(Event("e", 2, {}))
    observer.unload(UnloadReason.CODON_COMPLETE)

    assert observer.state.total_triggers == 1
    assert observer.state.unload_reason is UnloadReason.FATAL_ERROR
    assert (len(observer.backlog), observer.backlog.left_out) == (0, 1)


def test_of_too_many_remarks_the_newest_stay() -> None:
    journal = Journal()
    for number in range(REMARKS_MAX + 1):
        journal.remark(Remark("eye", number, ""))

    assert [one.at_ms for one in journal.take_remarks()] == list(range(1, REMARKS_MAX + 1))
    assert journal.take_remarks() == []
