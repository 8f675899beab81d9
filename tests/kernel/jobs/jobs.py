"""A job that a test tells what happens, without a store; and where it can be brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.machine import Decision
from interlock.kernel.machines.jobs.job.table import JOB
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Terminal
from tests.kernel.samples import EVIDENCE, job

Data = Mapping[str, Any]
Step = tuple[str, dict[str, Any]]

ACTIVATED: tuple[Step, ...] = (("activate", {}),)
MET: tuple[Step, ...] = (*ACTIVATED, ("dependencies_met", {"tally": {}}))
RUNNING: tuple[Step, ...] = (*MET, ("scheduled", {"slots": ["g"], "time_left_ms": 60_000}))
COMPLETED: tuple[Step, ...] = (
    *RUNNING,
    ("phase_completed", {"summary": "built", "evidence": [EVIDENCE]}),
    ("agent_completed", {"summary": "tested"}),
)
REVIEWING: tuple[Step, ...] = (*COMPLETED, ("step", {}))
ROUTES: Mapping[str, tuple[Step, ...]] = {
    "draft": (),
    "pending": MET,
    "running": RUNNING,
    "paused": (*RUNNING, ("pause", {})),
    "review_required": COMPLETED,
    "reviewing": REVIEWING,
    "approval_required": (*REVIEWING, ("review_completed", {"verdict": "approval_required"})),
    "intervention_required": (*RUNNING, ("stuck", {"code": "stuck", "detail": "which key?"})),
    "suspended": (*MET, ("suspend", {})),
    "canceled": (("cancel", {}),),
}
LIVE = [str(stage.state) for stage in JOB.stages if not isinstance(stage, Terminal)]


class Job:
    """A job that is driven by hand, without a store."""

    def __init__(self, **given: Any) -> None:
        self.record = Record(RecordId("g/j"), "job", "draft", Version(1), job(**given))
        self.last: Decision = JOB.decide_creation(self.record)

    @classmethod
    def at(cls, state: str, **given: Any) -> Job:
        """Bring a job to a state by the shortest way."""
        told = cls(**given)
        for trigger, payload in ROUTES[state]:
            told.fire(trigger, **payload)
        assert told.state == state
        return told

    def fire(self, trigger: str, **payload: Any) -> Job:
        admitted = JOB.admit(trigger, payload)
        self.last = JOB.decide(self.record, trigger, admitted)
        self.record = self.last.after
        return self

    def having(self, **changes: Any) -> Job:
        """Change its data as nobody would, to stand where a long story would bring it."""
        self.record = replace(self.record, data={**self.data, **changes})
        return self

    def to(self, *triggers: str) -> Job:
        for trigger in triggers:
            self.fire(trigger)
        return self

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def data(self) -> Data:
        return self.record.data

    @property
    def asks(self) -> bool:
        """Whether a person is what it waits for."""
        return JOB.stage(self.state).waits_for_person(self.data)

    @property
    def owed(self) -> list[str]:
        return [one.effect.name for one in self.last.owes]

    @property
    def timers(self) -> dict[str, int]:
        """The timers that its last step started, by name, in ms."""
        return {timer.name: timer.delay_ms for timer in self.last.timers}


def refused(told: Job, trigger: str, match: str, **payload: Any) -> None:
    """Fire, and expect that a guard says no."""
    before = told.record
    with pytest.raises(GuardRefusedError, match=match):
        told.fire(trigger, **payload)
    assert told.record is before
