"""The client of graphs and their jobs: create, command, read and wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from interlock import CallError, Client, Submitted
from interlock.system.errors import GuardRefusedError, IllegalTransitionError
from interlock.system.records import polls
from interlock.system.tables import PRIORITY_DEFAULT, Record, RecordContent
from interlock.systems.jobs.admission import GraphAdmission, dependencies_in
from interlock.systems.jobs.file.file import GraphFile, Step
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.graph.payloads import NewGraph
from interlock.systems.jobs.machines.graph.table import State as GraphState
from interlock.systems.jobs.machines.graph.table import Trigger as GraphTrigger
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.machines.job.payloads import NewJob, RunUntil
from interlock.systems.jobs.manifest import restore_manifest
from interlock.systems.jobs.verbs import VERBS, Verb, at_gate, next_steps, verb_named

# The fields that a job takes over from its graph, each with its default.
INHERITED_DEFAULTS: Mapping[str, Any] = {"stewards": [], "on_cancel": "starve"}


class JobCommandError(CallError):
    """A command is not legal in a job's present state. The message has the legal ones."""


@dataclass(frozen=True, slots=True)
class Created:
    """A graph that was created, with its jobs in the order of the file."""

    graph: str
    jobs: tuple[Submitted, ...]


@dataclass(frozen=True, slots=True)
class GraphRecords:
    """A graph and its jobs by name. `own` is None if only jobs of it exist, but no record of it."""

    name: str
    own: Record[GraphData] | None
    jobs: list[RecordContent[JobData]]


