"""The costs of runs add up, even if they are reported repeatedly and processes are killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.systems.runs.client import Receipt
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.runs.workspaces import NewWorkspace, RunWorkspace, kill
from tests.processes import is_alive
from tests.waiting import until

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

PRODUCERS, EACH = 4, 50
SEED = "costs"
KILLS = 5


def test_costs_of_four_producers_count_once_each_though_workers_are_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    # Its first event kills the worker after it was applied, and before it is marked as read.
    workspace = RunWorkspace(deployment, tmp_path / "work", name="kill-before_commit-events")
    workspace.start("""
    codons:
      - {codon: one, speaks: interlock, command: session; cost 1000000; hold agent; result}
    """)
    workspace.wait_for_cue("agent")
    workspace.wait_for(lambda: workspace.codon().data.get("current_cost"), what="its own costs")
    opened = workspace.record
    sent: list[tuple[int, Receipt]] = []

    def produce(number: int) -> None:
        runs = workspace.runs_as(f"producer-{number}")
        for n in range(EACH):
            delta = number * EACH + n + 1
            event = workspace.event("CostsIncremented", codon="one", cost_delta=delta)
            for _ in range(2 if n % 5 == 0 else 1):
                op_id = f"{number}-{n}"
                sent.append((delta, runs.transition(opened, event, op_id=op_id)))

    producers = [threading.Thread(target=produce, args=(n,)) for n in range(PRODUCERS)]
    for one in producers:
        one.start()

    def applied(number: int) -> bool:
        return len(deployment.events(workspace.codon().id)) >= number

    workspace.wait_for(lambda: deployment.killed(opened.id), what="the worker is killed")
    until(lambda: not worker.alive, what="it is gone")
    worker = deployment.worker()
    for number in (30, 90):
        workspace.wait_for(lambda number=number: applied(number), what=f"{number} are applied")
        worker.kill()
        worker = deployment.worker()
    for one in producers:
        one.join()
    workspace.wait_for_answer(
        max((receipt for _, receipt in sent), key=lambda one: position(one.id))
    )
    workspace.release("agent")
    workspace.wait_for_end(workspace.last)

    expected = sum(range(1, PRODUCERS * EACH + 1))
    assert len({receipt.id for _, receipt in sent}) == PRODUCERS * EACH
    assert workspace.codon().data["final_cost"] == 1_000_000 + expected
    counted = [
        event for event in deployment.events(workspace.codon().id) if event.cause.actor == "events"
    ]
    assert sorted(event.payload["cost_delta"] for event in counted) == list(
        range(1, PRODUCERS * EACH + 1)
    )
    order = sorted({receipt.id: delta for delta, receipt in sent}.items(), key=by_position)
    assert [event.payload["cost_delta"] for event in counted] == [delta for _, delta in order]
    answers = deployment.notes(opened.id, "event_applied")
    assert len({note.detail["mail"] for note in answers}) == PRODUCERS * EACH
    assert deployment.notes(opened.id, "event_refused") == []
    workspace.check_costs()
    workspace.check_nothing_left()


def position(mail: str) -> tuple[int, ...]:
    """Return the position of a mail in its inbox."""
    return tuple(map(int, mail.split("-")))


def by_position(sent: tuple[str, int]) -> tuple[int, ...]:
    """Return the position of a cost in its inbox."""
    return position(sent[0])


LEDGER = """
sentinels:
  eye:
    on: [assistant_message]
    command: "true; costly 100"
codons:
  - {codon: done, sentinels: [eye], speaks: interlock, command: session; message a; spend 1; result}
  - {codon: skipped, speaks: interlock, command: session; spend 2; hold skipped; result}
  - {codon: failed, speaks: interlock, on_failure: ignore, command: session; spend 4; exit 1}
  - codon: retried
    speaks: interlock
    on_failure: {retry: {attempts: 2, delay_ms: 0}}
    command: session; spend 8; [ -e again ] || { touch again; exit 1; }; result
  - codon: final
    speaks: interlock
    command: session; cost 5; pay 16; costs costs 9; costs final_costs 16; cost 3; result
  - {codon: stopped, speaks: interlock, command: session; spend 32; hold stopped; result}
  - codon: expensive
    speaks: interlock
    budget: {cost_usd: 0.00001}
    command: session; spend 64; never
