"""Makes the parts of a card by the functions of the table, also where one of them is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from interlock.kernel.calling import called
from interlock.kernel.errors import TableFunctionError
from interlock.kernel.machine import Machine
from interlock.kernel.question import as_sentence
from interlock.kernel.record import Record
from interlock.workers.text import visible_line

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CardParts:
    """The parts of the card of one record. A part that cannot be made is left out, and said.

    A card is shown with its choices whatever the functions of its table do: a question that nobody
    sees would never be answered.
    """

    machine: Machine
    record: Record
    faults: list[str] = field(default_factory=list)

    def made(self, name: str, default: Any, function: Callable[..., Value], *given: Any) -> Value:
        """Return what a function makes, or the default if it raises."""
        try:
            return called(self.machine.name, f"{name} of {self.record.state}", function, *given)
        except TableFunctionError as refusal:
            self.faults.append(str(refusal))
            fallback: Value = default
            return fallback

    def whole(self, question: str) -> str:
        """Return the question, and which parts of the card are missing."""
        if not self.faults:
            return question
        why = visible_line("; ".join(self.faults))
        missing = f"Not all of this card can be shown: {as_sentence(why)}"
        return f"{as_sentence(question)} {missing}".strip()
