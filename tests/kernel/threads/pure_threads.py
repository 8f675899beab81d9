"""A thread that a test tells what happens, without a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.machine import Decision
from interlock.kernel.machines.threads.thread.table import THREAD
from interlock.kernel.record import Record, RecordId, Version
from tests.kernel.samples import DECLARED, action, proposed, thread

Data = Mapping[str, Any]


class Told:
    """A thread that is driven by hand, without a store."""

    def __init__(self, data: Data, state: str = "proposed", of: str = "r") -> None:
        self.record = Record(RecordId(of), "thread", state, Version(1), data)
        self.last: Decision

    def fire(self, trigger: str, payload: Data | None = None, facts: Data | None = None) -> Told:
        admitted = THREAD.admit(trigger, payload or {})
        self.last = THREAD.decide(self.record, trigger, admitted, facts or {})
        self.record = self.last.after
        return self

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def data(self) -> Data:
        return self.record.data

    @property
    def why(self) -> Data:
        assert self.last.explanation is not None
        return self.last.explanation

    def infer(self, payload: Data, confidence: float = 0.9, **more: Any) -> Told:
        """Take it off the queue and answer."""
        facts = more.pop("facts", None)
        self.fire("inference_started")
        return self.fire("inference_done", proposed(payload, confidence, **more), facts)


INTENT = {"intent": "see a dentist"}
CONTEXT = {"item_ids": ["a"], "reasoning": "the same tooth"}


def at_action(policy: str = "end_to_end") -> Told:
    told = Told(thread(policy)).fire("begin_inference")
    return told.infer(INTENT).infer(CONTEXT)


def asked(policy: str = "plan_then_review") -> Told:
    """Bring a thread to where a person is asked for consent."""
    told = at_action(policy).infer(action(), declared=DECLARED)
    assert told.state == "awaiting_confirmation"
    return told
