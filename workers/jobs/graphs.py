"""Graphs of jobs for producers and stewards: open, create, command, look; it runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from interlock.kernel.errors import (
    CallError,
    GuardRefusedError,
    IllegalTransitionError,
    StaleDecisionError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machines.jobs.graph.payloads import NewGraph
from interlock.kernel.machines.jobs.job.names import RunUntil, State
from interlock.kernel.machines.jobs.job.payloads import NewJob
from interlock.kernel.record import PARTITIONS, Record, RecordId, record_id
from interlock.kernel.store.codec import digest, encode
from interlock.kernel.store.commands import Call, Warrant
from interlock.workers.client import Client, Submitted
from interlock.workers.engine.polling import polls
from interlock.workers.jobs.admission import PAGE, GraphAdmission, named_in, pages
from interlock.workers.jobs.commands import VERBS, Verb, next_steps
from interlock.workers.jobs.file.file import GraphFile, Step
from interlock.workers.jobs.view import restore_manifest

# What a graph says for jobs that say nothing else, where it says something.
SHARED: Mapping[str, Any] = {"stewards": [], "on_cancel": "starve"}


class JobCommandError(CallError):
    """A command does not fit a job as it stands. Its message says what would, and who may."""


@dataclass(frozen=True, slots=True)
class Created:
    """What became of a graph: of each job, in the file's order."""

    graph: str
    jobs: tuple[Submitted, ...]


