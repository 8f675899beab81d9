"""The state of a record for those who only show it: also where the table lacks it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from interlock.kernel.errors import UnknownStateError
from interlock.kernel.machine import Machine
from interlock.kernel.meaning import Meaning
from interlock.kernel.table import Active, Stage, Terminal, Waiting, always


class Unknown(StrEnum):
    """What stands for a state that a table lacks."""

    STATE = "unknown"


def knows(machine: Machine, state: str) -> bool:
    """Whether the table of a machine has a state."""
    return any(stage.state == state for stage in machine.stages)


def shown_stage(machine: Machine, state: str) -> Stage:
    """Return the stage of a state; of one that the table lacks, a stage whose outlook says so."""
    if knows(machine, state):
        return machine.stage(state)
    why = str(UnknownStateError(machine.name, state))
    return Stage(Unknown.STATE, outlook=lambda _: why)


def shown_legal(machine: Machine, state: str) -> tuple[str, ...]:
    """Return the triggers that have a row in a state: none where the table lacks the state."""
    return machine.legal(state) if knows(machine, state) else ()


@dataclass(frozen=True, slots=True)
class ShownState:
    """A state as people see it: what they call it, and what it means."""

    words: str
    meaning: Meaning


def shown_state(machine: Machine, state: str, *, asks: bool | None = None) -> ShownState:
    """Return a state as people see it.

    `asks` says whether the record in it waits for a person. Without it, of many records or none,
    the state means that only if it asks a person in every record.
    """
    stage = shown_stage(machine, state)
    return ShownState(stage.shown or as_words(state), _meaning(machine, stage, asks=asks))


def as_words(name: str) -> str:
    """Return a name such as `awaiting_review` as words, with blanks between them."""
    return name.replace("_", " ")


def _meaning(machine: Machine, stage: Stage, *, asks: bool | None) -> Meaning:
    if stage.meaning:
        return stage.meaning
    match stage:
        case Active():
            return Meaning.WORKS
        case Terminal(is_success=True):
            return Meaning.DONE
        case Terminal():
            return Meaning.FAILED if _is_failure(machine, stage) else Meaning.ENDED
        case Waiting() if asks is None:
            asks = bool(stage.affordances) and stage.asks is always
    return Meaning.ASKS if asks else Meaning.WAITS


def _is_failure(machine: Machine, end: Terminal) -> bool:
    """Whether all rows into an end are fired because an effect has failed."""
    into = [row for row in machine.transitions if row.target == end.state]
    sources = [(machine.stage(row.source), row.trigger) for row in into]
    return bool(into) and all(
        isinstance(stage, Active) and stage.is_failure(trigger) for stage, trigger in sources
    )
