"""What a difference between two tables is, and what it means for the records of the older. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.kernel.machine import Machine

Outline = Mapping[str, Any]


class Outlook(StrEnum):
    """What becomes of the records that a change is about."""

    STRANDED = "stranded"  # they have no place in the new table
    MOVED = "moved"  # they are taken to it
    ENDING = "ending"  # they go on by it as they would have, and nothing follows them there
    GOING_ON = "going on"  # they go on by it, with what the change says


@dataclass(frozen=True, slots=True)
class TableChange:
    """One difference, and what it means for the records in some states of the older table.

    `states` is None for all records that have not ended. With a `field` of the data the change is
    only about those of them whose data do not fit the newer model there; `fitting` says what it
    means where the data of all fit.
    """

    verdict: Outlook
    what: str
    means: str
    states: tuple[str, ...] | None
    field: str = ""
    fitting: str = ""


def named(outline: Outline) -> dict[str, Outline]:
    """Return the states of an outline by their names."""
    return {state["name"]: state for state in outline["states"]}


def pairs(old: Outline, new: Outline, machine: Machine) -> Iterator[tuple[Outline, Outline]]:
    """Yield each state that both tables have with the same kind, as the older and the newer."""
    known = named(new)
    for name, state in named(old).items():
        after = known.get(machine.renamed.get(name, name))
        if after and after["kind"] == state["kind"]:
            yield state, after
