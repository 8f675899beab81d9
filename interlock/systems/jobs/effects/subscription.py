"""Subscribes a job to the end of each job that it depends on."""

from __future__ import annotations

from interlock import EffectWork
from interlock.systems.jobs.dependencies import dependencies_to_count, report_lost
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State


def subscription(work: EffectWork[JobData]) -> None:
    """Count every dependency in a countdown, then subscribe to the end of each.

    All are counted before the first subscription, so that the first end cannot empty the countdown.
    A dependency that has ended already is counted down at once.
    """
    record = work.record
    if record.data["met"]:
        return
    generation = work.lease.suffix.partition(".")[0]
    name = f"{record.spawning(work.lease.suffix)}:{generation}"
    countdown = work.records.countdown(record, name)
    dependencies = dependencies_to_count(work, name)
    if not countdown.join(dependencies):
        return  # this countdown has ended since
    for dependency in dependencies:
        work.raise_if_stopped()
        ended = countdown.subscribe(dependency)
        if not ended:
            continue
        if ended != State.SUCCESS:
            report_lost(work, dependency, ended)
        countdown.leave(dependency, ended)