class Graphs:
    """The operations on graphs and their jobs, over a client; `GraphView` shows their condition."""

    def __init__(self, client: Client) -> None:
        self.client, self.records = client, client.records
        self.admission = GraphAdmission(self.records)

    def open(self, graph: str, payload: Mapping[str, Any] | None = None) -> Submitted:
        """Open a graph. Without a payload, a graph that exists is accepted as it is.

        A graph that was opened without a payload, for its first job, can still get one.
        """
        self.records.admit([graph])
        return self._open(graph, payload)

    def _open(self, graph: str, payload: Mapping[str, Any] | None = None) -> Submitted:
        """Open a graph that the quota has admitted."""
        found = self.records.views.records([graph]).get(graph)
        if found is not None and found.machine != "graph":
            raise CallError(f"{graph!r} is a {found.machine}, not a graph; choose another name")
        if found is not None and payload is None:
            return Submitted(graph, replayed=True)
        if payload and self.records.created_with("graph", {graph: {}}).get(graph):
            fields = {**payload, "by": self.client.actor}
            # A repeated call does not undo what others have configured since.
            op_id = self.records.op_id_of("open", GraphTrigger.CONFIGURE, fields)
            fired = self.records.fire(graph, GraphTrigger.CONFIGURE, fields, op_id=op_id)
            return Submitted(graph, fired.replayed)
        return self._submit("graph", graph, payload or {})

    def _submit(
        self,
        machine: str,
        new_id: str,
        payload: Mapping[str, Any],
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted:
        """Create a graph or job that the quota has admitted."""
        begins = not payload.get("hold")
        fired = self.records.create(machine, new_id, payload, priority=priority, begins=begins)
        return Submitted(new_id, fired.replayed)

    def create(
        self,
        job: str,
        payload: Mapping[str, Any],
        *,
        priority: int = PRIORITY_DEFAULT,
        held: bool = True,
        local: bool = True,
    ) -> Submitted:
        """Create one job, by default as a draft; open its graph if there is none.

        A `local` job has its commands and files on this computer, unless its payload names another.
        """
        graph, _, name = job.partition("/")
        if not name:
            raise CallError(f"{job!r} names no job: write it as <graph>/<job>")
        own = self.graph(graph)
        # A default is not copied: the payload must be the same when the call is repeated, and then
        # the graph exists.
        shared: Mapping[str, Any] = own.data if own is not None else INHERITED_DEFAULTS
        inherited = {k: shared[k] for k, v in INHERITED_DEFAULTS.items() if shared[k] != v}
        fields = {**inherited, **payload, "hold": held}
        fields = self._bound_to_machine(job, fields) if local else fields
        # The job is checked completely before its graph is opened for it.
        self.records.check_new("job", fields)
        if not held:
            self.admission.check_dependencies({job: dependencies_in(payload)})
        self.admission.check_open(own, [job])
        self.records.admit([graph, job])
        if own is None:
            self._open(graph)
        return self._submit("job", job, fields, priority)

    def submit(self, file: GraphFile, *, activate: bool = True) -> Created:
        """Create every job of a file, then activate them. Repeat it to complete an interrupted one.

        Nothing is written if a job exists with another payload, or depends on an unknown job.
        """
        payloads = {
            f"{file.name}/{step.name}": self._bound_to_machine(
                f"{file.name}/{step.name}", {**step.payload, "hold": True}
            )
            for step in file.steps
        }
        self.admission.check_file(payloads)
        self.admission.check_open(self.graph(file.name), list(payloads))
        self.records.admit([file.name, *payloads])
        self._open(file.name, file.payload)
        jobs = [
            self._submit("job", job, payload, step.priority)
            for (job, payload), step in zip(payloads.items(), file.steps, strict=True)
        ]
        if activate:
            found = self.records.views.each_record(payloads)
            drafts = [job for job in found if job.state == State.DRAFT]
            # Jobs that were created before may have been configured since.
            self.admission.check_start("activate", drafts)
            for draft in drafts:
                self._fire(draft, VERBS["activate"], {}, activates=True)
        return Created(file.name, tuple(jobs))

    def configure_graph(self, graph: str, changes: Mapping[str, Any]) -> Record[GraphData]:
        """Change what the jobs of a graph share; higher limits lift a halt."""
        found = self.graph(graph)
        if found is None:
            raise self._no_graph(graph)
        _check_not_empty(changes)
        payload = {**changes, "by": self.client.actor}
        halted = found.state == GraphState.HALTED
        if halted and set(changes) != {"limits"}:
            raise CallError(f"{graph} is halted: raise the limit that it has reached, alone")
        trigger = GraphTrigger.RAISE_LIMITS if halted else GraphTrigger.CONFIGURE
        return self.client.fire(graph, trigger, payload)

    def configure(self, job: str, changes: Mapping[str, Any]) -> Record[JobData]:
        """Change a draft. Raises JobCommandError if the job is not a draft any more."""
        _check_not_empty(changes)
        return self.command(job, "config", changes)

    def command(
        self,
        job: str,
        verb: str,
        fields: Mapping[str, Any] | None = None,
        *,
        proposal: str | None = None,
        op_id: str | None = None,
    ) -> Record[JobData]:
        """Give a job one command of the table VERBS, with the fields of its trigger's payload.

        `proposal` is the one that a steward saw; without it the command is about the job as it is
        now. Repeat a call whose answer was lost with the same op-id. Raises JobCommandError with
        the commands that are legal and who may use them, StaleDecisionError if the proposal is no
        longer the current one.
        """
        named, record = verb_named(verb), self.looked_at(job)
        self.admission.check_start(verb, [record])
        return self._fire(record, named, dict(fields or {}), proposal=proposal, op_id=op_id)

    def step(self, job: str, *, wait_s: float = 0) -> Record[JobData]:
        """Run the one command that a job's state names; return when it is over, or time is up.

        A manual job then waits again.
        """
        begun = self.command(job, "step", {"to": RunUntil.NEXT})
        # The step is over when the job has left these two states, or is back in the first one: then
        # it has to be tried again, and waits for the next step.
        running, reviewing = (
            (State.PENDING, State.RUNNING),
            (State.REVIEW_REQUIRED, State.REVIEWING),
        )
        during = running if begun.state in running else reviewing

        def over(now: Record[JobData]) -> bool:
            back = now.state == during[0] and not now.data.get("going")
            return back or now.state not in during or at_gate(now)

        return self.wait(job, over, timeout_s=wait_s)

    def run(self, job: str, *, wait_s: float = 0) -> Record[JobData]:
        """Let a job go on until somebody has to decide; return then, or when the time is up."""
        record = self.job(job)
        at_work = record.state in (State.RUNNING, State.REVIEWING, State.APPROVAL_REQUIRED)
        if at_gate(record) or not at_work:
            self.command(job, "run", {"to": RunUntil.GATE})
        return self.wait(job, at_gate, timeout_s=wait_s)

    def command_all(self, graph: str, verb: str, fields: Mapping[str, Any]) -> dict[str, str]:
        """Give a command to each job of a graph that accepts it; return their new states."""
        named, jobs = verb_named(verb), self.jobs(graph)
        self.admission.check_start(verb, jobs)
        found: dict[str, str] = {}
        for record in jobs:
            restore_manifest(self.records, record)
            try:
                found[record.id] = self._fire(record, named, dict(fields)).state
            except JobCommandError:
                continue  # the command is not legal for this job
            except CallError:
                if self.job(record.id).entered == record.entered:
                    raise
                continue  # its state has just changed
        return found

    def job(self, job: str) -> Record[JobData]:
        """Return a job. Raises CallError if the id is not that of a job."""
        return self.client.show(job, machine="job")

    def looked_at(self, job: str) -> Record[JobData]:
        """Return a job whose manifest file, if this computer has it, agrees with its log again."""
        record = self.job(job)
        restore_manifest(self.records, record)
        return record

    def graph(self, graph: str) -> Record[GraphData] | None:
        """Return a graph's own record; None if there is none, though jobs of it may exist."""
        found = self.records.views.records([graph]).get(graph)
        return found if found is not None and found.machine == "graph" else None

    def read(self, names: Collection[str]) -> list[GraphRecords]:
        """Return those of these graphs that exist, with their jobs, in three round trips."""
        views, machines = self.records.views, self.records.machines
        below = views.below(names)
        own = views.records(names, readable_by=machines)
        jobs = views.contents(chain.from_iterable(below.values()), readable_by=machines)
        graphs = [
            GraphRecords(
                name,
                found if (found := own.get(name)) and found.machine == "graph" else None,
                [job for one in ids if (job := jobs.get(one)) and job.machine == "job"],
            )
            for name, ids in below.items()
        ]
        return [graph for graph in graphs if graph.own or graph.jobs]

    def read_one(self, name: str) -> GraphRecords:
        """Return a graph with its jobs. Raises CallError if there is none."""
        for found in self.read([name]):
            return found
        raise self._no_graph(name)

    def _no_graph(self, name: str) -> CallError:
        """Return the error for a name of no graph. Raises CallError for that of another record."""
        if self.records.views.records([name]):
            self.client.show(name, machine="graph")
        return CallError(f"there is no graph {name!r}; `interlock job list` names those we have")

    def jobs(self, graph: str) -> list[Record[JobData]]:
        """Return the records of a graph's jobs by name. Raises CallError if there is no graph."""
        jobs = [job.id for job in self.read_one(graph).jobs]
        return list(self.records.views.each_record(jobs))

    def names(self) -> list[str]:
        """Return every graph that has a record, by name."""
        return sorted(self.records.views.ids(self.records.machine("graph")))

    def exported(self, graph: str) -> tuple[dict[str, Any], list[Step]]:
        """Return a graph as its file would have it: its payload, and each job as it is now."""
        own = self.graph(graph)
        shared = {} if own is None else _creation_fields(NewGraph, own.data)
        steps = [
            Step(
                name=job.id.partition("/")[2],
                priority=job.priority,
                line=0,
                payload=_creation_fields(NewJob, job.data, "host", "hold"),
            )
            for job in self.jobs(graph)
        ]
        return shared, steps

    def wait(
        self, job: str, condition: Callable[[Record[JobData]], bool], *, timeout_s: float
    ) -> Record[JobData]:
        """Wait until a job meets a condition or the time is up; return the job."""
        for _ in polls(timeout_s):
            record = self.job(job)
            if condition(record):
                break
        return record

    def _bound_to_machine(self, job: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a job that has commands or files to this computer; other jobs may run on any."""
        phases = payload.get("phases")
        listed = phases if isinstance(phases, list) else []
        executors = [phase.get("worker") for phase in listed if isinstance(phase, Mapping)]
        executors.append(payload.get("review"))
        # The answer of a model is kept as a file, for the reviewer and the jobs that depend on it.
        local = any(
            "command" in executor or "model" in executor
            for executor in executors
            if isinstance(executor, Mapping)
        )
        if not local and not payload.get("dir"):
            return dict(payload)
        settings = self.records.settings
        bound = {"host": settings.host, "dir": str(settings.home.resolve() / "jobs" / job)}
        return {**bound, **({"folder": str(Path.cwd())} if local else {}), **payload}

    def _fire(
        self,
        record: Record[JobData],
        verb: Verb,
        fields: dict[str, Any],
        *,
        proposal: str | None = None,
        op_id: str | None = None,
        activates: bool = False,
    ) -> Record[JobData]:
        """Fire the trigger of a verb; what `submit` activates is activated once, if repeated."""
        machine = self.records.machine(record.machine)
        # The store replays a call that is repeated with its op-id, whatever its state is now.
        if not op_id and not activates and not machine.rows(record.state, verb.trigger):
            problem = f"{record.id} is {record.state}: {verb.name} is not allowed; "
            raise JobCommandError(problem + next_steps(machine, record))
        payload = self.client.answers(record).signed(verb.trigger, fields, self.client.actor)
        entered = self.client.answers(record).version(proposal) if proposal else record.entered
        version, reason = entered if verb.decides else None, str(payload.get("reason", ""))
        try:
            if activates:
                once = f"activate:{record.id}"
                fired = self.records.fire(
                    record.id, verb.trigger, payload, op_id=once, reason=reason, version=version
                )
                return fired.record or self.job(record.id)
            return self.client.fire(
                record.id, verb.trigger, payload, op_id=op_id, reason=reason, version=version
            )
        except IllegalTransitionError as refusal:
            now = self.job(record.id)
            problem = f"{now.id} is {now.state}: {verb.name} is not allowed; "
            raise JobCommandError(problem + next_steps(machine, now)) from refusal
        except GuardRefusedError as refusal:
            now = self.job(record.id)
            problem = f"{now.id} is {now.state}: {verb.name} is refused: {refusal.why}; "
            raise JobCommandError(problem + next_steps(machine, now)) from refusal


def _check_not_empty(changes: Mapping[str, Any]) -> None:
    if not changes:
        raise CallError("nothing would change: name at least one field and its new value")


def _creation_fields(
    model: type[BaseModel], data: Mapping[str, Any], *left_out: str
) -> dict[str, Any]:
    """Return the fields of a record's data from which the record could be created again."""
    names = model.model_fields.keys() - set(left_out)
    return {name: data[name] for name in model.model_fields if name in names and name in data}
