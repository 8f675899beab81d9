"""Every process of a run is killed at any moment: the run ends once, and can be resumed."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.systems.runs.client import Runs
from interlock.systems.runs.start import RunRefusedError
from interlock.workers.gateways.server import free_port
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.engine.test_store import crash
from tests.end_to_end.runs.workspaces import CUE_OF, NewWorkspace, RunWorkspace, each_state, kill
from tests.processes import is_alive, parent_of
from tests.servers import EACH_WRITE_ON_DISK
from tests.waiting import until

TWO = """
codons:
  - {codon: one, speaks: interlock, command: session; cost 3; did; hold agent; result}
  - {codon: two, command: did}
"""


def test_a_supervisor_killed_in_any_live_state_of_its_codon_is_a_crash_that_can_be_resumed(
    new_workspace: NewWorkspace,
) -> None:
    found = each_state(new_workspace)
    sentinel = found["completing_sentinels"].wait_for_cue("sentinel")
    for workspace in found.values():
        workspace.kill_supervisor()
    found["starting"].release("starting")

    for state, workspace in found.items():
        run = workspace.wait_for_crash(workspace.last)
        lost = workspace.codon()
        assert workspace.codon_states() == ["one failed"]
        assert (lost.data["failed_during"], lost.data["exit_code"]) == (state, -1)
        assert lost.data["ignored"] is False
        assert workspace.triggers(lost.id)[-1] in (
            ("lost", "orphans"),
            ("run_ended", "codon_cleanup"),
        )
        [crash_data] = [
            one.event["data"]
            for one in workspace.applied_events()
            if one.event["type"] == "RunCrashed"
        ]
        assert (crash_data["run_id"], crash_data["last_codon_status"]) == (run.id, state)
        if state != "completing_sentinels":
            workspace.wait_for(
                lambda each=workspace: not each.processes(), what="no process of it is left"
            )

        workspace.release(CUE_OF[state])
        workspace.runs.resume(workspace.folder)
    for state, workspace in found.items():
        workspace.wait_for(lambda each=workspace: each.codons(), what="its first codon is created")
        assert state != "completing_sentinels" or not is_alive(sentinel)
        workspace.wait_for_end(workspace.last)
        assert workspace.codon_states() == ["one completed", "two completed"], state
        assert workspace.done() == ["one", "two"], "the lost execution left nothing"
        workspace.check_costs()


def test_a_worker_that_is_killed_or_restarted_does_not_affect_a_run(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    workspace = RunWorkspace(deployment, tmp_path / "work")
    run = workspace.start(TWO)
    agent = workspace.wait_for_cue("agent")
    supervisor = workspace.supervisor()

    worker.kill()
    assert is_alive(agent)
    workspace.release("agent")
    workspace.wait_for(
        lambda: deployment.client.show(run.id).state != "running", what="it ends by itself"
    )
    assert workspace.codon_states() == ["one completed", "two completed"]
    assert workspace.done() == ["one", "two"]
    until(lambda: not is_alive(supervisor), what="its supervisor has ended")

    deployment.worker()
    workspace.wait_for_end(run)
    workspace.check_nothing_left()
    assert workspace.check_costs()["total"] == 3


@pytest.mark.proof
def test_leftovers_of_a_supervisor_lost_with_its_watchdog_are_killed_by_the_next_run(
    workspace: RunWorkspace,
) -> None:
    run = workspace.start("""
    codons:
      - codon: one
        command: did; setsid bash -c 'arrive far; never' & hold agent
      - {codon: two, command: did}
    """)
    agent, far, supervisor = (
        workspace.wait_for_cue("agent"),
        workspace.wait_for_cue("far"),
        workspace.supervisor(),
    )
    watchdog = parent_of(agent)
    assert parent_of(watchdog) == supervisor

    # A stopped watchdog cannot kill the agent when the supervisor dies.
    kill(watchdog, number=signal.SIGSTOP)
    kill(supervisor, watchdog)
    until(lambda: not is_alive(watchdog), what="both are gone")
    assert is_alive(agent)
    workspace.wait_for_end(run, "crashed")
    workspace.release("agent")
    again = workspace.runs.resume(workspace.folder)
    workspace.wait_for(lambda: workspace.codons(again.id), what="its first codon")

    assert not is_alive(agent)
    assert not is_alive(far)
    workspace.wait_for_end(again)
    assert workspace.done() == ["one", "two"]


def test_a_run_can_be_stopped_before_any_worker_is_up(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    workspace, forced = (
        RunWorkspace(deployment, tmp_path / "work"),
        RunWorkspace(deployment, tmp_path / "forced"),
    )
    plan = "codons: [{codon: one, command: did}]"
    run, other = workspace.start(plan), forced.start(plan)
    assert forced.runs.stop(forced.folder, force=True).state == "failed"
    assert workspace.runs.stop(workspace.folder).state == "running"

    deployment.full()

    for started, each in ((run, workspace), (other, forced)):
        each.wait_for_end(started, "failed")
        assert (each.codons(), each.done()) == ([], [])
        each.check_nothing_left()


def test_events_from_outside_may_move_or_end_a_codon_without_ending_its_supervisor(
    new_workspace: NewWorkspace,
) -> None:
    led, ended = new_workspace("led"), new_workspace("ended")
    plan = """
    codons:
      - {codon: one, rig: [{command: {run: hold rig}}], command: did}
      - {codon: two, command: did}
    """
    for workspace in (led, ended):
        workspace.start(plan)
        workspace.wait_for_cue("rig")
    process = {"pid": 1, "log_path": "x"}
    transitions = (("preparing", "starting", None), ("starting", "initializing", process))
    for source, target, metadata in transitions:
        moved: dict[str, Any] = {"from": source, "to": target, "metadata": metadata or {}}
        assert led.wait_for_answer(
            led.send_event("CodonTransitioned", codon="one", **moved)
        ).detail["version"]
    failure = {"exit_code": -1, "failure_reason": {"type": "unknown", "retriable": False}}
    moved = {"from": "preparing", "to": "failed"}
    metadata = {**failure, "failed_during": "preparing"}
    assert ended.wait_for_answer(
        ended.send_event("CodonTransitioned", codon="one", **moved, metadata=metadata)
    ).detail["version"]

    led.release("rig")
    led.wait_for_end(led.last)
    ended.wait_for_end(ended.last, "failed")

    assert led.codon_states() == ["one completed", "two completed"]
    assert led.done() == ["one", "two"]
    assert (ended.codon_states(), ended.done()) == (["one failed"], [])


def test_of_several_clients_that_start_a_run_at_once_only_one_succeeds(
    workspace: RunWorkspace,
) -> None:
    path, ready = workspace.plan("codons: [{codon: one, command: did}]"), threading.Barrier(4)
    begun: list[str] = []
    refused: list[str] = []

    def start(runs: Runs) -> None:
        ready.wait()
        try:
            begun.append(runs.start(path, workspace.folder).id)
        except RunRefusedError as refusal:
            refused.append(str(refusal))

    people = [threading.Thread(target=start, args=(workspace.runs_as(f"p{n}"),)) for n in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()

    assert (len(begun), len(refused)) == (1, 3)
    assert all("is running there" in one or "started at this moment" in one for one in refused)
    workspace.wait_for_end(workspace.last)
    assert workspace.done() == ["one"]


PLAN = """
sentinels: {eye: {on: [codon_transitioned], command: "cat > /dev/null"}}
codons:
  - codon: one
    rig: [{command: {run: "echo rigged > rig.txt"}}]
    sentinels: [eye]
    speaks: interlock
    command: session; cost 5; did; message so; cost 2; result
  - {codon: two, command: did}
