"""Asks to be told of the end of everything that a job depends on; what has ended it is told now."""

from __future__ import annotations

from kernel.errors import CallError
from kernel.machines.job.names import State
from kernel.store.tells import Dependent
from workers.work import Outcome, Work


def registration(work: Work) -> None:
    """Count every dependency, then register with each. The countdown ends when the last is told.

    All are counted before any is asked, so that a fast first end cannot look like the last one.
    """
    record = work.record
    if record.data["met"]:
        return
    generation = work.lease.suffix.partition(".")[0]
    countdown = f"{record.spawning(work.lease.suffix)}:{generation}"
    here = Dependent.of(record, countdown)
    if not work.dispatch.tells.join(here, record.data["depends_on"]):
        return  # it has ended meanwhile
    for one in record.data["depends_on"]:
        work.go_on()
        ended = work.dispatch.tells.register(one, here)
        if not ended:
            continue
        if ended != State.SUCCESS:
            _lose(work, one, ended)
        work.dispatch.depart(here, one, ended)


def _lose(work: Work, one: str, ended: str) -> None:
    """Fire that a dependency is lost, unless that is known: from an earlier attempt or its tell."""
    lost = Outcome(
        work.machine.loses, {"dependency": one, "state": ended}, reason=f"{one}: {ended}"
    )
    if not work.machine.explain(work.record, lost.trigger, lost.payload).target:
        return
    try:
        work.fire(lost)
    except CallError:
        work.record = work.dispatch.views.record(work.record.id)
