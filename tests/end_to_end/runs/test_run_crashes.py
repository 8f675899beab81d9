"""Whatever runs are made of is killed at any moment: each ends once, and can be gone on with."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.gateways.server import free_port
from interlock.workers.runs.client import Runs
from interlock.workers.runs.start import RunRefusedError
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.engine.test_store import crash
from tests.end_to_end.runs.workspaces import CUE_OF, NewYard, Yard, each_state, kill
from tests.processes import is_alive, parent_of
from tests.waiting import until

TWO = """
codons:
  - {codon: one, speaks: interlock, command: session; cost 3; did; hold agent; result}
  - {codon: two, command: did}
"""


def test_a_conductor_killed_in_any_live_state_of_its_codon_is_a_crash_that_is_gone_on_from(
    new_yard: NewYard,
) -> None:
    found = each_state(new_yard)
    sentinel = found["completing_sentinels"].meets("sentinel")
    for yard in found.values():
        yard.kill_conductor()
    found["starting"].go("starting")

    for state, yard in found.items():
        run = yard.crashes(yard.last)
        lost = yard.codon()
        assert yard.shape() == ["one failed"]
        assert (lost.data["failed_during"], lost.data["exit_code"]) == (state, -1)
        assert lost.data["ignored"] is False
        assert yard.triggers(lost.id)[-1] in (("lost", "orphans"), ("run_ended", "clearance"))
        [told] = [one.event["data"] for one in yard.heard() if one.event["type"] == "RunCrashed"]
        assert (told["run_id"], told["last_codon_status"]) == (run.id, state)
        if state != "completing_sentinels":
            yard.sees(lambda of=yard: not of.processes(), what="no process of it is left")

        yard.go(CUE_OF[state])
        yard.runs.proceed(yard.workspace)
    for state, yard in found.items():
        yard.sees(lambda of=yard: of.codons(), what="its first codon is born")
        assert state != "completing_sentinels" or not is_alive(sentinel)
        yard.ends(yard.last)
        assert yard.shape() == ["one completed", "two completed"], state
        assert yard.did() == ["one", "two"], "what was lost left nothing"
        yard.costs_hold()


def test_a_worker_that_is_killed_or_deployed_anew_touches_no_run(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    yard = Yard(deployment, tmp_path / "yard")
    run = yard.start(TWO)
    agent = yard.meets("agent")
    conductor = yard.conductor()

    worker.kill()
    assert is_alive(agent)
    yard.go("agent")
    yard.sees(lambda: deployment.client.show(run.id).state != "running", what="it ends by itself")
    assert yard.shape() == ["one completed", "two completed"]
    assert yard.did() == ["one", "two"]
    until(lambda: not is_alive(conductor), what="its conductor has ended")

    deployment.worker()
    yard.ends(run)
    yard.rests()
    assert yard.costs_hold()["total"] == 3


@pytest.mark.proof
def test_a_conductor_that_is_lost_with_its_watchdog_leaves_an_agent_that_the_next_run_ends_first(
    yard: Yard,
) -> None:
    run = yard.start("""
    codons:
      - codon: one
        command: did; setsid bash -c 'here far; never' & hold agent
      - {codon: two, command: did}
    """)
    agent, far, conductor = yard.meets("agent"), yard.meets("far"), yard.conductor()
    watchdog = parent_of(agent)
    assert parent_of(watchdog) == conductor

    # Stopped, it cannot do its duty when the conductor goes.
    kill(watchdog, number=signal.SIGSTOP)
    kill(conductor, watchdog)
    until(lambda: not is_alive(watchdog), what="both are gone")
    assert is_alive(agent)
    yard.ends(run, "crashed")
    yard.go("agent")
    again = yard.runs.proceed(yard.workspace)
    yard.sees(lambda: yard.codons(again.id), what="its first codon")

    assert not is_alive(agent)
    assert not is_alive(far)
    yard.ends(again)
    assert yard.did() == ["one", "two"]


def test_a_run_that_nobody_takes_up_can_be_stopped_and_is_over_as_soon_as_somebody_comes(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    yard, forced = Yard(deployment, tmp_path / "yard"), Yard(deployment, tmp_path / "forced")
    plan = "codons: [{codon: one, command: did}]"
    run, other = yard.start(plan), forced.start(plan)
    assert forced.runs.stop(forced.workspace, force=True).state == "failed"
    assert yard.runs.stop(yard.workspace).state == "running"

    deployment.full()

    for one, of in ((run, yard), (other, forced)):
        of.ends(one, "failed")
        assert (of.codons(), of.did()) == ([], [])
        of.rests()


def test_a_codon_that_somebody_else_leads_on_or_ends_is_no_end_of_its_conductor(
    new_yard: NewYard,
) -> None:
    led, ended = new_yard("led"), new_yard("ended")
    plan = """
    codons:
      - {codon: one, rig: [{command: {run: hold rig}}], command: did}
      - {codon: two, command: did}
    """
    for yard in (led, ended):
        yard.start(plan)
        yard.meets("rig")
    process = {"pid": 1, "log_path": "x"}
    moves = (("preparing", "starting", None), ("starting", "initializing", process))
    for source, target, about in moves:
        moved: dict[str, Any] = {"from": source, "to": target, "metadata": about or {}}
        assert led.answer(led.tells("CodonTransitioned", codon="one", **moved)).detail["version"]
    failure = {"exit_code": -1, "failure_reason": {"type": "unknown", "retriable": False}}
    moved = {"from": "preparing", "to": "failed"}
    said = {**failure, "failed_during": "preparing"}
    assert ended.answer(
        ended.tells("CodonTransitioned", codon="one", **moved, metadata=said)
    ).detail["version"]

    led.go("rig")
    led.ends(led.last)
    ended.ends(ended.last, "failed")

    assert led.shape() == ["one completed", "two completed"]
    assert led.did() == ["one", "two"]
    assert (ended.shape(), ended.did()) == (["one failed"], [])


def test_of_two_who_start_a_run_at_the_same_moment_one_is_refused_in_a_sentence(
    yard: Yard,
) -> None:
    path, ready = yard.plan("codons: [{codon: one, command: did}]"), threading.Barrier(4)
    begun: list[str] = []
    refused: list[str] = []

    def start(runs: Runs) -> None:
        ready.wait()
        try:
            begun.append(runs.start(path, yard.workspace).id)
        except RunRefusedError as refusal:
            refused.append(str(refusal))

    people = [threading.Thread(target=start, args=(yard.runs_of(f"p{n}"),)) for n in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()

    assert (len(begun), len(refused)) == (1, 3)
    assert all("is at work there" in one or "began at this moment" in one for one in refused)
    yard.ends(yard.last)
    assert yard.did() == ["one"]


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
def test_a_conductor_killed_between_any_two_events_loses_no_work_and_repeats_none(
    new_yard: NewYard,
) -> None:
    quiet = new_yard("quiet")
    quiet.does(PLAN)
    events = len(quiet.heard())
    crashed = set()
    for first in range(1, events + 1, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, events + 1))
        found = {number: new_yard(f"yard-{number}") for number in numbers}
        for number, yard in found.items():
            yard.start(PLAN)
            killed_after(yard, number)
        for number, yard in found.items():
            run = yard.last
            yard.sees(lambda of=yard: of.last.state != "running", what="it has ended")
            if yard.last.state == "completed":
                # It was faster than who was to kill it.
                yard.ends(run)
                continue
            yard.crashes(run)
            yard.sees(yard.is_quiet, what="no process of it is left")
            crashed.add(number)
            yard.runs.proceed(yard.workspace)
        for yard in found.values():
            yard.ends(yard.last)
            assert yard.did() == ["one", "two"], yard.story()
            assert yard.files().keys() == quiet.files().keys()
            yard.costs_hold()
    assert len(crashed) >= events * 2 // 3


def killed_after(yard: Yard, number: int) -> None:
    """Kill the conductor as soon as so many events are there."""
    views, of = yard.deployment.client.dispatch.views, yard.opened.id
    conductor = yard.conductor()
    until(
        lambda: len(views.chronicle(of, "0-0", 100)) >= number or not is_alive(conductor),
        what=f"{number} events",
    )
    kill(conductor)


@pytest.mark.proof
def test_a_worker_killed_before_it_hands_a_run_over_leaves_a_crash_that_is_gone_on_from(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment().tend(1)
    unclaimed = Yard(deployment, tmp_path / "a", name="kill-before_claim-conductor")
    claimed = Yard(deployment, tmp_path / "b", name="kill-after_claim-conductor")
    plan = "codons: [{codon: one, command: did}]"
    first, second = unclaimed.start(plan), claimed.start(plan)

    unclaimed.ends(first)
    claimed.crashes(second)
    assert deployment.killed(first.id.replace("/", "_"), second.id.replace("/", "_"))
    assert claimed.did() == []
    # The next one is not killed.
    (deployment.folder / f"once-{second.id.split('/')[0]}_2-after_claim").touch()
    claimed.ends(claimed.runs.proceed(claimed.workspace))
    for yard in (unclaimed, claimed):
        assert yard.did() == ["one"]
        yard.rests()


@pytest.mark.proof
def test_a_store_that_is_away_for_less_than_a_lease_touches_no_run(
    new_deployment: NewDeployment, new_server: NewServer, tmp_path: Path
) -> None:
    store = new_server(port=free_port())
    deployment = new_deployment(store.url, INTERLOCK_LEASE_S="10").full()
    yard = Yard(deployment, tmp_path / "yard")
    run = yard.start(TWO)
    agent = yard.meets("agent")
    yard.stands("running")

    for _ in range(3):
        crash(store)
        assert is_alive(agent)
    yard.go("agent")
    yard.ends(run)

    assert yard.did() == ["one", "two"]
    assert yard.costs_hold()["total"] == 3
    yard.rests()


@pytest.mark.proof
def test_a_store_that_is_away_for_longer_than_a_lease_ends_the_agent_and_the_run_once(
    new_deployment: NewDeployment, new_server: NewServer, tmp_path: Path
) -> None:
    store = new_server(port=free_port())
    deployment = new_deployment(store.url).full()
    yard = Yard(deployment, tmp_path / "yard")
    run = yard.start(TWO)
    agent = yard.meets("agent")
    yard.stands("running")

    store.stop()
    until(lambda: not is_alive(agent), what="nobody holds the lease of the agent")
    store.start()
    ended = yard.ends(run, "crashed", "failed")

    assert [one for one in yard.types() if one in ("RunCrashed", "RunFailed")] == [
        {"crashed": "RunCrashed", "failed": "RunFailed"}[ended.state]
    ]
    assert yard.shape() == ["one failed"]
    yard.go("agent")
    yard.ends(yard.runs.proceed(yard.workspace))
    assert yard.did() == ["one", "two"]
    assert yard.costs_hold()["total"] == 6
    yard.rests()


@pytest.mark.proof
def test_a_conductor_that_was_frozen_for_longer_than_its_lease_can_do_nothing_any_more(
    new_yard: NewYard,
) -> None:
    busy, waiting = new_yard("busy"), new_yard("waiting")
    old = [
        busy.start(TWO),
        waiting.start("""
    codons:
      - codon: one
        command: did; [ -e $CUES/mended ] || exit 1; hold agent
        on_failure: {retry: {delay_ms: 5000}}
    """),
    ]
    agent = busy.meets("agent")
    waiting.stands("failed")
    frozen = [yard.conductor() for yard in (busy, waiting)]

    kill(*frozen, number=signal.SIGSTOP)
    until(lambda: not is_alive(agent), what="the watchdog has ended it")
    (waiting.cues / "mended").touch()
    for run, yard in zip(old, (busy, waiting), strict=True):
        yard.ends(run, "crashed")
        yard.runs.proceed(yard.workspace)
    new = [yard.meets("agent", 2 if yard is busy else 1) for yard in (busy, waiting)]
    before = [len(yard.heard()) for yard in (busy, waiting)]
    kill(*frozen, number=signal.SIGCONT)
    until(lambda: not any(map(is_alive, frozen)), what="they have seen that it is over")

    assert all(map(is_alive, new))
    for run, yard, count in zip(old, (busy, waiting), before, strict=True):
        assert len(yard.codons(run.id)) == 1, "no codon is born under a crashed run"
        assert all(one.record != run.id for one in yard.heard()[count:])
        yard.go("agent")
        yard.ends(yard.last)
        assert yard.did() == (["one", "two"] if yard is busy else ["one"])
        assert [one["type"] for one in (each.event for each in yard.heard())].count(
            "RunCrashed"
        ) == 1