"""
AT_ONCE = 4


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_supervisor_killed_between_any_two_events_loses_no_work_and_repeats_none(
    new_workspace: NewWorkspace,
) -> None:
    quiet = new_workspace("quiet")
    quiet.run_to_end(PLAN)
    events = len(quiet.applied_events())
    crashed = set()
    for first in range(1, events + 1, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, events + 1))
        found = {number: new_workspace(f"work-{number}") for number in numbers}
        for number, workspace in found.items():
            workspace.start(PLAN)
            kill_after(workspace, number)
        for number, workspace in found.items():
            run = workspace.last
            workspace.wait_for(
                lambda each=workspace: each.last.state != "running", what="it has ended"
            )
            if workspace.last.state == "completed":
                # The run ended before its supervisor could be killed.
                workspace.wait_for_end(run)
                continue
            workspace.wait_for_crash(run)
            workspace.wait_for(workspace.has_no_process, what="no process of it is left")
            crashed.add(number)
            workspace.runs.resume(workspace.folder)
        for workspace in found.values():
            workspace.wait_for_end(workspace.last)
            assert workspace.done() == ["one", "two"], workspace.story()
            assert workspace.files().keys() == quiet.files().keys()
            workspace.check_costs()
    assert len(crashed) >= events * 2 // 3


def kill_after(workspace: RunWorkspace, number: int) -> None:
    """Kill the supervisor once this many events are committed."""
    views, record_id = workspace.deployment.client.dispatch.views, workspace.record.id
    supervisor = workspace.supervisor()
    until(
        lambda: len(views.family_log(record_id, "0-0", 100)) >= number or not is_alive(supervisor),
        what=f"{number} events",
    )
    kill(supervisor)


@pytest.mark.proof
def test_a_worker_killed_before_it_hands_a_run_over_leaves_a_crash_that_can_be_resumed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment().tend(1)
    unclaimed = RunWorkspace(deployment, tmp_path / "a", name="kill-before_claim-launch")
    claimed = RunWorkspace(deployment, tmp_path / "b", name="kill-after_claim-launch")
    plan = "codons: [{codon: one, command: did}]"
    first, second = unclaimed.start(plan), claimed.start(plan)

    unclaimed.wait_for_end(first)
    claimed.wait_for_crash(second)
    assert deployment.killed(first.id.replace("/", "_"), second.id.replace("/", "_"))
    assert claimed.done() == []
    # The next worker is not killed.
    (deployment.folder / f"once-{second.id.split('/')[0]}_2-after_claim").touch()
    claimed.wait_for_end(claimed.runs.resume(claimed.folder))
    for workspace in (unclaimed, claimed):
        assert workspace.done() == ["one"]
        workspace.check_nothing_left()


@pytest.mark.proof
def test_a_store_that_is_away_for_less_than_a_lease_does_not_affect_a_run(
    new_deployment: NewDeployment, new_server: NewServer, tmp_path: Path
) -> None:
    store = new_server(port=free_port(), settings=EACH_WRITE_ON_DISK)
    deployment = new_deployment(store.url).full()
    workspace = RunWorkspace(deployment, tmp_path / "work")
    run = workspace.start(TWO)
    agent = workspace.wait_for_cue("agent")
    workspace.wait_for_state("running")

    for _ in range(3):
        crash(store)
        assert is_alive(agent)
    workspace.release("agent")
    workspace.wait_for_end(run)

    assert workspace.done() == ["one", "two"]
    assert workspace.check_costs()["total"] == 3
    workspace.check_nothing_left()


@pytest.mark.proof
def test_a_store_that_is_away_for_longer_than_a_lease_ends_the_agent_and_the_run_once(
    new_deployment: NewDeployment, new_server: NewServer, tmp_path: Path
) -> None:
    store = new_server(port=free_port())
    deployment = new_deployment(store.url).full()
    workspace = RunWorkspace(deployment, tmp_path / "work")
    run = workspace.start(TWO)
    agent = workspace.wait_for_cue("agent")
    workspace.wait_for_state("running")

    store.stop()
    until(lambda: not is_alive(agent), what="the agent is killed at its deadline")
    store.start()
    ended = workspace.wait_for_end(run, "crashed", "failed", within_s=240)

    assert [one for one in workspace.types() if one in ("RunCrashed", "RunFailed")] == [
        {"crashed": "RunCrashed", "failed": "RunFailed"}[ended.state]
    ]
    assert workspace.codon_states() == ["one failed"]
    workspace.release("agent")
    workspace.wait_for_end(workspace.runs.resume(workspace.folder))
    assert workspace.done() == ["one", "two"]
    assert workspace.check_costs()["total"] == 6
    workspace.check_nothing_left()


@pytest.mark.proof
def test_a_supervisor_that_was_frozen_for_longer_than_its_lease_changes_nothing_any_more(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment().full()
    busy, waiting = (RunWorkspace(deployment, tmp_path / name) for name in ("busy", "waiting"))
    old = [
        busy.start(TWO),
        waiting.start("""
    codons:
      - codon: one
        command: did; [ -e $CUES/repaired ] || exit 1; hold agent
        on_failure: {retry: {delay_ms: 60000}}
    """),
    ]
    agent = busy.wait_for_cue("agent")
    waiting.wait_for_state("failed")
    frozen = [workspace.supervisor() for workspace in (busy, waiting)]

    kill(*frozen, number=signal.SIGSTOP)
    until(lambda: not is_alive(agent), what="the watchdog has ended it")
    (waiting.cues / "repaired").touch()
    for run, workspace in zip(old, (busy, waiting), strict=True):
        workspace.wait_for_end(run, "crashed", within_s=240)
        workspace.runs.resume(workspace.folder)
    new = [
        workspace.wait_for_cue("agent", 2 if workspace is busy else 1)
        for workspace in (busy, waiting)
    ]
    before = [len(workspace.applied_events()) for workspace in (busy, waiting)]
    kill(*frozen, number=signal.SIGCONT)
    until(lambda: not any(map(is_alive, frozen)), what="they have ended themselves")

    assert all(map(is_alive, new))
    for run, workspace, count in zip(old, (busy, waiting), before, strict=True):
        assert len(workspace.codons(run.id)) == 1, "no codon is created under a crashed run"
        assert all(one.record != run.id for one in workspace.applied_events()[count:])
        workspace.release("agent")
        workspace.wait_for_end(workspace.last)
        assert workspace.done() == (["one", "two"] if workspace is busy else ["one"])
        assert [one["type"] for one in (each.event for each in workspace.applied_events())].count(
            "RunCrashed"
        ) == 1
