"""A job that a test drives without a store, and the triggers that lead to each state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.decision import Decision
from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Terminal
from interlock.systems.jobs.machines.job.table import JOB
from tests.kernel.samples import EVIDENCE, job

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


class PureJob:
    """A job without a store, driven by one trigger after the other."""

    def __init__(self, **given: Any) -> None:
        self.record: Record = Record(RecordId("g/j"), "job", "draft", Version(1), job(**given))
        self.last: Decision = JOB.decide_creation(self.record)

    @classmethod
    def at(cls, state: str, **given: Any) -> PureJob:
        """Return a job in this state, by the shortest way."""
        case = cls(**given)
        for trigger, payload in ROUTES[state]:
            case.fire(trigger, **payload)
        assert case.state == state
        return case

    def fire(self, trigger: str, **payload: Any) -> PureJob:
        admitted = JOB.admit(trigger, payload)
        self.last = JOB.decide(self.record, trigger, admitted)
        self.record = self.last.after
        return self

    def having(self, **changes: Any) -> PureJob:
        """Change the data directly, as many transitions would."""
        self.record = replace(self.record, data={**self.data, **changes})
        return self

    def to(self, *triggers: str) -> PureJob:
        for trigger in triggers:
            self.fire(trigger)
        return self

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def data(self) -> Any:
        return self.record.data

    @property
    def asks(self) -> bool:
        """Whether the job waits for a person."""
        return JOB.stage(self.state).waits_for_person(self.data)

    @property
    def owed(self) -> list[str]:
        """The effects owed by the last transition, beside the manifest, which follows each."""
        *others, mirror = [owed.effect.name for owed in self.last.owes]
        assert mirror == "manifest"
        return others

    @property
    def timers(self) -> dict[str, int]:
        """The timers that the last transition started, by name, in ms."""
        return {timer.name: timer.delay_ms for timer in self.last.timers}


def refused(case: PureJob, trigger: str, match: str, **payload: Any) -> None:
    """Fire, and expect that a guard refuses."""
    before = case.record
    with pytest.raises(GuardRefusedError, match=match):
        case.fire(trigger, **payload)
    assert case.record is before