"""
# Payments are also written beside the workspace, where no restored checkpoint removes them.
PAY = """
pay() { echo "$1" >> "$CUES/ledger"; }
costly() { cat > /dev/null; pay "$1"; echo "{\\"type\\": \\"usage\\", \\"cost_micro\\": $1}"; }
spend() { pay "$1"; cost "$1"; }
"""


def ledger(workspace: RunWorkspace) -> int:
    """Return the sum of all payments that agents and sentinels wrote."""
    return sum(map(int, (workspace.cues / "ledger").read_text().split()))


def test_the_money_spent_on_runs_is_the_sum_that_agents_and_sentinels_paid(
    new_workspace: NewWorkspace,
) -> None:
    workspace = new_workspace("work")
    with (workspace.root / "functions.sh").open("a") as functions:
        functions.write(PAY)
    run = workspace.start(LEDGER)
    workspace.wait_for_cue("skipped")
    workspace.wait_for(lambda: workspace.codon(2).data.get("current_cost") == 2, what="its costs")
    workspace.runs.skip(workspace.folder)
    workspace.wait_for_cue("stopped")
    workspace.wait_for(lambda: workspace.codon(7).data.get("current_cost") == 32, what="its costs")
    workspace.runs.stop(workspace.folder)
    workspace.wait_for_end(run, "failed")
    found = workspace.check_costs()
    assert found["run"] == 1 + 4 + 8 + 8 + 16 + 32
    assert found["run_spent"] == found["run"] + 2 + 100 == ledger(workspace)

    workspace.release("skipped")
    workspace.release("stopped")
    ways: list[Callable[[], object]] = [
        lambda: workspace.runs.resume(workspace.folder),
        lambda: workspace.runs.redo(workspace.folder, "stopped"),
        lambda: workspace.runs.rollback(workspace.folder, "done:completed"),
        lambda: workspace.runs.rollback(workspace.folder, "initial"),
    ]
    for again in ways:
        before = ledger(workspace)
        again()
        workspace.wait_for_end(workspace.last)
        found = workspace.check_costs()
        assert found["total_spent"] == ledger(workspace)
        assert found["run_spent"] == ledger(workspace) - before
        assert workspace.codon_states()[-1] == "expensive completed"
    assert found["run"] == 1 + 2 + 4 + 8 + 8 + 16 + 32 + 64


def test_costs_add_up_after_supervisors_are_killed_at_random(new_workspace: NewWorkspace) -> None:
    chance = random.Random(SEED)
    workspace = new_workspace("work")
    with (workspace.root / "functions.sh").open("a") as functions:
        functions.write(PAY)
    workspace.start("""
    sentinels:
      eye:
        on: [assistant_message]
        command: "true; costly 3"
    codons:
      - loop: round
        until: {iterations: 12}
        codons:
          - codon: one
            sentinels: [eye]
            speaks: interlock
            command: session; did; message a; for n in {1..20}; do spend 7; done; message b; result
    """)
    views, record_id = workspace.deployment.client.dispatch.views, workspace.record.id
    wait_for_crash = 0

    def events() -> int:
        return len(views.family_log(record_id, "0-0", 10_000))

    while wait_for_crash < KILLS and workspace.last.state == "running":
        supervisor = workspace.supervisor()
        length = events() + chance.randrange(1, 25)

        def has_come(length: int = length, supervisor: int = supervisor) -> bool:
            return events() >= length or not is_alive(supervisor)

        until(has_come, what=f"{length} events")
        kill(supervisor)
        run = workspace.wait_for_end(workspace.last, "crashed", "completed")
        if run.state == "crashed":
            wait_for_crash += 1
            workspace.check_costs()
            workspace.runs.resume(workspace.folder)
    workspace.wait_for_end(workspace.last)

    found = workspace.check_costs()
    assert wait_for_crash >= KILLS // 2
    assert workspace.done() == [f"one#{n}" for n in range(12)]
    assert found["total_spent"] <= ledger(workspace), (
        "costs that a lost supervisor had not recorded are lost"
    )
    executions = [one for one in workspace.all_runs() for one in workspace.codons(one.id)]
    completed = [one for one in executions if one.state == "completed"]
    assert len(completed) == 12
    assert {one.data["final_cost"] for one in completed} == {140}