class Graphs:
    """What can be done with graphs and their jobs, over a client."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch
        self.admission = GraphAdmission(self.dispatch)

    # --- to be born ---------------------------------------------------------------------------

    def open(self, graph: str, payload: Mapping[str, Any] | None = None) -> Submitted:
        """Open a graph; without a payload one that is there already is taken as it is.

        One that was opened for its first job, with nothing said of it, takes its payload later.
        """
        found = self.dispatch.views.records([graph]).get(graph)
        if found is not None and found.machine != "graph":
            raise CallError(f"{graph!r} is a {found.machine}, not a graph; choose another name")
        if found is not None and payload is None:
            return Submitted(graph, replayed=True)
        bare = self.dispatch.views.births([graph]).get(graph) == digest("graph", encode({}, "it"))
        if found is not None and payload and bare:
            self.client.fire(graph, "configure", {**payload, "by": self.client.actor})
            return Submitted(graph, replayed=False)
        return self.client.submit(payload or {}, id=graph, machine="graph")

    def create(
        self,
        job: str,
        payload: Mapping[str, Any],
        *,
        priority: int = 5,
        held: bool = True,
        here: bool = True,
    ) -> Submitted:
        """Create one job, by default as a draft; its graph is opened where there is none.

        `here`: its commands and files are on this machine, unless it names another.
        """
        graph, _, name = job.partition("/")
        if not name:
            raise CallError(f"{job!r} names no job: write it as <graph>/<job>")
        own = self.graph(graph)
        # Nothing of a graph that says nothing: what opens it here must be the same when repeated.
        said = own.data if own is not None else SHARED
        shared = {name: said[name] for name in SHARED if said[name] != SHARED[name]}
        given = {**shared, **payload, "hold": held}
        given = self._placed(job, given) if here else given
        # All of it is checked before its graph is opened for it.
        record_id(job)
        self.dispatch.lifecycle.machine("job").initial_data(given)
        if not held:
            self.admission.refuse_rings({job: named_in(payload)})
        self.admission.refuse_late(own, [job])
        if own is None:
            self.open(graph)
        return self.client.submit(given, id=job, machine="job", priority=priority)

    def submit(self, file: GraphFile, *, activate: bool = True) -> Created:
        """Create every job of a file, then activate them. Repeating it completes what was begun.

        Nothing is written where a job is known with another content, or depends on nothing known.
        """
        payloads = {
            f"{file.name}/{step.name}": self._placed(
                f"{file.name}/{step.name}", {**step.payload, "hold": True}
            )
            for step in file.steps
        }
        self.admission.refuse_others(payloads)
        self.admission.refuse_late(self.graph(file.name), list(payloads))
        self.open(file.name, file.payload)
        done = [
            self.client.submit(
                payloads[f"{file.name}/{step.name}"],
                id=f"{file.name}/{step.name}",
                machine="job",
                priority=step.priority,
            )
            for step in file.steps
        ]
        if activate:
            found = (self.dispatch.views.records(page) for page in pages(list(payloads)))
            drafts = [one for page in found for one in page.values() if one.state == State.DRAFT]
            # What was created before may have been configured since.
            self.admission.refuse_vain("activate", drafts)
            for one in drafts:
                self._fire(one, VERBS["activate"], {}, op_id=f"activate:{one.id}")
        return Created(file.name, tuple(done))

    def configure_graph(self, graph: str, changes: Mapping[str, Any]) -> Record:
        """Change what the jobs of a graph share; higher limits lift a halt."""
        found = self.graph(graph)
        if found is None:
            raise CallError(f"there is no graph {graph!r}")
        _something(changes)
        words = {**changes, "by": self.client.actor}
        raises = found.state == "halted"
        if raises and set(changes) != {"limits"}:
            raise CallError(f"{graph} is halted: raise the limit that it has reached, alone")
        return self.client.fire(graph, "raise_limits" if raises else "configure", words)

    def configure(self, job: str, changes: Mapping[str, Any]) -> Record:
        """Change a draft. Raises JobCommandError where it is none any more."""
        _something(changes)
        return self.command(job, "config", changes)

    # --- to be told ---------------------------------------------------------------------------

    def command(
        self,
        job: str,
        verb: str,
        words: Mapping[str, Any] | None = None,
        *,
        proposal: str | None = None,
        op_id: str | None = None,
    ) -> Record:
        """Give a job one command. Raises JobCommandError, which says what would be legal.

        `proposal` is what a steward saw; without it the job is taken as it is now. Repeat a call
        whose answer was lost with the same op-id.
        """
        record = self.job(job)
        restore_manifest(self.dispatch, record)
        self.admission.refuse_vain(verb, [record])
        return self._fire(record, VERBS[verb], dict(words or {}), proposal=proposal, op_id=op_id)

    def step(self, job: str) -> Record:
        """Do the one thing that the state of a job names; it goes on alone only as configured."""
        return self.command(job, "step", {"to": RunUntil.NEXT})

    def command_all(self, graph: str, verb: str, words: Mapping[str, Any]) -> dict[str, str]:
        """Give every job of a graph that takes it a command; return where each stands then."""
        records = list(self.records(graph))
        self.admission.refuse_vain(verb, records)
        found: dict[str, str] = {}
        for record in records:
            restore_manifest(self.dispatch, record)
            try:
                found[record.id] = self._fire(record, VERBS[verb], dict(words)).state
            except (JobCommandError, StaleDecisionError):
                continue  # it does not take this now, or has just moved on
        return found

    # --- to be seen ---------------------------------------------------------------------------

    def job(self, job: str) -> Record:
        """Return a job. Raises CallError for what is none."""
        record = self.client.show(job)
        if record.machine != "job":
            raise CallError(f"{job!r} is a {record.machine}, not a job")
        return record

    def graph(self, graph: str) -> Record | None:
        """Return a graph's own record; None where only jobs of it exist."""
        found = self.dispatch.views.records([graph]).get(graph)
        return found if found is not None and found.machine == "graph" else None

    def jobs(self, graph: str) -> list[RecordId]:
        """Return the jobs of a graph by name. Raises CallError where there is no such graph."""
        machine = self.dispatch.lifecycle.machine("job")
        found = self.dispatch.views.family(machine, graph, PAGE)
        if not found and self.graph(graph) is None:
            raise CallError(
                f"there is no graph {graph!r}; `interlock job list` names those we have"
            )
        return sorted(found)

    def records(self, graph: str) -> Iterator[Record]:
        """Yield the jobs of a graph as they stand, by name."""
        for page in pages(self.jobs(graph)):
            found = self.dispatch.views.records(page)
            yield from (found[one] for one in page if one in found)

    def names(self) -> list[str]:
        """Return every graph that has a record, by name."""
        machine = self.dispatch.lifecycle.machine("graph")
        return sorted(
            one
            for stage in machine.stages
            for partition in range(PARTITIONS)
            for one in self.dispatch.views.scan_state(machine, str(stage.state), partition, PAGE)
        )

    def exported(self, graph: str) -> tuple[dict[str, Any], list[Step]]:
        """Return a graph as its file would have it: what is shared, and each job as it is now."""
        own = self.graph(graph)
        shared = {} if own is None else _only(NewGraph, own.data)
        steps = [
            Step(
                name=job.id.partition("/")[2],
                priority=job.priority,
                line=0,
                payload=_only(NewJob, job.data, "host", "hold"),
            )
            for job in self.records(graph)
        ]
        return shared, steps

    def wait(self, job: str, over: Callable[[Record], bool], *, timeout_s: float) -> Record:
        """Return a job as soon as it is over something, or as it is when the time is up."""
        for _ in polls(timeout_s):
            record = self.job(job)
            if over(record):
                break
        return record

    def _placed(self, job: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a job that has commands or files to this machine; others may run on any."""
        phases = payload.get("phases")
        named = phases if isinstance(phases, list) else []
        doers = [one.get("worker") for one in named if isinstance(one, Mapping)]
        doers.append(payload.get("review"))
        # What a model writes is kept as a file, for its reviewer and whoever builds on it.
        made = [one for one in doers if isinstance(one, Mapping)]
        commands = any("command" in one or "model" in one for one in made)
        if not commands and not payload.get("dir"):
            return dict(payload)
        settings = self.dispatch.settings
        here = {"host": settings.host, "dir": str(settings.home.resolve() / "jobs" / job)}
        return {**here, **({"folder": str(Path.cwd())} if commands else {}), **payload}

    # --- inside -------------------------------------------------------------------------------

    def _fire(
        self,
        record: Record,
        verb: Verb,
        words: dict[str, Any],
        *,
        proposal: str | None = None,
        op_id: str | None = None,
    ) -> Record:
        machine = self.dispatch.lifecycle.machine(record.machine)
        # Repeated with its op-id, a command means what it meant then.
        if op_id is None and not machine.rows(record.state, verb.trigger):
            told = f"{record.id} is {record.state}: {verb.name} is not allowed; "
            raise JobCommandError(told + next_steps(machine, record))
        words = self.client.with_actor(record, verb.trigger, words)
        entered = self.client.proposal_version(record, proposal) if proposal else record.entered
        warrant = Warrant.person(entered) if verb.decides else Warrant()
        reason = str(words.get("reason", ""))
        call = Call(Cause(self.client.actor, reason), op_id or uuid4().hex, warrant)
        try:
            fired = self.dispatch.fire(record.id, verb.trigger, words, call)
        except IllegalTransitionError as refusal:
            now = self.job(record.id)
            told = f"{now.id} is {now.state}: {verb.name} is not allowed; "
            raise JobCommandError(told + next_steps(machine, now)) from refusal
        except GuardRefusedError as refusal:
            now = self.job(record.id)
            told = f"{now.id} is {now.state}: {verb.name} is refused: {refusal.why}; "
            raise JobCommandError(told + next_steps(machine, now)) from refusal
        return fired.record or self.job(record.id)


def _something(changes: Mapping[str, Any]) -> None:
    if not changes:
        raise CallError("nothing would change: name at least one field and its new value")


def _only(model: type[BaseModel], data: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Return of a record's data what it could be born from."""
    names = model.model_fields.keys() - set(left_out)
    return {name: data[name] for name in model.model_fields if name in names and name in data}
