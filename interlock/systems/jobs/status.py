"""Reads the condition of graphs, and why each job waits, for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock import Note, Terminal
from interlock.system.tables import Record, RecordContent
from interlock.system.text import duration
from interlock.systems.jobs.client import GraphRecords, Graphs
from interlock.systems.jobs.dependencies import CYCLE
from interlock.systems.jobs.drawing.drawing import DrawnJob
from interlock.systems.jobs.evidence import kept_file
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.graph.table import State as GraphState
from interlock.systems.jobs.machines.job import changes
from interlock.systems.jobs.machines.job.data import EndData, JobData
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.manifest import manifest_now
from interlock.systems.jobs.usage import GRAPH, JOB, LimitUsage, usages
from interlock.systems.jobs.verbs import legal_verbs

JOBS_SHOWN_MAX = 50  # jobs of each kind that are listed
# The jobs of a halted graph wait for this "slot", which scheduling notes.
HALT = "limit:"
ENDED = (State.SUCCESS, State.CANCELED, State.FAILED)
# The conditions of a graph.
PROGRESSES, WAITS, STARVES = "in progress", "waits for a person", "starves"
HALTED, OVER, EMPTY = "halted", "ended", "empty"


class GraphView:
    """What people and programs can see of graphs and their jobs."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs, self.records = graphs, graphs.records

    def status(self, graph: str) -> dict[str, Any]:
        """Return a graph's condition: counts, jobs that need a person, running jobs, limits."""
        return self.status_of(self.graphs.read_one(graph))

    def status_of(self, graph: GraphRecords) -> dict[str, Any]:
        """Return what `status` returns, of a graph that was read."""
        own = graph.own
        counts: Counter[str] = Counter()
        runs, asks = list[dict[str, Any]](), list[RecordContent[JobData]]()
        machine = self.records.machine("job")
        starved = moving = 0
        for job in graph.jobs:
            counts[job.state] += 1
            starved += changes.starved(job.data) and job.state not in ENDED
            if machine.stage(job.state).waits_for_person(job.data):
                asks.append(job)
            elif job.state not in ENDED:
                # A job that waits for another one moves only when that one does.
                moving += job.state != State.PENDING or job.data["met"]
            if job.state in (State.RUNNING, State.REVIEWING):
                runs.append({"id": job.id, "state": job.state, "since_ms": job.since_ms})
        shown = asks[:JOBS_SHOWN_MAX]
        whys = self._whys(shown, {})
        return {
            "graph": graph.name,
            "stands": _condition(own, counts, moving, starved),
            "description": own.data["description"] if own else "",
            "jobs": counts.total(),
            "counts": {str(state): counts[state] for state in State if counts[state]},
            "starved": starved,
            "running": runs[:JOBS_SHOWN_MAX],
            "asks": [{"id": one.id, "state": one.state, "why": whys[one.id]} for one in shown],
            "asks_count": len(asks),
            "halted": _failure(own.data) if own else "",
            "slots": own.data["slots"] if own else 0,
            "limits": [_usage(usage) for usage in usages(own, GRAPH)] if own else [],
        }

    def show(self, job: str) -> dict[str, Any]:
        """Return everything about a job, with the manifest that follows from its log."""
        record = self.graphs.job(job)
        lines = self.records.views.history(job)
        machine = self.records.machine("job")
        card = self.graphs.client.card(job)
        others = self.records.views.contents(
            record.data["depends_on"], readable_by=self.records.machines
        )
        notes = [line for line in lines if isinstance(line, Note)]
        warned = [note.detail for note in notes if note.kind == "limit_warning"]
        return {
            "manifest": manifest_now(self.records, job),
            "state": record.state,
            "version": record.version,
            "since_ms": record.since_ms,
            "why": self._whys([record], others)[record.id],
            "legal": legal_verbs(machine, record),
            "stewards": record.data["stewards"],
            "proposal": card.proposal if card else "",
            "question": card.question if card else "",
            "dependencies": {
                other: others[other].state if other in others else "missing"
                for other in record.data["depends_on"]
            },
            "phases": [phase["name"] for phase in record.data["phases"]],
            "runs": record.data["runs"],
            "summary": record.data.get("summary", ""),
            "review": record.data.get("review_result"),
            "guidance": record.data["guidance"],
            "evidence": _with_kept_files(record),
            "failure": record.data.get("failure"),
            "limits": [_usage(usage) for usage in usages(record, JOB)],
            "warnings": warned,
            "dir": record.data.get("dir"),
            "host": record.data.get("host"),
        }

    def rows(self, graph: str) -> list[dict[str, Any]]:
        """Return the jobs of a graph, each with the reason why it waits."""
        return self.rows_of(self.graphs.read_one(graph).jobs)

    def rows_of(self, jobs: Sequence[RecordContent[JobData]]) -> list[dict[str, Any]]:
        """Return jobs of one graph as `rows` does."""
        whys, machine = self._whys(jobs, {}), self.records.machines["job"]
        return [
            {
                "id": job.id,
                "state": job.state,
                "asks": machine.stage(job.state).waits_for_person(job.data),
                "since_ms": job.since_ms,
                "why": whys[job.id],
                "runs": job.data["runs"],
            }
            for job in jobs
        ]

    def drawn_jobs(self, graph: str) -> list[DrawnJob]:
        """Return the jobs to draw: those of a graph, and those of others that they depend on."""
        return self.drawn_jobs_of(self.graphs.read_one(graph))

    def drawn_jobs_of(self, graph: GraphRecords) -> list[DrawnJob]:
        """Return the jobs to draw, of a graph that was read."""
        own = {job.id for job in graph.jobs}
        elsewhere = sorted({other for job in graph.jobs for other in job.data["depends_on"]} - own)
        others = self.records.views.contents(elsewhere, readable_by=self.records.machines)
        whys = self._whys(graph.jobs, others)
        return [
            *(
                DrawnJob(name=other, state=others[other].state, after=())
                for other in elsewhere
                if other in others
            ),
            *(
                DrawnJob(
                    name=_short(job.id, graph.name),
                    state=job.state,
                    after=tuple(_short(other, graph.name) for other in job.data["depends_on"]),
                    note=whys[job.id] if job.state not in ENDED else "",
                )
                for job in graph.jobs
            ),
        ]

    def why(self, job: RecordContent[JobData]) -> str:
        """Return in one sentence what a job waits for, or how it ended."""
        return self._whys([job], {})[job.id]

    def _whys(
        self, jobs: Sequence[RecordContent[JobData]], others: Mapping[str, RecordContent]
    ) -> dict[str, str]:
        """Return what each job waits for, with records that were read already.

        Dependencies that are not among them are read, in one round trip.
        """
        known: dict[str, RecordContent] = {**others, **{str(job.id): job for job in jobs}}
        waiting = (job for job in jobs if job.state == State.PENDING and not job.data["met"])
        needed = {other for job in waiting for other in job.data["depends_on"]}
        more = needed - known.keys()
        known |= self.records.views.contents(more, readable_by=self.records.machines)
        return {job.id: self._why(job, known) for job in jobs}

    def _why(self, job: RecordContent[JobData], others: Mapping[str, RecordContent]) -> str:  # noqa: C901, PLR0911 - one sentence a state
        data = job.data
        match job.state:
            case State.PENDING if changes.starved(data):
                return f"starved: {_lost(data['lost'])}"
            case State.PENDING if not data["met"]:
                return f"waits for {self._missing(job, others)}"
            case State.PENDING if any(name.startswith(HALT) for name in data.get("slots", ())):
                return "waits for its graph, which has reached a limit"
            case State.PENDING if data.get("slots"):
                return f"waits for a slot: {', '.join(data['slots'])}"
            case State.PENDING if data.get("backoff_ms"):
                wait = f"is tried again in {duration(data['backoff_ms'])}"
                return f"{wait}: {data.get('summary', '')}"
            case State.PENDING if changes.waits_by_hand(data):
                return "waits for a command: step or run"
            case State.SUSPENDED if data.get("suspended_s"):
                hours = data.get("hours")
                return f"waits for its hours, {hours} UTC" if hours else "suspended for some time"
            case State.INTERVENTION_REQUIRED:
                return _failure(data)
            case State.APPROVAL_REQUIRED:
                review = data.get("review_result")
                return (review and review["summary"]) or "waits to be signed off"
            case State.PAUSED:
                for_s = data.get("paused_s")
                until = f"for {duration(for_s * 1_000)}" if for_s else "until somebody lifts it"
                return f"paused {until}"
            case State.CANCELED | State.SUCCESS:
                end: EndData = data.get("end", {})
                return ", ".join(filter(None, (end.get("reason"), end.get("by"))))
            case _:
                return ""

    def _missing(self, job: RecordContent[JobData], others: Mapping[str, RecordContent]) -> str:
        """Return the dependencies that have not ended; one that was deleted had ended."""
        waived, graph = job.data["waived"], job.root
        names = (name for name in job.data["depends_on"] if name in others and name not in waived)
        found = sorted(_short(name, graph) for name in names if self._is_live(others[name]))
        if not found:
            return "its dependencies to be counted"
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""  # noqa: PLR2004 - three are read at a glance
        return ", ".join(found[:3]) + more

    def _is_live(self, record: RecordContent) -> bool:
        stage = self.records.machine(record.machine).stage(record.state)
        return not isinstance(stage, Terminal)


