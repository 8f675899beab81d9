"""The calls of a client that return the data of a workflow's records as their model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from pydantic import BaseModel

from interlock.kernel.errors import CallError, EndedError
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.system import Definition

D = TypeVar("D", bound=BaseModel)


class WorkflowCalls(ABC):
    """The part of `Client` that knows the types of workflows."""

    dispatch: Dispatch

    @abstractmethod
    def show(self, record_id: str) -> Record:
        """Return a record as it is now."""

    @abstractmethod
    def wait(self, record_id: str, *, timeout_s: float, for_person: bool = True) -> Record:
        """Wait until a record has ended or asks a person. Raises WaitTimeoutError."""

    def get(self, workflow: Definition[D], record_id: str, /) -> D:
        """Return the data of a record of a workflow as it is now.

        Raises UnknownRecordError, and CallError if the record is of another machine.
        """
        record = self.show(record_id)
        if record.machine != workflow.name:
            raise CallError(f"{record_id} is a {record.machine}, and no {workflow.name}")
        return workflow.load(record.data)

    def result(self, workflow: Definition[D], record_id: str, /, *, timeout_s: float) -> D:
        """Wait until a record of a workflow has ended, and return its data.

        Raises EndedError if it has ended without success, WaitTimeoutError.
        """
        record = self.wait(record_id, timeout_s=timeout_s, for_person=False)
        data, machine = (
            self.get(workflow, record_id),
            self.dispatch.lifecycle.machine(workflow.name),
        )
        stage = machine.stage(record.state)
        if not (isinstance(stage, Terminal) and stage.is_success):
            raise EndedError(record_id, record.state, data)
        return data
