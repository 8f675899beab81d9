"""The page of the fleet: each machine's diagram, with how many records are where, and what moved.

Counts are those of now. What has moved, and how long records stayed, is since a time to choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log10
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from interlock.kernel.errors import UnknownMachineError
from interlock.kernel.machine import Machine
from interlock.kernel.store.metrics import BOUNDS_MS
from interlock.workers.console.diagram import Diagram, diagram_of
from interlock.workers.console.flow import Flow, FlowWatch, at_most
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.series import (
    DAY_S,
    HOUR_S,
    Sample,
    Samples,
    flow_between,
    stays_between,
)
from interlock.workers.console.sessions import Reading
from interlock.workers.terminal.screen import counted
from interlock.workers.text import duration

router = APIRouter(route_class=PageRoute, include_in_schema=False)

HOURS_MAX = DAY_S // HOUR_S
ARROW_MIN, ARROW_MAX, ARROW_STEP = 1.6, 6.1, 1.5  # pixels; ten times more is a step


@dataclass(frozen=True, slots=True)
class Drawn:
    """One machine of the fleet: its diagram, and what is known of its states and arrows."""

    name: str
    live: int
    moved: int
    diagram: Diagram
    nodes: Mapping[str, Any]
    arrows: Mapping[tuple[str, str], Any]


@router.get("/fleet")
def fleet(
    request: Request,
    client: Reading,
    hours: Annotated[int, Query(ge=1, le=HOURS_MAX)] = 1,
    machine: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show how many records are in each state, what has moved since, and how long they stayed."""
    watch: FlowWatch = request.app.state.flow
    samples: Samples = request.app.state.samples
    found, before = watch.look(), samples.before(hours * HOUR_S)
    used = {row.name for row in found.machines if row.live or row.ended or row.transitions}
    if machine not in ("", *client.machines):
        raise UnknownMachineError(machine, sorted(client.machines))
    chosen = {name: one for name, one in client.machines.items() if machine in (name, "")}
    return page(
        request,
        "fleet.html",
        drawn=[
            drawn(one, found, before)
            for name, one in chosen.items()
            if name in used or name == machine
        ],
        unused=[name for name in client.machines if name not in used],
        used=[name for name in client.machines if name in used],
        states=found.states,
        now_ms=found.now_ms,
        before_ms=before.at_ms if before else None,
        hours=hours,
        hours_max=HOURS_MAX,
        machine=machine,
    )


def drawn(machine: Machine, now: Flow, before: Sample | None) -> Drawn:
    """Return what is drawn of a machine."""
    name = machine.name
    earlier = before.totals if before else now.totals
    moved = flow_between(name, earlier, now.totals)
    counts = {row.name: row.count for row in now.states[name]}
    ended = {row.name for row in now.states[name] if row.ended}
    nodes = {state: _node(machine, state, count, now, before) for state, count in counts.items()}
    arrows = {
        step: {"text": f"{counted(number, 'record')} since then", "width": width_of(number)}
        for step, number in moved.items()
        if number
    }
    live = sum(count for state, count in counts.items() if state not in ended)
    return Drawn(name, live, sum(moved.values()), diagram_of(machine), nodes, arrows)


def _node(
    machine: Machine, state: str, count: int, now: Flow, before: Sample | None
) -> dict[str, Any]:
    """Return what a box says: how many records, how many more than before, how long they stayed."""
    earlier = before.totals if before else now.totals
    stays = stays_between(machine.name, state, earlier, now.totals)
    left = sum(stays.buckets)
    was = before.counts[machine.name].get(state, 0) if before else count
    half_ms, most_ms = at_most(stays, 0.5), at_most(stays, 0.95)
    texts = [counted(count, "record")]
    if was != count:
        texts.append(f"it was {was}")
    if left:
        texts.append(
            f"{left} left since then: half {_within(half_ms)}, 95 of 100 {_within(most_ms)}"
        )
    return {
        "name": "some" if count else "none",
        "text": "; ".join(texts),
        "count": count,
        "more": count - was,
        "half": _length(half_ms) if left else 0,
        "most": _length(most_ms) if left else 0,
    }


def _within(bound_ms: int | None) -> str:
    if bound_ms is None:
        return f"after more than {duration(BOUNDS_MS[-1])}"
    return "at once" if bound_ms == BOUNDS_MS[0] else f"within {duration(bound_ms)}"


def _length(bound_ms: int | None) -> int:
    """Return the length of a bar, 1 to 8: one for each bound, the longest for what is above all."""
    return BOUNDS_MS.index(bound_ms) + 1 if bound_ms is not None else len(BOUNDS_MS) + 1


def width_of(number: int) -> float:
    """Return the width of an arrow by which so many records went, the same for all machines."""
    return round(min(ARROW_MIN + ARROW_STEP * log10(number), ARROW_MAX), 1)