def _condition(
    own: Record[GraphData] | None, counts: Mapping[str, int], moving: int, starved: int
) -> str:
    alive = sum(n for state, n in counts.items() if state not in ENDED)
    if own is not None and own.state == GraphState.HALTED:
        return HALTED
    if not alive:
        return OVER if counts else EMPTY
    if moving:
        return PROGRESSES
    return STARVES if starved else WAITS


def _failure(data: GraphData | JobData) -> str:
    """Return why a person is asked, in words, or ''."""
    failure = data.get("failure")
    return failure["detail"] if failure else ""


def _with_kept_files(record: Record[JobData]) -> list[dict[str, Any]]:
    """Return the evidence of a job, each file with the path of the copy that was kept."""
    folder = record.data.get("dir")
    return [
        {**file, "kept": str(kept_file(Path(folder), file["sha256"])) if folder else ""}
        for file in record.data.get("evidence", ())
    ]


def _lost(lost: Mapping[str, str]) -> str:
    """Return why each lost dependency is lost; one in a cycle has no state to name."""
    causes = {CYCLE: "part of a cycle"}
    return ", ".join(f"{job} is {causes.get(why, why)}" for job, why in sorted(lost.items()))


def _usage(usage: LimitUsage) -> dict[str, Any]:
    return {**usage.payload(), "warns": usage.warns, "reached": usage.reached}


def _short(job: str, graph: str) -> str:
    return job.removeprefix(f"{graph}/")
