"""What runs cost adds up: whoever tells it, however often, and whatever is killed meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.workers.runs.client import Receipt
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.runs.workspaces import NewYard, Yard, kill
from tests.processes import is_alive
from tests.waiting import until

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

PRODUCERS, EACH = 4, 50
SEED = "costs"
KILLS = 5


def test_costs_that_four_tell_at_once_are_each_counted_once_though_workers_are_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    # Its first event kills the worker that has applied it, and not yet noted that it is read.
    yard = Yard(deployment, tmp_path / "yard", name="kill-before_commit-events")
    yard.start("""
    codons:
      - {codon: one, speaks: interlock, command: session; cost 1000000; hold agent; result}
    """)
    yard.meets("agent")
    yard.sees(lambda: yard.codon().data.get("current_cost"), what="what it told itself")
    opened = yard.opened
    told: list[tuple[int, Receipt]] = []

    def produce(number: int) -> None:
        runs = yard.runs_of(f"producer-{number}")
        for n in range(EACH):
            delta = number * EACH + n + 1
            event = yard.event("CostsIncremented", codon="one", cost_delta=delta)
            for _ in range(2 if n % 5 == 0 else 1):
                op_id = f"{number}-{n}"
                told.append((delta, runs.transition(opened, event, op_id=op_id)))

    producers = [threading.Thread(target=produce, args=(n,)) for n in range(PRODUCERS)]
    for one in producers:
        one.start()

    def applied(number: int) -> bool:
        return len(deployment.events(yard.codon().id)) >= number

    yard.sees(lambda: deployment.killed(opened.id), what="the worker is killed")
    until(lambda: not worker.alive, what="it is gone")
    worker = deployment.worker()
    for number in (30, 90):
        yard.sees(lambda number=number: applied(number), what=f"{number} are applied")
        worker.kill()
        worker = deployment.worker()
    for one in producers:
        one.join()
    yard.answer(max((receipt for _, receipt in told), key=lambda one: position(one.id)))
    yard.go("agent")
    yard.ends(yard.last)

    expected = sum(range(1, PRODUCERS * EACH + 1))
    assert len({receipt.id for _, receipt in told}) == PRODUCERS * EACH
    assert yard.codon().data["final_cost"] == 1_000_000 + expected
    counted = [
        event for event in deployment.events(yard.codon().id) if event.cause.actor == "events"
    ]
    assert sorted(event.payload["cost_delta"] for event in counted) == list(
        range(1, PRODUCERS * EACH + 1)
    )
    order = sorted({receipt.id: delta for delta, receipt in told}.items(), key=by_position)
    assert [event.payload["cost_delta"] for event in counted] == [delta for _, delta in order]
    answers = deployment.notes(opened.id, "event_applied")
    assert len({note.detail["mail"] for note in answers}) == PRODUCERS * EACH
    assert deployment.notes(opened.id, "event_refused") == []
    yard.costs_hold()
    yard.rests()


def position(mail: str) -> tuple[int, ...]:
    """Return where mail stands in its inbox."""
    return tuple(map(int, mail.split("-")))


def by_position(told: tuple[str, int]) -> tuple[int, ...]:
    """Return where a told cost stands in its inbox."""
    return position(told[0])


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
  - codon: dear
    speaks: interlock
    budget: {cost_usd: 0.00001}
    command: session; spend 64; never
"""
# What is paid is also written where no restored workspace forgets it.
PAY = """
pay() { echo "$1" >> "$CUES/ledger"; }
costly() { cat > /dev/null; pay "$1"; echo "{\\"type\\": \\"usage\\", \\"cost_micro\\": $1}"; }
spend() { pay "$1"; cost "$1"; }
"""


def ledger(yard: Yard) -> int:
    """Return what all have paid, as they say themselves."""
    return sum(map(int, (yard.cues / "ledger").read_text().split()))


def test_what_all_runs_have_spent_is_what_their_agents_and_sentinels_paid(
    new_yard: NewYard,
) -> None:
    yard = new_yard("yard")
    with (yard.folder / "words.sh").open("a") as words:
        words.write(PAY)
    run = yard.start(LEDGER)
    yard.meets("skipped")
    yard.sees(lambda: yard.codon(2).data.get("current_cost") == 2, what="what it told")
    yard.runs.skip(yard.workspace)
    yard.meets("stopped")
    yard.sees(lambda: yard.codon(7).data.get("current_cost") == 32, what="what it told")
    yard.runs.stop(yard.workspace)
    yard.ends(run, "failed")
    found = yard.costs_hold()
    assert found["run"] == 1 + 4 + 8 + 8 + 16 + 32
    assert found["run_spent"] == found["run"] + 2 + 100 == ledger(yard)

    yard.go("skipped")
    yard.go("stopped")
    ways: list[Callable[[], object]] = [
        lambda: yard.runs.proceed(yard.workspace),
        lambda: yard.runs.redo(yard.workspace, "stopped"),
        lambda: yard.runs.rollback(yard.workspace, "done:completed"),
        lambda: yard.runs.rollback(yard.workspace, "initial"),
    ]
    for again in ways:
        before = ledger(yard)
        again()
        yard.ends(yard.last)
        found = yard.costs_hold()
        assert found["total_spent"] == ledger(yard)
        assert found["run_spent"] == ledger(yard) - before
        assert yard.shape()[-1] == "dear completed"
    assert found["run"] == 1 + 2 + 4 + 8 + 8 + 16 + 32 + 64


def test_costs_add_up_after_conductors_are_killed_at_random(new_yard: NewYard) -> None:
    chance = random.Random(SEED)
    yard = new_yard("yard")
    with (yard.folder / "words.sh").open("a") as words:
        words.write(PAY)
    yard.start("""
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
    views, of = yard.deployment.client.dispatch.views, yard.opened.id
    crashes = 0

    def events() -> int:
        return len(views.chronicle(of, "0-0", 10_000))

    while crashes < KILLS and yard.last.state == "running":
        conductor = yard.conductor()
        length = events() + chance.randrange(1, 25)

        def comes(length: int = length, conductor: int = conductor) -> bool:
            return events() >= length or not is_alive(conductor)

        until(comes, what=f"{length} events")
        kill(conductor)
        run = yard.ends(yard.last, "crashed", "completed")
        if run.state == "crashed":
            crashes += 1
            yard.costs_hold()
            yard.runs.proceed(yard.workspace)
    yard.ends(yard.last)

    found = yard.costs_hold()
    assert crashes >= KILLS // 2
    assert yard.did() == [f"one#{n}" for n in range(12)]
    assert found["total_spent"] <= ledger(yard), "what a lost conductor had not told yet is lost"
    whole = [one for one in yard.every_run() for one in yard.codons(one.id)]
    done = [one for one in whole if one.state == "completed"]
    assert len(done) == 12
    assert {one.data["final_cost"] for one in done} == {140}
