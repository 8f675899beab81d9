"""The part of coding tasks in `interlock top`: agents, tasks, what is starved, a row a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from rich.console import RenderableType
from rich.text import Text

from interlock import Client
from interlock.system.pages import StateName
from interlock.system.text import age
from interlock.system.top import (
    AgedRecord,
    TopPart,
    TopRow,
)
from interlock.systems.tasks.claims_table import claims_table, style_of
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.visual_state import APPEARANCES, VisualState
from interlock.systems.tasks.overview import TasksOverview, TasksReader
from interlock.systems.tasks.starved import find_starved

STARVED_SHOWN_MAX = 2
QUIET_STATES = (State.CLOSED, State.CANCELLED)  # they come last


@dataclass(frozen=True, slots=True)
class TasksAtOnce(TasksOverview):
    """The tasks and their agents at one moment, and which open tasks no agent will ever claim.

    `starved_partial`: not all open tasks were looked at, so that more may be starved.
    """

    starved: tuple[AgedRecord, ...]
    starved_partial: bool


def reader(client: Client, backlog: str) -> Callable[[], TasksAtOnce]:
    """Return what reads the tasks, of one backlog or all. Raises CallError if it does not exist."""
    if backlog:
        Tasks(client).ids_of(backlog)
    tasks = TasksReader(client, backlog=backlog)

    def read() -> TasksAtOnce:
        found, starved = tasks.read(), find_starved(client.records, backlog)
        return TasksAtOnce(
            **{field.name: getattr(found, field.name) for field in fields(found)},
            starved=starved.tasks,
            starved_partial=starved.is_partial,
        )

    return read


def has_any(found: TasksAtOnce) -> bool:
    """Whether there are tasks or agents."""
    return bool(any(found.tasks.values()) or found.lines)


def verdicts(found: TasksAtOnce) -> Iterator[tuple[int, str, str]]:
    """Yield what is so of the tasks and agents."""
    looks, starved = found.looks, len(found.starved)
    active = sum(number for look, number in looks.items() if look != VisualState.DEAD)
    if stalled := looks[VisualState.STALLED]:
        yield (10, f"{stalled} stalled", "bold dark_orange")
    if starved:
        yield (30, f"{starved} starved", "bold red")
    if found.tasks["open"] and not active:
        yield (40, "tasks are open, but no agent works", "bold yellow")
    if active:
        yield (60, "work flows", "bold green")


def above(found: TasksAtOnce) -> Iterator[TopRow]:
    """Yield how many agents have each look, and how many tasks are in each state."""
    plus = "+" if found.partial else ""
    states = sorted(
        ((state, number) for state, number in found.tasks.items() if number),
        key=lambda pair: pair[0] in QUIET_STATES,
    )
    tasks = [
        Text.assemble(f"{number}{plus} ", StateName("task", state).as_text())
        for state, number in states
    ]
    yield TopRow("agents", _looks(found), "none at work")
    yield TopRow("tasks", tasks, "none")


def _looks(found: TasksAtOnce) -> list[Text]:
    """Return how many agents have each look; those that ended well are no dead ones."""
    succeeded = sum(row.succeeded for row in found.lines)
    counts = {**found.looks}
    counts[VisualState.DEAD] -= succeeded
    looks = [
        Text(
            f"{APPEARANCES[VisualState(look)].symbol} {number} {look}",
            style=style_of(VisualState(look)),
        )
        for look, number in counts.items()
        if number
    ]
    ended = Text(f"{APPEARANCES[VisualState.DEAD].symbol} {succeeded} ended well", style="dim")
    return [*looks, ended] if succeeded else looks


def below(found: TasksAtOnce) -> Iterator[TopRow]:
    """Yield which tasks are tried again by themselves, which are starved, and which waits longest.

    The first has no row where there is none.
    """
    retries = [
        Text.assemble(
            task.id,
            f" in {age(task.in_s * 1_000)}",
            (f" ({task.retries} of {task.max_retries} used)", "dim"),
        )
        for task in found.next_tries
    ]
    if retries:
        yield TopRow("retries", retries, lines_max=1)
    yield _starving(found)
    oldest = []
    if first := found.oldest:
        oldest = [Text.assemble(first.id, (f" is open for {age(first.age_s * 1_000)}", "dim"))]
    yield TopRow("oldest", oldest, "no task is open")


def _starving(found: TasksAtOnce) -> TopRow:
    shown = found.starved[:STARVED_SHOWN_MAX]
    items = [Text.assemble((record.id, "red"), f": {record.why}") for record in shown]
    if not items and not found.starved_partial:
        return TopRow("starved", [], "no open task is starved")
    if not items:
        items.append(Text("none found"))
    if left := len(found.starved) - len(shown):
        items.append(Text(f"and {left} more", style="dim"))
    if found.starved_partial:
        items.append(Text("not all open tasks were looked at", style="dim"))
    return TopRow("starved", items)


def table(
    found: TasksAtOnce, room: int | None, width: int
) -> tuple[list[RenderableType], list[str]]:
    """Return the table of claims, and how many it leaves out."""
    rows = found.lines if room is None else found.lines[:room]
    where = f" in {found.backlog}" if found.backlog else ""
    empty = Text(f"no task is claimed{where}", style="dim")
    body: list[RenderableType] = [claims_table(rows, width) if found.lines else empty]
    foot = []
    if hidden := len(found.lines) - len(rows):
        foot.append(f"{hidden} more below: a taller terminal shows them")
    if found.more:
        foot.append(f"at least {found.more} more claims are not shown")
    return body, foot


PART = TopPart(
    shape=TasksAtOnce,
    reader=reader,
    has_any=has_any,
    verdicts=verdicts,
    above=above,
    below=below,
    table=table,
)
