"""What a workflow gives the engine: its table, its handlers, and its data as their model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from interlock.kernel.errors import InvalidPayloadError, MachineDefectError
from interlock.kernel.machine import Machine
from interlock.workers.engine.system import Definition
from interlock.workers.engine.work import Handler
from interlock.workflow.checks import as_written
from interlock.workflow.data import Data, checked, visible
from interlock.workflow.names import families_of
from interlock.workflow.parts import Declared
from interlock.workflow.steps import handlers_of
from interlock.workflow.table import machine_of

D = TypeVar("D", bound=Data)


class Defined(Definition[D], Generic[D]):
    """A workflow of which all is declared."""

    def __init__(self, data: type[D], declared: Declared) -> None:
        super().__init__(declared.name, data, str(declared.place))
        self.declared = declared

    @cached_property
    def machine(self) -> Machine:
        """The table that the workflow is. Raises WorkflowError if `ends` was not called."""
        if self.declared.ended_at is None:
            message = f"{self.name} has no ends: write {self.name}.ends(done=True)"
            raise self.declared.place.error(message)
        try:
            return machine_of(self.declared)
        except MachineDefectError as defect:
            raise as_written(self.declared, defect) from defect

    @cached_property
    def children(self) -> SimpleNamespace:
        """The workflows of items that functions work on, by the names of the states that wait."""
        families = families_of(self.declared).items()
        return SimpleNamespace(**{name: one.child for name, one in families if one.function})

    @cached_property
    def handlers(self) -> Mapping[str, Handler]:
        """The functions of the steps, by the effects that run them."""
        return handlers_of(self.declared)

    def as_payload(self, data: object) -> Mapping[str, Any]:
        """Return what a record with this data is created from. Raises InvalidPayloadError."""
        if not isinstance(data, self.data):
            problem = f"it is {type(data).__name__}, not {self.data.__name__}"
            raise InvalidPayloadError(self.name, [problem])
        return checked(self.data, self.name, data.model_dump())

    def load(self, data: Mapping[str, Any]) -> D:
        """Return the data of a record as their model."""
        return self.data.model_validate(visible(data))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the data, which pages and commands show."""
        return tuple(self.data.model_fields)
