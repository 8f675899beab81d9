"""Names the parts of a workflow for callers and for rows by hand, and takes such rows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeVar

from pydantic import BaseModel

from interlock.kernel.rows import Row
from interlock.kernel.table import Transition
from interlock.workflow.data import Data
from interlock.workflow.defined import Defined
from interlock.workflow.hand_checks import check_named
from interlock.workflow.names import enum_of
from interlock.workflow.parts import HandRows, NamedPart
from interlock.workflow.place import here

D = TypeVar("D", bound=Data)


class ByHand(Defined[D]):
    """A workflow with names of its parts, and with rows of its author's own."""

    def at(self, state: str, /) -> StrEnum:
        """Return a state or an end, as tables and lists of records name it.

        Raises WorkflowError if there is none of this name: after `ends` at once, before by `ends`.
        """
        return self._named("state", state)

    def trigger(self, name: str, /) -> StrEnum:
        """Return a trigger, such as a call, a choice or `cancel`, as `Client.fire` takes it.

        Raises WorkflowError as `at` does.
        """
        return self._named("trigger", name)

    def rows(
        self,
        state: str,
        /,
        *rows: Row,
        payloads: Mapping[str, type[BaseModel]] | None = None,
    ) -> None:
        """Add rows by hand that lead from a state: `move(...)`, `stay(...)` or `reenter(...)`.

        They go before the workflow's own rows for the same trigger, and are checked with the whole.
        Their functions get the data as JSON. `payloads` are the models of new triggers.
        """
        place = here()
        self.declared.refuse_twin(place, f"a row of {state}", "", None)
        made = [row(enum_of("State", [state])[state]) if callable(row) else row for row in rows]
        for row in made:
            if not isinstance(row, Transition):
                raise place.error(f"{row!r} is no row: write move(...), stay(...) or reenter(...)")
        self.declared.by_hand.append(
            HandRows(place=place, transitions=tuple(made), payloads=payloads or {})
        )

    def _named(self, kind: Literal["state", "trigger"], name: str) -> StrEnum:
        place = here()
        if not isinstance(name, str):
            raise place.error(f"{name!r} is no name of a {kind}: write a text")
        part = NamedPart(kind=kind, member=enum_of(kind.title(), [name])[name], place=place)
        if self.declared.ended_at:
            check_named(self.declared, part, self.machine.transitions)
        else:
            self.declared.named.append(part)
        return part.member
