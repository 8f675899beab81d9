"""The client of jobs for producers and stewards: one method for each verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from interlock.kernel.machines.jobs.job.names import RunUntil, State
from interlock.kernel.record import Record
from interlock.workers.client import Client, Submitted
from interlock.workers.jobs.drawing.drawing import mermaid, svg
from interlock.workers.jobs.file.file import GraphFile
from interlock.workers.jobs.file.writer import graph_text
from interlock.workers.jobs.graphs import Created, Graphs
from interlock.workers.jobs.reply import schemas
from interlock.workers.jobs.status import GraphView
from interlock.workers.jobs.verbs import at_gate

Limits = Mapping[str, int]


class Jobs:
    """The verbs of `interlock job`, through a client.

    Each takes the id of a job, <graph>/<job>, and returns the job afterwards. A JobCommandError has
    the commands that are legal, and who may use them. For a steward's decision, `proposal` is the
    one that was seen (`show(...)["proposal"]`); if it is not the current one, StaleDecisionError is
    raised. `approve` and `reject` require a proposal; any other decision without one is about the
    job as it is now.
    """

    def __init__(self, client: Client) -> None:
        self.graphs = Graphs(client)
        self.view = GraphView(self.graphs)

    # --- before it runs -----------------------------------------------------------------------

    def create(
        self, job: str, payload: Mapping[str, Any], *, priority: int = 5, activate: bool = False
    ) -> Submitted:
        """Create one job, as a draft unless `activate` is set. Repeating it changes nothing."""
        return self.graphs.create(job, payload, priority=priority, held=not activate)

    def submit(self, file: GraphFile, *, activate: bool = True) -> Created:
        """Create a whole graph. Repeat it to complete an interrupted call."""
        return self.graphs.submit(file, activate=activate)

    def config(self, job: str, changes: Mapping[str, Any]) -> Record:
        """Change a draft."""
        return self.graphs.configure(job, changes)

    def activate(self, job: str) -> Record:
        """Let a draft run as soon as all of its dependencies have succeeded."""
        return self.graphs.command(job, "activate")

    # --- while it runs ------------------------------------------------------------------------

    def step(self, job: str, *, wait_s: float = 0) -> Record:
        """Run the one command that the state names; return when it is over, or the time is up."""
        begun = self.graphs.step(job)
        # The step is over when the job has left these two states, or is back in the first one: then
        # it has to be tried again, and waits for the next step.
        running, reviewing = (
            (State.PENDING, State.RUNNING),
            (State.REVIEW_REQUIRED, State.REVIEWING),
        )
        during = running if begun.state in running else reviewing

        def over(now: Record) -> bool:
            back = now.state == during[0] and not now.data.get("going")
            return back or now.state not in during or at_gate(now)

        return self.graphs.wait(job, over, timeout_s=wait_s)

    def run(self, job: str, *, wait_s: float = 0) -> Record:
        """Let a job go on until somebody has to decide; return then, or when the time is up."""
        record = self.graphs.job(job)
        at_work = record.state in (State.RUNNING, State.REVIEWING, State.APPROVAL_REQUIRED)
        if at_gate(record) or not at_work:
            self.graphs.command(job, "run", {"to": RunUntil.GATE})
        return self.graphs.wait(job, at_gate, timeout_s=wait_s)

    def suspend(self, job: str, *, reason: str = "") -> Record:
        """Suspend a job; its running worker is stopped, and its results are kept."""
        return self.graphs.command(job, "suspend", {"reason": reason})

    def resume(self, job: str, *, reason: str = "") -> Record:
        """Continue a suspended job where it was."""
        return self.graphs.command(job, "resume", {"reason": reason})

    def pause(self, job: str, *, for_s: int | None = None, reason: str = "") -> Record:
        """Stop the worker for some time, or until `unpause`; the job keeps its slot."""
        fields = {"reason": reason} | ({"for_s": for_s} if for_s else {})
        return self.graphs.command(job, "pause", fields)

    def unpause(self, job: str, *, reason: str = "") -> Record:
        """End a pause."""
        return self.graphs.command(job, "unpause", {"reason": reason})

    def cancel(self, job: str, *, reason: str = "") -> Record:
        """Cancel a job; its running worker is stopped."""
        return self.graphs.command(job, "cancel", {"reason": reason})

    # --- at its gates -------------------------------------------------------------------------

    def approve(self, job: str, *, proposal: str, reason: str = "") -> Record:
        """Sign a job off: it has succeeded, and the jobs that depend on it go on."""
        return self.graphs.command(job, "approve", {"reason": reason}, proposal=proposal)

    def reject(self, job: str, *, proposal: str, reason: str, phase: str | None = None) -> Record:
        """Send a job back for more work; its worker gets the reason as guidance."""
        fields = {"reason": reason} | ({"phase": phase} if phase else {})
        return self.graphs.command(job, "reject", fields, proposal=proposal)

    def resubmit(
        self,
        job: str,
        *,
        to: Literal["worker", "review"] = "worker",
        reason: str = "",
        phase: str | None = None,
        limits: Limits | None = None,
        proposal: str | None = None,
    ) -> Record:
        """Work on a job again after an intervention, or review it again; limits may be raised."""
        fields: dict[str, Any] = {"reason": reason} | ({"limits": dict(limits)} if limits else {})
        fields |= {"phase": phase} if phase else {}
        verb = "resubmit --to review" if to == "review" else "resubmit"
        return self.graphs.command(job, verb, fields, proposal=proposal)

    def terminate(self, job: str, *, reason: str = "", proposal: str | None = None) -> Record:
        """Cancel a job that needs an intervention."""
        return self.graphs.command(job, "terminate", {"reason": reason}, proposal=proposal)

    def force_success(self, job: str, *, reason: str, proposal: str | None = None) -> Record:
        """Make a job a success whatever its state is, as a steward."""
        return self.graphs.command(job, "force-success", {"reason": reason}, proposal=proposal)

    def restep(
        self, job: str, *, phase: str, reason: str = "", proposal: str | None = None
    ) -> Record:
        """Go back to an earlier phase of a job that is not running."""
        fields = {"phase": phase, "reason": reason}
        return self.graphs.command(job, "restep", fields, proposal=proposal)

    def waive(
        self,
        job: str,
        *,
        dependency: str | None = None,
        reason: str = "",
        proposal: str | None = None,
    ) -> Record:
        """Let a starved job go on without a lost dependency, or without all that it lost."""
        fields = {"reason": reason} | ({"dependency": dependency} if dependency else {})
        return self.graphs.command(job, "waive", fields, proposal=proposal)

    # --- read ---------------------------------------------------------------------------------

    def status(self, graph: str) -> dict[str, Any]:
        """Return the condition of a graph."""
        return self.view.status(graph)

    def list(self, graph: str) -> Sequence[Mapping[str, Any]]:
        """Return the jobs of a graph, each with the reason why it waits."""
        return self.view.rows(graph)

    def show(self, job: str) -> dict[str, Any]:
        """Return everything about one job."""
        return self.view.show(job)

    def export(self, graph: str) -> str:
        """Return the text of a file that would create the graph again."""
        return graph_text(graph, *self.graphs.exported(graph))

    def graph(self, graph: str, *, form: Literal["mermaid", "svg"] = "mermaid") -> str:
        """Return a drawing of a graph with the states of its jobs."""
        return (svg if form == "svg" else mermaid)(graph, self.view.drawn_jobs(graph))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schemas of the replies of workers and reviewers, and of manifests."""
        return schemas()
