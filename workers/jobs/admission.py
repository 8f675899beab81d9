"""What a graph and its jobs must be before anything of them is written; it writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from interlock.kernel.errors import CallError, IdTakenError
from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.record import Record
from interlock.kernel.store.codec import digest, encode
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.specs.dependencies import cycle_in

PAGE = 1_000
LOOKED_AT_MAX = 100_000
# What makes a job wait for others, and from which state: a draft may be suspended, then resumed.
BEGINS = {"activate": State.DRAFT, "resume": State.SUSPENDED}


class UnknownDependencyError(CallError):
    """A job depends on one that does not exist. Create that first, or correct the name."""


class CycleError(CallError):
    """Jobs would wait for each other. Take one of the ring's dependencies out."""


class GraphAdmission:
    """What is refused, and why, as the store has it now."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch

    def refuse_others(self, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a file before anything is written."""
        places = Counter(one["dir"] for one in payloads.values() if one.get("dir"))
        shared = next((place for place, jobs in places.items() if jobs > 1), None)
        if shared is not None:
            raise CallError(
                f"two jobs would share the directory {shared}: give each one of its own"
            )
        for page in pages(list(payloads)):
            for job, known in self.dispatch.views.births(page).items():
                if known != digest("job", encode(payloads[job], "the job")):
                    raise IdTakenError(job)
        self.refuse_rings({job: named_in(one) for job, one in payloads.items()})

    def refuse_late(self, graph: Record | None, jobs: Sequence[str]) -> None:
        """Refuse new jobs of a graph that is over: nobody looks after them any more."""
        if graph is None or graph.state != "finished":
            return
        for page in pages(jobs):
            known = self.dispatch.views.births(page)
            new = next((job for job in page if job not in known), None)
            if new is not None:
                raise CallError(f"{graph.id} is finished and takes no {new}; open another graph")

    def refuse_vain(self, verb: str, records: Sequence[Record]) -> None:
        """Refuse to begin what would wait for itself, or for what never was.

        What is resumed may wait for what is gone by now: then it is told that this is lost.
        """
        begun = [one for one in records if one.state == BEGINS.get(verb)]
        edges: dict[str, Collection[str]] = {
            one.id: one.data["depends_on"] for one in begun if not one.data["met"]
        }
        if verb == "resume":
            named = {one for after in edges.values() for one in after}
            known = {one for page in pages([*named]) for one in self.dispatch.views.records(page)}
            edges = {job: [one for one in after if one in known] for job, after in edges.items()}
        self.refuse_rings(edges)

    def refuse_rings(self, edges: Mapping[str, Collection[str]]) -> None:
        """Refuse jobs that depend on nothing known, or through others on themselves.

        `edges` say what some jobs depend on; what others do is followed as it is stored.
        """
        graph: dict[str, Collection[str]] = dict(edges)
        outside = dict.fromkeys(one for after in edges.values() for one in after)
        ahead = [one for one in outside if one not in graph]
        told = set(ahead)
        while ahead and len(graph) < LOOKED_AT_MAX:
            found: list[str] = []
            for page in pages(ahead):
                known = self.dispatch.views.records(page)
                for one in page:
                    record = known.get(one)
                    if record is None or record.machine != "job":
                        self._unknown(one, edges)
                        graph[one] = ()
                        continue
                    over = record.state in (State.SUCCESS, State.CANCELED, State.FAILED)
                    graph[one] = () if over else record.data["depends_on"]
                    found += graph[one]
            ahead = [one for one in dict.fromkeys(found) if one not in graph and one not in told]
            told.update(ahead)
        if ring := cycle_in(graph):
            raise CycleError(f"{' -> '.join(ring)} is a ring; take one out of it")

    def _unknown(self, one: str, edges: Mapping[str, Collection[str]]) -> None:
        """Refuse a dependency that is not there; what others wait for in vain is their matter."""
        who = next((job for job, after in edges.items() if one in after), None)
        if who is not None:
            told = f"{who} depends on {one!r}, and there is no such job"
            raise UnknownDependencyError(f"{told}; create it first or correct the name")


def named_in(payload: Mapping[str, Any]) -> Sequence[str]:
    """Return what a payload says it depends on; what is no list of texts is refused at birth."""
    found = payload.get("depends_on", ())
    texts = isinstance(found, list | tuple) and all(isinstance(one, str) for one in found)
    return found if texts else ()


def pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids in bounded pages."""
    for at in range(0, len(ids), PAGE):
        yield ids[at : at + PAGE]
