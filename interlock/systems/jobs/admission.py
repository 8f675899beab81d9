"""Checks a graph and its jobs against the store before anything of them is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from interlock import CallError
from interlock.system.errors import IdTakenError
from interlock.system.records import Records
from interlock.system.tables import Dependencies, Record
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.graph.table import State as GraphState
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State

PAGE = 1_000  # jobs that are read at one time
JOBS_READ_MAX = 100_000  # jobs that are read to find cycles through jobs that are there
# The verbs that make a job wait for others, and the state in which each does so: a draft may be
# suspended, and resumed later.
START_STATES = {"activate": State.DRAFT, "resume": State.SUSPENDED}


class UnknownDependencyError(CallError):
    """A job depends on one that does not exist. Create that first, or correct the name."""

    is_early = True


class CycleError(CallError):
    """Jobs would wait for each other. Remove one of the dependencies of the cycle."""


class GraphAdmission:
    """Refuses graphs and jobs that cannot be created or started, with the reason."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def check_file(self, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse the jobs of a file that cannot all be created. Raises CallError."""
        folders = Counter(payload["dir"] for payload in payloads.values() if payload.get("dir"))
        shared = next((folder for folder, jobs in folders.items() if jobs > 1), None)
        if shared is not None:
            raise CallError(
                f"two jobs would share the directory {shared}: give each one of its own"
            )
        for page in in_pages(list(payloads)):
            known = self.records.created_with("job", {job: payloads[job] for job in page})
            if taken := next((job for job, same in known.items() if not same), None):
                raise IdTakenError(taken)
        self.check_dependencies(
            {job: dependencies_in(payload) for job, payload in payloads.items()}
        )

    def check_open(self, graph: Record[GraphData] | None, jobs: Sequence[str]) -> None:
        """Refuse new jobs of a finished graph, which is not looked after any more."""
        if graph is None or graph.state != GraphState.FINISHED:
            return
        for page in in_pages(jobs):
            known = self.records.views.creation_digests(page)
            new = next((job for job in page if job not in known), None)
            if new is not None:
                raise CallError(f"{graph.id} is finished and takes no {new}; open another graph")

    def check_start(self, verb: str, jobs: Sequence[Record[JobData]]) -> None:
        """Refuse to start jobs that would wait for themselves or for an unknown job.

        A job that is resumed may depend on one that was deleted since: it then learns that this
        dependency is lost.
        """
        started = [job for job in jobs if job.state == START_STATES.get(verb)]
        edges: dict[str, Collection[str]] = {
            job.id: job.data["depends_on"] for job in started if not job.data["met"]
        }
        if verb == "resume":
            named = {other for after in edges.values() for other in after}
            known = {job.id for job in self.records.views.each_record(named)}
            edges = {
                job: [other for other in after if other in known] for job, after in edges.items()
            }
        self.check_dependencies(edges)

    def check_dependencies(self, edges: Mapping[str, Collection[str]]) -> None:
        """Refuse jobs that depend on an unknown job, or through others on themselves.

        `edges` has the dependencies of the new jobs; those of other jobs are read from the store.
        Raises UnknownDependencyError or CycleError.
        """
        graph: dict[str, Collection[str]] = dict(edges)
        outside = dict.fromkeys(other for after in edges.values() for other in after)
        ahead = [job for job in outside if job not in graph]
        seen = set(ahead)
        while ahead and len(graph) < JOBS_READ_MAX:
            found: list[str] = []
            for page in in_pages(ahead):
                known = self.records.views.records(page)
                for job in page:
                    record = known.get(job)
                    if record is None or record.machine != "job":
                        self._refuse_unknown(job, edges)
                        graph[job] = ()
                        continue
                    over = record.state in (State.SUCCESS, State.CANCELED, State.FAILED)
                    graph[job] = () if over else record.data["depends_on"]
                    found += graph[job]
            ahead = [job for job in dict.fromkeys(found) if job not in graph and job not in seen]
            seen.update(ahead)
        if cycles := Dependencies(graph).cycles():
            first = " -> ".join(cycles[0])
            raise CycleError(f"{first} is a cycle; remove one of these dependencies")

    def _refuse_unknown(self, unknown: str, edges: Mapping[str, Collection[str]]) -> None:
        """Raise UnknownDependencyError if one of the new jobs depends on an unknown one."""
        job = next((job for job, after in edges.items() if unknown in after), None)
        if job is not None:
            problem = f"{job} depends on {unknown!r}, and there is no such job"
            raise UnknownDependencyError(f"{problem}; create it first or correct the name")


def dependencies_in(payload: Mapping[str, Any]) -> Sequence[str]:
    """Return the dependencies that a payload names; () if they are not a list of texts.

    Such a payload is refused when its job is created.
    """
    found = payload.get("depends_on", ())
    texts = isinstance(found, list | tuple) and all(isinstance(name, str) for name in found)
    return found if texts else ()


def in_pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids in pages of bounded size."""
    for start in range(0, len(ids), PAGE):
        yield ids[start : start + PAGE]
