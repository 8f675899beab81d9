"""What a system adds to `interlock top`: rows about its records, a table, and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from interlock.workers.client import Client


@dataclass(frozen=True, slots=True)
class AgedRecord:
    """A record, its state, how long it has been in that state, and why, if there is a reason."""

    id: str
    machine: str
    state: str
    age_s: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class TopRow:
    """A label, and its items on up to `lines_max` lines; `nothing` is shown if there are none."""

    label: str
    items: Sequence[Text]
    nothing: str = ""
    lines_max: int = 2


# How grave it is, some words on whether work flows, and their style.
FlowVerdict = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class TopPart:
    """A system's part of the screen.

    `reader` gets the name of a backlog, or '', and returns what reads the system's state now, as a
    dataclass of the type `shape`. It raises CallError if there is no such backlog. The other
    functions get what was read. `has_any` says whether there is anything to show; if not, the part
    is left out where other systems have something. `verdicts` returns words on whether work flows,
    each with a weight before them and a style after: of all that hold, the lowest weight is shown.
    Sweeps that are late weigh 0, problems 20, questions to people 50, and work that flows 60.
    `above` and `below` return the rows before and after those of all systems. `table` returns what
    is drawn below all rows, in so many lines (None: any number) and columns, and sentences about
    what that leaves out.
    """

    shape: type[Any]
    reader: Callable[[Client, str], Callable[[], Any]]
    has_any: Callable[[Any], bool]
    verdicts: Callable[[Any], Iterable[FlowVerdict]]
    above: Callable[[Any], Iterable[TopRow]]
    below: Callable[[Any], Iterable[TopRow]]
    table: Callable[[Any, int | None, int], tuple[Sequence[RenderableType], Sequence[str]]]
