"""An order reaches the process that does the work, and restarted workers lose no work."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from interlock.systems.threads.client import Threads
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread
from tests.processes import is_alive


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own records."""
    return joint_deployment


def running(deployment: Deployment, record_id: str) -> dict[str, int]:
    """Wait until a record's capability runs; return the line that it wrote at its start."""
    found: dict[str, int] = deployment.sees(
        lambda: deployment.saw(record_id, "start") and deployment.saw(record_id, "start")[0],
        what=f"{record_id} runs",
    )
    return found


def parent_of(deployment: Deployment, *children: dict[str, object]) -> list[str]:
    """Submit a parent, split it at its consent gate, and return the ids of its children."""
    payload = thread("jot")
    payload["given"]["action"]["kind"] = "suggestion"
    parent_id = f"{deployment.scope}-parent"
    deployment.client.submit(payload, machine="thread", id=parent_id)
    asked = deployment.reaches(parent_id, "awaiting_confirmation")
    parent = Threads(deployment.client).decompose(
        parent_id, list(children), proposal=asked.proposal
    )
    return [f"{parent_id}/{parent.version}.{number}" for number in range(1, len(children) + 1)]


def test_a_cancel_reaches_the_process_that_runs_the_action_and_ends_it(
    deployment: Deployment,
) -> None:
    one = f"{deployment.scope}-one"
    deployment.client.submit(thread("program"), machine="thread", id=one)
    child = running(deployment, one)["child"]

    assert deployment.client.cancel(one).state == "executing"
    record = deployment.ends(one)[0]

    assert (record.state, record.data["reason"]) == ("dismissed", "stopped as asked")
    assert [event.trigger for event in deployment.events(one)][-2:] == [
        "cancel_requested",
        "cancel_confirmed",
    ]
    assert not is_alive(child)
    assert deployment.notes(one, "execution_finished")[-1].detail["error"] == "cancelled"


def test_a_cancel_does_not_claim_to_have_stopped_a_plain_function(
    deployment: Deployment, tmp_path: Path
) -> None:
    one, go = f"{deployment.scope}-one", tmp_path / "go"
    deployment.client.submit(thread("stubborn", go=str(go)), machine="thread", id=one)
    running(deployment, one)

    deployment.client.cancel(one)
    deployment.lease_is_renewed(one)
    go.touch()
    record = deployment.ends(one)[0]

    assert record.state == "done", "it ran to its end, so it is done"
    assert len(deployment.saw(one, "end")) == 1


def test_closing_a_parent_stops_the_process_of_its_executing_child(
    deployment: Deployment, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    parent = f"{deployment.scope}-parent"
    soft, hard = parent_of(deployment, child("program"), child("stubborn", go=str(go)))
    program = running(deployment, soft)["child"]
    running(deployment, hard)

    deployment.client.cancel(parent, reason="no longer wanted")
    states = {deployment.ends(name)[0].state for name in (parent, soft, hard)}

    assert states == {"dismissed"}
    assert deployment.events(soft)[-1].cause.actor == "cascade"
    deployment.sees(lambda: deployment.saw(soft, "stopped"), what="the program was stopped")
    assert not is_alive(program)
    go.touch()
    deployment.sees(lambda: deployment.notes(hard, "stale_result"), what="a late result is noted")
    deployment.sees(
        lambda: not deployment.client.show(hard).entries, what="its holder has released it"
    )
    assert deployment.notes(hard, "stale_result")[0].detail["trigger"] == "execution_done"


def test_a_paused_thread_starts_nothing_until_it_is_resumed(
    deployment: Deployment, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    one = f"{deployment.scope}-one"
    two = f"{deployment.scope}-two"
    deployment.client.submit(thread("slow", go=str(go)), machine="thread", id=one)
    running(deployment, one)
    deployment.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id=two)
    waiting = deployment.reaches(two, "awaiting_confirmation")

    assert deployment.client.pause(one) == "paused"
    assert deployment.client.pause(two) == "paused"
    deployment.client.decide(two, "approve", proposal=waiting.proposal)
    go.touch()

    assert deployment.ends(one)[0].state == "done", (
        "an action that runs at the pause goes on to its end"
    )
    assert deployment.client.show(two).state == "executing"
    entry = next(
        entry for entry in deployment.client.show(two).entries if entry.name == "execution"
    )
    assert (entry.state, entry.attempts) == ("owed", 0)
    assert deployment.client.resume(two) == "resumed"
    assert deployment.ends(two)[0].state == "done"


def test_a_stopped_worker_gives_its_work_back_and_another_does_it(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment, go = new_deployment(), tmp_path / "go"
    first = deployment.worker()
    deployment.beat()
    deployment.client.submit(thread("slow", go=str(go)), machine="thread", id="one")
    running(deployment, "one")

    first.stop()
    entry = deployment.client.show("one").entries[0]
    assert (entry.state, entry.attempts) == ("owed", 0), "a shutdown costs no attempt"
    go.touch()
    deployment.worker()
    record = deployment.ends("one")[0]

    assert record.state == "done"
    assert [len(deployment.saw("one", kind)) for kind in ("start", "stopped", "end")] == [2, 1, 1]
    assert not deployment.notes("one", "lapse"), "nobody had to wait for the lease to end"


def test_a_stopped_worker_finishes_work_that_must_not_start_twice(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment, go = new_deployment(), tmp_path / "go"
    first = deployment.worker()
    deployment.beat()
    deployment.client.submit(thread("slow_once", go=str(go)), machine="thread", id="once")
    deployment.client.submit(thread("stubborn", go=str(go)), machine="thread", id="stubborn")
    deployment.client.submit(thread("slow", seconds=600), machine="thread", id="given_back")
    for name in ("once", "stubborn", "given_back"):
        running(deployment, name)

    first.signal(signal.SIGTERM)
    # The worker decides at once which of its works it gives back.
    deployment.sees(lambda: deployment.saw("given_back", "stopped"), what="it gives one back")
    go.touch()
    deployment.sees(lambda: not first.alive, what="it has ended")

    for name in ("once", "stubborn"):
        assert deployment.client.show(name).state == "done"
        assert len(deployment.saw(name, "start")) == 1


@pytest.mark.fuzz
def test_deployments_in_a_row_lose_nothing(
    new_deployment: NewDeployment, *, is_proof: bool
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    ids = [f"t{number}" for number in range(60 if is_proof else 15)]
    for number, name in enumerate(ids):
        capability = ("slow", "slow_once", "jot")[number % 3]
        parameters: dict[str, Any] = {"seconds": 0.5} if number % 3 < 2 else {}
        deployment.client.submit(thread(capability, **parameters), machine="thread", id=name)
        if number % 6 == 3:
            worker.stop()
            worker = deployment.worker()

    ended = deployment.ends(*ids)

    assert {record.state for record in ended} == {"done"}
    for number, name in enumerate(ids):
        ends = deployment.saw(name, "end")
        # An action that may be repeated is, if its worker had to end before it could report.
        assert len(ends) == 1 if number % 3 == 1 else ends
        assert len({line["key"] for line in [*deployment.saw(name, "start"), *ends]}) == 1


def child(capability: str, **parameters: Any) -> dict[str, object]:
    """Return a part that has its proposals with it."""
    return {"title": capability, "given": thread(capability, **parameters)["given"]}
