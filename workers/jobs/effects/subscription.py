"""Asks to be told of the end of everything that a job depends on; what has ended it is told now."""

from __future__ import annotations

from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.store.subscriptions import Dependent
from interlock.workers.engine.work import Work
from interlock.workers.jobs.dependencies import lose, to_register


def registration(work: Work) -> None:
    """Count every dependency, then register with each. The countdown ends when the last is told.

    All are counted before any is asked, so that a fast first end cannot look like the last one.
    """
    record = work.record
    if record.data["met"]:
        return
    generation = work.lease.suffix.partition(".")[0]
    countdown = f"{record.spawning(work.lease.suffix)}:{generation}"
    here, named = Dependent.of(record, countdown), to_register(work, countdown)
    if not work.dispatch.subscriptions.join(here, named):
        return  # it has ended meanwhile
    for one in named:
        work.raise_if_stopped()
        ended = work.dispatch.subscriptions.register(one, here)
        if not ended:
            continue
        if ended != State.SUCCESS:
            lose(work, one, ended)
        work.dispatch.leave_countdown(here, one, ended)
