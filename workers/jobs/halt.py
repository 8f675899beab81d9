"""Limits at work: who is warned, and how a graph is halted; what is used is told by `limits`."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError, OpIdReusedError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, Jot, Warrant
from interlock.workers.engine.work import Work
from interlock.workers.jobs.limits import Usage

HALTED = "halted"


def warn(work: Work, found: list[Usage]) -> None:
    """Note each limit of which most is used, once."""
    for one in found:
        if one.warns:
            jot = Jot("limit_warning", {**one.payload(), "of": one.of})
            op_id = f"limit:{one.of}:{one.limit}:{one.allowed:g}"
            with suppress(OpIdReusedError):  # it was warned when less of it was used
                work.dispatch.note(work.record, jot, op_id=op_id)


def is_halted(work: Work, graph: Record, found: list[Usage]) -> bool:
    """Whether a graph starts nothing now; the first job to see a limit reached says so."""
    if graph.state == HALTED:
        return True
    reached = next((one for one in found if one.reached and one.of == "graph"), None)
    if reached is not None:
        halt(work, graph, reached)
    return reached is not None


def halt(work: Work, graph: Record, reached: Usage) -> None:
    """Halt a graph: its steward is asked once, not about each of its jobs."""
    call = Call(
        cause=Cause(work.lease.name, f"seen by {work.record.id}"),
        op_id=f"limit:{graph.entered}:{reached.limit}:{reached.allowed:g}",
        warrant=Warrant.party(work.lease.name),
    )
    with suppress(CallError):  # another job was faster, or a steward has raised it
        work.dispatch.fire(graph.id, "limit_reached", reached.payload(), call)
