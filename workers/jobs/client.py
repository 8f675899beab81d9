"""What producers and stewards tell jobs, a method for each verb; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from interlock.kernel.machines.jobs.job.names import RunUntil, State
from interlock.kernel.record import Record
from interlock.workers.client import Client, Submitted
from interlock.workers.jobs.commands import gate
from interlock.workers.jobs.drawing.drawing import mermaid, svg
from interlock.workers.jobs.file.file import GraphFile
from interlock.workers.jobs.file.writer import graph_text
from interlock.workers.jobs.graph_view import GraphView
from interlock.workers.jobs.graphs import Created, Graphs
from interlock.workers.jobs.reply import schemas

Limits = Mapping[str, int]


class Jobs:
    """The verbs of `interlock job`, over a client.

    Each takes a job's id, <graph>/<job>, and returns the job as it stands then. A JobCommandError
    says what would have been legal, and for whom. Where a steward decides, `proposal` is what was
    seen (`show(...)["proposal"]`); a decision about anything else is a StaleDecisionError. A
    sign-off must name it; the other decisions without it take the job as it is.
    """

    def __init__(self, client: Client) -> None:
        self.graphs = Graphs(client)
        self.view = GraphView(self.graphs)

    # --- before it runs -----------------------------------------------------------------------

    def create(
        self, job: str, payload: Mapping[str, Any], *, priority: int = 5, activate: bool = False
    ) -> Submitted:
        """Create one job, a draft unless it is activated at once. Repeating it changes nothing."""
        return self.graphs.create(job, payload, priority=priority, held=not activate)

    def submit(self, file: GraphFile, *, activate: bool = True) -> Created:
        """Create a whole graph. Repeating it completes what was interrupted."""
        return self.graphs.submit(file, activate=activate)

    def config(self, job: str, changes: Mapping[str, Any]) -> Record:
        """Change a draft."""
        return self.graphs.configure(job, changes)

    def activate(self, job: str) -> Record:
        """Let a draft run once all that it depends on has succeeded."""
        return self.graphs.command(job, "activate")

    # --- while it runs ------------------------------------------------------------------------

    def step(self, job: str, *, wait_s: float = 0) -> Record:
        """Do exactly the one thing that the state names; return when it is over or time is up."""
        begun = self.graphs.step(job)
        # What was begun is over when the job has left the states that it began with, or is back:
        # to be tried again it waits for the next word.
        running, reviewing = (
            (State.PENDING, State.RUNNING),
            (State.REVIEW_REQUIRED, State.REVIEWING),
        )
        during = running if begun.state in running else reviewing

        def over(now: Record) -> bool:
            back = now.state == during[0] and not now.data.get("going")
            return back or now.state not in during or gate(now)

        return self.graphs.wait(job, over, timeout_s=wait_s)

    def run(self, job: str, *, wait_s: float = 0) -> Record:
        """Go on until somebody has to decide; return when that is so or time is up."""
        record = self.graphs.job(job)
        at_work = record.state in (State.RUNNING, State.REVIEWING, State.APPROVAL_REQUIRED)
        if gate(record) or not at_work:
            self.graphs.command(job, "run", {"to": RunUntil.GATE})
        return self.graphs.wait(job, gate, timeout_s=wait_s)

    def suspend(self, job: str, *, reason: str = "") -> Record:
        """Put a job aside with all that it has; what runs is stopped."""
        return self.graphs.command(job, "suspend", {"reason": reason})

    def resume(self, job: str, *, reason: str = "") -> Record:
        """Take up a suspended job where it was."""
        return self.graphs.command(job, "resume", {"reason": reason})

    def pause(self, job: str, *, for_s: int | None = None, reason: str = "") -> Record:
        """Stop the worker for a while, or until somebody lifts that; the slot is kept."""
        words = {"reason": reason} | ({"for_s": for_s} if for_s else {})
        return self.graphs.command(job, "pause", words)

    def unpause(self, job: str, *, reason: str = "") -> Record:
        """Lift a pause."""
        return self.graphs.command(job, "unpause", {"reason": reason})

    def cancel(self, job: str, *, reason: str = "") -> Record:
        """End a job; what runs is stopped."""
        return self.graphs.command(job, "cancel", {"reason": reason})

    # --- at its gates -------------------------------------------------------------------------

    def approve(self, job: str, *, proposal: str, reason: str = "") -> Record:
        """Sign a job off: it has succeeded, and what depends on it goes on."""
        return self.graphs.command(job, "approve", {"reason": reason}, proposal=proposal)

    def reject(self, job: str, *, proposal: str, reason: str, phase: str | None = None) -> Record:
        """Send a job back for more work; the reason is handed to its worker."""
        words = {"reason": reason} | ({"phase": phase} if phase else {})
        return self.graphs.command(job, "reject", words, proposal=proposal)

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
        """After an intervention: work on it again, or review it again, perhaps with more to use."""
        words: dict[str, Any] = {"reason": reason} | ({"limits": dict(limits)} if limits else {})
        words |= {"phase": phase} if phase else {}
        verb = "resubmit --to review" if to == "review" else "resubmit"
        return self.graphs.command(job, verb, words, proposal=proposal)

    def terminate(self, job: str, *, reason: str = "", proposal: str | None = None) -> Record:
        """End a job that needs an intervention."""
        return self.graphs.command(job, "terminate", {"reason": reason}, proposal=proposal)

    def force_success(self, job: str, *, reason: str, proposal: str | None = None) -> Record:
        """Call a job a success whatever its state, as a steward."""
        return self.graphs.command(job, "force-success", {"reason": reason}, proposal=proposal)

    def restep(
        self, job: str, *, phase: str, reason: str = "", proposal: str | None = None
    ) -> Record:
        """Go back to an earlier phase; nothing may be at work meanwhile."""
        words = {"phase": phase, "reason": reason}
        return self.graphs.command(job, "restep", words, proposal=proposal)

    def waive(
        self,
        job: str,
        *,
        dependency: str | None = None,
        reason: str = "",
        proposal: str | None = None,
    ) -> Record:
        """Let a starved job go on without what it lost."""
        words = {"reason": reason} | ({"dependency": dependency} if dependency else {})
        return self.graphs.command(job, "waive", words, proposal=proposal)

    # --- to be seen ---------------------------------------------------------------------------

    def status(self, graph: str) -> dict[str, Any]:
        """Return how a graph stands."""
        return self.view.status(graph)

    def list(self, graph: str) -> Sequence[Mapping[str, Any]]:
        """Return the jobs of a graph, each with why it waits."""
        return self.view.rows(graph)

    def show(self, job: str) -> dict[str, Any]:
        """Return one job whole."""
        return self.view.show(job)

    def export(self, graph: str) -> str:
        """Return the file that would create a graph again."""
        return graph_text(graph, *self.graphs.exported(graph))

    def graph(self, graph: str, *, form: Literal["mermaid", "svg"] = "mermaid") -> str:
        """Return a drawing of a graph with the states of its jobs."""
        return (svg if form == "svg" else mermaid)(graph, self.view.nodes(graph))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of what workers and reviewers answer, and of a manifest."""
        return schemas()
