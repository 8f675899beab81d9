"""A thread that a test drives without a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.decision import Decision
from interlock.kernel.record import Record, RecordId, Version
from interlock.systems.threads.machines.thread.table import THREAD
from tests.kernel.samples import DECLARED, action, proposed, thread

Data = Mapping[str, Any]


class PureThread:
    """A thread without a store, driven by one trigger after the other."""

    def __init__(self, data: Data, state: str = "proposed", record_id: str = "r") -> None:
        self.record = Record(RecordId(record_id), "thread", state, Version(1), data)
        self.last: Decision

    def fire(
        self, trigger: str, payload: Data | None = None, facts: Data | None = None
    ) -> PureThread:
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

    def infer(self, payload: Data, confidence: float = 0.9, **more: Any) -> PureThread:
        """Fire the begin and the end of an inference."""
        facts = more.pop("facts", None)
        self.fire("inference_started")
        return self.fire("inference_done", proposed(payload, confidence, **more), facts)


INTENT = {"intent": "see a dentist"}
CONTEXT = {"item_ids": ["a"], "reasoning": "the same tooth"}


def at_action(policy: str = "end_to_end") -> PureThread:
    case = PureThread(thread(policy)).fire("begin_inference")
    return case.infer(INTENT).infer(CONTEXT)


def asked(policy: str = "plan_then_review") -> PureThread:
    """Return a thread that asks a person for consent."""
    case = at_action(policy).infer(action(), declared=DECLARED)
    assert case.state == "awaiting_confirmation"
    return case
