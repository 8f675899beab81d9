"""Every row of workspaces, runs and codons is fired by each actor that its table names.

Several workspaces work at the same time, some led by events from outside, some by supervisors. All
published events occur in them. A codon is skipped and a run is stopped in each live state of the
codon, and what is left of them is checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from interlock.kernel.table import Transition
from interlock.systems.runs.machines.codon.names import LIVE
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.events import RunEvent
from interlock.systems.runs.machines.run.table import RUN
from interlock.systems.runs.machines.workspace.table import WORKSPACE
from interlock.systems.runs.start import RunRefusedError
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.runs.workspaces import CUE_OF, NewWorkspace, RunWorkspace, each_state, holding

Fired = tuple[str, str, str, str, str]  # machine, from, trigger, to, actor
MACHINES = (WORKSPACE, RUN, CODON)
EVENTS = {str(one.model_fields["type"].default) for one in get_args(RunEvent)}
# A process that is over reports no more costs: later ones come from outside.
ROWS_OF_ENDED_PROCESSES = {
    ("codon", "completing_sentinels", trigger, "completing_sentinels", "step")
    for trigger in (
        "costs_updated",
        "costs_incremented",
        "codon_final_cost_set",
        "assistant_message_count_updated",
    )
}


def fired_row(machine: str, row: Transition, actor: str) -> Fired:
    """Return a row of a table in the form in which fired rows are compared."""
    return machine, str(row.source), str(row.trigger), str(row.target), actor


TABLE = {
    fired_row(machine.name, row, actor)
    for machine in MACHINES
    for row in machine.transitions
    for actor in row.by
}


@dataclass
class Seen:
    """The rows that were fired in all workspaces, and the types of published events."""

    rows: set[Fired] = field(default_factory=set)
    types: set[str] = field(default_factory=set)

    def add(self, workspace: RunWorkspace) -> None:
        """Add everything that happened in a workspace, and check its records against their logs."""
        records = [workspace.record, *workspace.all_runs()]
        records += [codon for run in records[1:] for codon in workspace.codons(run.id)]
        for record in records:
            workspace.deployment.checked(record.id)
            for event in workspace.deployment.events(record.id)[1:]:
                row = (str(event.source), event.trigger, event.target, event.cause.actor)
                self.rows.add((record.machine, *row))
        self.types |= set(workspace.types())


def in_each_state(
    new_workspace: NewWorkspace, name: str, act: Callable[[RunWorkspace], object], *states: str
) -> dict[str, RunWorkspace]:
    """Act on a run in each live state of its codon, and wait for its end.

    Return the workspaces by these states.
    """
    found = each_state(lambda state: new_workspace(f"{name}-{state}"))
    for workspace in found.values():
        act(workspace)
    held = found["starting"]
    if held.deployment.client.show(held.last.id).state == "running":
        held.deployment.lease_is_renewed(held.codon().id)
    held.release("starting")
    for workspace in found.values():
        workspace.wait_for_end(workspace.last, *states)
    return found


def check_skipped(workspaces: Mapping[str, RunWorkspace]) -> None:
    """Check that only the codon that was skipped in each live state has ended early."""
    for state, workspace in workspaces.items():
        assert workspace.codon_states() == ["one skipped", "two completed"], workspace.story()
        skipped = workspace.codon()
        assert (skipped.data["skipped_during"], skipped.data["skip_checkpoint"] != "") == (
            state,
            True,
        )
        done = ["one", "two"] if state not in ("preparing", "starting") else ["two"]
        assert workspace.done() == done, "its changes stay"
    costs = workspaces["completing_sentinels"].check_costs()
    assert (costs["run"], costs["run_spent"]) == (0, 3), "a skipped codon costs 0, but was paid"


def check_stopped(workspaces: Mapping[str, RunWorkspace]) -> None:
    """Check that the run that was stopped in each live state ended there, with its reason."""
    for state, workspace in workspaces.items():
        assert workspace.last.data["ended"]["reason"] == "enough"
        assert workspace.codon_states() == ["one failed"], workspace.story()
        failed = workspace.codon()
        assert failed.data["failed_during"] == state
        assert failed.data["ignored"] is False, "a stop is not ignored"
        assert failed.data["error_checkpoint"]
        with pytest.raises(RunRefusedError, match="no run is running"):
            workspace.runs.stop(workspace.folder)


METADATA: dict[str, dict[str, Any]] = {
    "starting": {},
    "initializing": {"pid": 1, "log_path": "/x"},
    "running": {"session_id": "s"},
    "completing_sentinels": {},
    "completed": {"checkpoint_sha": "abc"},
    "failed": {"exit_code": 3, "failure_reason": {"type": "unknown", "retriable": False}},
    "skipped": {},
}
EVENT_DATA: dict[str, dict[str, Any]] = {
    "CheckpointCreated": {"checkpoint_type": "completed", "sha": "abc", "branch": "b"},
    "SentinelStatesUpdated": {"sentinel_states": [{"id": "e", "model": "m", "loaded_at": 1}]},
    "CostsUpdated": {"cost": 5},
    "CostsIncremented": {"cost_delta": 5},
    "AssistantMessageCountUpdated": {"new_count": 3},
    "CodonFinalCostSet": {"final_cost": 9},
}
# How many of these events each state accepts; after the last of them no costs are accepted.
ACCEPTED = {"preparing": 1, "starting": 2, "initializing": 2, "running": 5}
ALL = len(EVENT_DATA)


def send_transition(workspace: RunWorkspace, codon: str, source: str, target: str) -> None:
    """Move a codon to another state by an event from outside."""
    metadata = METADATA[target]
    if target in ("failed", "skipped"):
        metadata = {**metadata, f"{target}_during": source}
    transition: dict[str, Any] = {"from": source, "to": target, "metadata": metadata}
    answer = workspace.wait_for_answer(
        workspace.send_event("CodonTransitioned", codon=codon, **transition)
    )
    assert answer.kind == "event_applied", answer.detail


def end_codons_by_events(workspace: RunWorkspace) -> None:
    """Move codons that wait in their rig through all states by events alone."""
    ways = [(state, end) for state in LIVE for end in ("failed", "skipped")]
    ways += [(state, "completed") for state in LIVE[3:]]
    names = [f"c{n}" for n in range(len(ways))]
    # Without a last codon that only waits, the run could complete before it is told to fail.
    lines = [
        f"  - {{codon: {name}, rig: [{{command: {{run: hold {name}}}}}], command: did, "
        "on_failure: ignore}"
        for name in (*names, "last")
    ]
    run = workspace.start("\n".join(["codons:", *lines]))
    for name, (last, end) in zip(names, ways, strict=True):
        workspace.wait_for_cue(name)
        for number, state in enumerate(LIVE):
            accepted = ALL if state == last == "running" else ACCEPTED.get(state, ALL)
            for kind in list(EVENT_DATA)[:accepted]:
                answer = workspace.wait_for_answer(
                    workspace.send_event(kind, codon=name, **EVENT_DATA[kind])
                )
                assert answer.kind == "event_applied", answer.detail
            if state == last:
                send_transition(workspace, name, state, end)
                break
            send_transition(workspace, name, state, LIVE[number + 1])
    workspace.wait_for_cue("last")
    workspace.wait_for_answer(workspace.send_event("InitialCheckpointSet", sha="abc"))
    workspace.wait_for_answer(workspace.send_event("RunFailed", reason="so it is"))
    workspace.wait_for_end(run, "failed")


def start_run_by_event(workspace: RunWorkspace) -> None:
    """Start a run by an event, and report its crash by another."""
    began = workspace.send_event("RunStarted", run_folder=str(workspace.folder), branch="run-2")
    assert workspace.wait_for_answer(began).kind == "event_applied"
    refused = workspace.wait_for_answer(workspace.send_event("RunCompleted"))
    assert refused.kind == "event_refused", "only the supervisor can complete a run"
    workspace.wait_for_cue("c0", 2)
    assert (
        workspace.wait_for_answer(
            workspace.send_event("RunCrashed", reason="seen by a monitor")
        ).kind
        == "event_applied"
    )
    run = workspace.wait_for_end(workspace.last, "crashed")
    assert run.data["ended"] == {"code": "told", "detail": "seen by a monitor"}
    workspace.runs_as("producer").close(workspace.folder)


NATURAL = """
sentinels: {eye: {on: [codon_transitioned], command: "cat > /dev/null"}}
codons:
  - codon: one
    rig: [{command: {run: "true"}}]
    sentinels: [eye]
    speaks: interlock
    command: |
      hold early; session; cost 1; message hi; hold later
      costs costs 5; costs final_costs 9; cost 3; result
  - {codon: two, command: did}
