"""How a graph stands and why a job waits, in words for people and programs; it changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from interlock.kernel.event import Note
from interlock.kernel.machines.jobs.job import changes
from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.record import Record, root_of
from interlock.workers.engine.card import card_of
from interlock.workers.jobs.commands import legal
from interlock.workers.jobs.dependencies import missing
from interlock.workers.jobs.drawing.drawing import Node
from interlock.workers.jobs.graphs import Graphs
from interlock.workers.jobs.limits import usages
from interlock.workers.jobs.view import manifest_now

ATTENTION_MAX = 50
HALT = "limit:"  # what a job waits for whose graph is halted
ENDED = (State.SUCCESS, State.CANCELED, State.FAILED)
# How a graph stands, at one glance.
FLOWS, WAITS, STARVES = "flows", "waits for a person", "starves"
HALTED, OVER, EMPTY = "halted", "ended", "empty"


class GraphView:
    """What can be seen of graphs."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs, self.dispatch = graphs, graphs.dispatch

    def status(self, graph: str) -> dict[str, Any]:
        """Return how a graph stands: counts, what needs a person, what runs, what is used."""
        own = self.graphs.graph(graph)
        counts: Counter[str] = Counter()
        runs, asks = list[dict[str, Any]](), list[dict[str, Any]]()
        machine = self.dispatch.lifecycle.machine("job")
        starved = moving = 0
        for job in self.graphs.records(graph):
            counts[job.state] += 1
            starved += changes.starved(job.data) and job.state not in ENDED
            if machine.stage(job.state).waits_for_person(job.data):
                asks.append({"id": job.id, "state": job.state, "why": self.why(job)})
            elif job.state not in ENDED:
                # What waits for another job moves only as that one does.
                moving += job.state != State.PENDING or job.data["met"]
            if job.state in (State.RUNNING, State.REVIEWING):
                runs.append({"id": job.id, "state": job.state, "since_ms": job.since_ms})
        return {
            "graph": graph,
            "stands": _stands(own, counts, moving, starved),
            "description": own.data["description"] if own else "",
            "jobs": counts.total(),
            "counts": {str(state): counts[state] for state in State if counts[state]},
            "starved": starved,
            "running": runs[:ATTENTION_MAX],
            "asks": asks[:ATTENTION_MAX],
            "asks_count": len(asks),
            "halted": (own.data.get("failure") or {}).get("detail", "") if own else "",
            "slots": own.data["slots"] if own else 0,
            "limits": [_usage(one) for one in usages(own, "graph")] if own else [],
        }

    def show(self, job: str) -> dict[str, Any]:
        """Return what there is to know of a job, with the manifest that its log adds up to."""
        record = self.graphs.job(job)
        lines = self.dispatch.views.history(job)
        machine = self.dispatch.lifecycle.machine("job")
        card = card_of(machine, record)
        others = self.dispatch.views.records(record.data["depends_on"])
        notes = [line for line in lines if isinstance(line, Note)]
        warned = [note.detail for note in notes if note.kind == "limit_warning"]
        return {
            "manifest": manifest_now(self.dispatch, job),
            "state": record.state,
            "version": record.version,
            "since_ms": record.since_ms,
            "why": self.why(record),
            "legal": legal(machine, record),
            "stewards": record.data["stewards"],
            "proposal": card.proposal if card else "",
            "question": card.question if card else "",
            "dependencies": {
                one: others[one].state if one in others else "missing"
                for one in record.data["depends_on"]
            },
            "phases": [phase["name"] for phase in record.data["phases"]],
            "runs": record.data["runs"],
            "summary": record.data.get("summary", ""),
            "review": record.data.get("review_result"),
            "guidance": record.data["guidance"],
            "evidence": record.data.get("evidence", []),
            "failure": record.data.get("failure"),
            "limits": [_usage(one) for one in usages(record, "job")],
            "warnings": warned,
            "dir": record.data.get("dir"),
        }

    def rows(self, graph: str) -> list[dict[str, Any]]:
        """Return the jobs of a graph, each with why it waits."""
        return [
            {
                "id": job.id,
                "state": job.state,
                "since_ms": job.since_ms,
                "why": self.why(job),
                "runs": job.data["runs"],
            }
            for job in self.graphs.records(graph)
        ]

    def nodes(self, graph: str) -> list[Node]:
        """Return the jobs of a graph as they are drawn, and those elsewhere that they wait for."""
        jobs = list(self.graphs.records(graph))
        own = {job.id for job in jobs}
        elsewhere = sorted({one for job in jobs for one in job.data["depends_on"]} - own)
        others = self.dispatch.views.records(elsewhere)
        return [
            *(
                Node(name=one, state=others[one].state, after=())
                for one in elsewhere
                if one in others
            ),
            *(
                Node(
                    name=_short(job.id, graph),
                    state=job.state,
                    after=tuple(_short(one, graph) for one in job.data["depends_on"]),
                    note=self.why(job) if job.state not in ENDED else "",
                )
                for job in jobs
            ),
        ]

    def why(self, job: Record) -> str:  # noqa: C901, PLR0911 - one sentence a state
        """Say in one sentence what a job waits for, or how it ended."""
        data = job.data
        match job.state:
            case State.PENDING if changes.starved(data):
                lost = ", ".join(f"{one} is {how}" for one, how in sorted(data["lost"].items()))
                return f"starved: {lost}"
            case State.PENDING if not data["met"]:
                return f"waits for {self._missing(job)}"
            case State.PENDING if any(one.startswith(HALT) for one in data.get("slots", ())):
                return "waits for its graph, which has reached a limit"
            case State.PENDING if data.get("slots"):
                return f"waits for a slot: {', '.join(data['slots'])}"
            case State.PENDING if data.get("backoff_ms"):
                wait = f"is tried again in {data['backoff_ms'] / 1_000:g} s"
                return f"{wait}: {data.get('summary', '')}"
            case State.PENDING if changes.waits_by_hand(data):
                return "waits to be told: step or run"
            case State.INTERVENTION_REQUIRED:
                return str((data.get("failure") or {}).get("detail", ""))
            case State.APPROVAL_REQUIRED:
                return (data.get("review_result") or {}).get("summary") or "waits to be signed off"
            case State.PAUSED:
                for_s = data.get("paused_s")
                return f"paused for {for_s} s" if for_s else "paused until somebody lifts it"
            case State.CANCELED | State.SUCCESS:
                end = data.get("end") or {}
                return ", ".join(end[one] for one in ("reason", "by") if one in end)
            case _:
                return ""

    def _missing(self, job: Record) -> str:
        """Name what is not there yet: from its countdown, which shrinks as others end."""
        names = missing(self.dispatch, self.dispatch.lifecycle.machine("job"), job)
        found = sorted(_short(one, root_of(job.id)) for one in names)
        if not found:
            return "its dependencies to be looked at"
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""  # noqa: PLR2004 - three are read at a glance
        return ", ".join(found[:3]) + more


def _stands(own: Record | None, counts: Mapping[str, int], moving: int, starved: int) -> str:
    alive = sum(n for state, n in counts.items() if state not in ENDED)
    if own is not None and own.state == "halted":
        return HALTED
    if not alive:
        return OVER if counts else EMPTY
    if moving:
        return FLOWS
    return STARVES if starved else WAITS


def _usage(one: Any) -> dict[str, Any]:
    return {**one.payload(), "warns": one.warns, "reached": one.reached}


def _short(job: str, graph: str) -> str:
    return job.removeprefix(f"{graph}/")