"""


def run_undisturbed(workspace: RunWorkspace) -> None:
    """Run a plan undisturbed to its end, with a sentinel that is called at every step."""
    run = workspace.start(NATURAL)
    workspace.wait_for_cue("early")

    def watched() -> bool:
        events = workspace.deployment.events(workspace.codon().id)
        return ("sentinel_states_updated", "initializing") in {
            (event.trigger, event.target) for event in events
        }

    workspace.wait_for(watched, what="a sentinel was called before there was a session")
    workspace.release("early")
    workspace.wait_for_cue("later")
    workspace.release("later")
    workspace.wait_for_end(run)
    assert workspace.codon().data["final_cost"] == 9, "costs after the final costs do not count"
    workspace.runs.close(workspace.folder)


def stop_as_producer(new_workspace: NewWorkspace, *, force: bool) -> RunWorkspace:
    """Let a producer stop a run; the rows for this do not depend on the state of its codon."""
    workspace = new_workspace(f"producer-{force}")
    run = workspace.start("codons: [{codon: one, command: hold agent}]")
    workspace.wait_for_cue("agent")
    workspace.runs_as("producer").stop(workspace.folder, force=force)
    workspace.wait_for_end(run, "failed")
    return workspace


@pytest.mark.slow(minutes=2)
@pytest.mark.timeout(600)
def test_every_row_is_fired_by_each_of_its_actors_and_every_event_is_published(
    new_workspace: NewWorkspace, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    seen = Seen()
    outside, natural = new_workspace("outside"), new_workspace("natural")
    end_codons_by_events(outside)
    start_run_by_event(outside)
    run_undisturbed(natural)
    found = [outside, natural]
    for actor in ("person", "producer"):

        def skip(workspace: RunWorkspace, actor: str = actor) -> None:
            workspace.runs_as(actor).skip(workspace.folder)

        skipped = in_each_state(new_workspace, f"skip-{actor}", skip)
        check_skipped(skipped)
        found += skipped.values()
    stopped = in_each_state(
        new_workspace, "stop", lambda one: one.runs.stop(one.folder, reason="enough"), "failed"
    )
    check_stopped(stopped)
    found += stopped.values()
    found += in_each_state(new_workspace, "force", RunWorkspace.stop_by_force, "failed").values()
    found += [stop_as_producer(new_workspace, force=force) for force in (False, True)]
    # Without the cleanup effect the sweep of orphans fails each codon.
    alone = new_deployment(DEPLOYMENT_WITHOUT="codon_cleanup", **holding(tmp_path)).full(
        concurrency=12
    )
    lost = each_state(lambda state: RunWorkspace(alone, tmp_path / f"lost-{state}"))
    for state, workspace in lost.items():
        workspace.kill_supervisor()
        workspace.release(CUE_OF[state])
    for workspace in lost.values():
        workspace.wait_for_crash(workspace.last)
    for workspace in (*found, *lost.values()):
        seen.add(workspace)
        workspace.wait_for(workspace.has_no_process, what="nothing is left")

    assert TABLE - ROWS_OF_ENDED_PROCESSES - seen.rows == set(), "rows that were never fired"
    assert seen.rows - TABLE == set(), (
        "rows that were fired by an actor that the table does not name"
    )
    assert seen.types == EVENTS
    assert len(EVENTS) == 13
