"""What runs cost: counters always equal the fold of the logs, whatever happened, in each order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.record import Record
from interlock.kernel.store.commands import NoteDraft, Warrant
from interlock.kernel.store.fold import fold, sums
from interlock.systems.runs.machines.codon.changes import counters as sums_of
from interlock.systems.runs.machines.codon.table import CODON as MACHINE
from interlock.systems.runs.machines.codon_types import codon_cost, codon_of
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_runs import (
    CODON,
    DATA,
    EVENTS,
    RUN,
    begun,
    codon,
    complete,
    fail,
    move,
    run,
    tell,
    workspace,
)
from tests.systems.runs.machines.codons import CHAIN, sentinel

NAMES = ("cost", "spent")


def counted(world: World, of: str, prefix: str = "tree.") -> dict[str, int]:
    return {name: world.counter(f"{prefix}{name}", of) for name in NAMES}


def folded(world: World, of: str) -> Record:
    return fold(MACHINE, world.views.history(of))


def adds_up(world: World, codons: list[str]) -> None:
    """Assert that each counter says what the logs add up to."""
    totals: dict[str, dict[str, int]] = {}
    for of in codons:
        own = sums_of(folded(world, of).data)
        assert own == sums_of(world.record(of).data)
        assert counted(world, of, "") == own
        written = sums(world.views.history(of))
        assert {name: written.get(name, 0) for name in NAMES} == own
        assert codon_cost(codon_of(world.record(of))) == own["cost"]
        for above in (of, of.rpartition("/")[0], DATA):
            total = totals.setdefault(above, dict.fromkeys(NAMES, 0))
            for name in NAMES:
                total[name] += own[name]
    for of, total in totals.items():
        assert counted(world, of) == total, of


def test_costs_are_summed_in_a_run_and_its_workspace(world: World) -> None:
    begun(world)
    tell(world, "CostsUpdated", cost=500)
    tell(world, "SentinelStatesUpdated", sentinel_states=[sentinel(30)])
    assert counted(world, CODON, "") == {"cost": 500, "spent": 530}
    for of in (CODON, RUN, DATA):
        assert counted(world, of) == {"cost": 500, "spent": 530}

    tell(world, "CostsUpdated", cost=200)
    assert counted(world, DATA) == {"cost": 200, "spent": 230}, "set downwards"
    tell(world, "CodonFinalCostSet", final_cost=450)
    move(world, "completed")
    assert counted(world, RUN) == {"cost": 450, "spent": 480}
    complete(world)

    run(world, "data/2")
    codon(world, "data/2/1", "running")
    tell(world, "CostsIncremented", "data/2/1", cost_delta=7)
    assert counted(world, RUN) == {"cost": 450, "spent": 480}
    assert counted(world, "data/2") == {"cost": 7, "spent": 7}
    assert counted(world, DATA) == {"cost": 457, "spent": 487}


def test_what_is_skipped_costs_nothing_and_stays_spent(world: World) -> None:
    begun(world)
    tell(world, "CostsUpdated", cost=500)
    move(world, "skipped")

    for of in (CODON, RUN, DATA):
        assert counted(world, of) == {"cost": 0, "spent": 500}


def test_a_codon_whose_run_has_ended_still_counts_what_comes_late(world: World) -> None:
    begun(world)
    fail(world)
    tell(world, "CostsIncremented", cost_delta=9)
    world.fire(CODON, "run_ended", {}, warrant=Warrant.component("codon_cleanup"))

    assert counted(world, RUN) == counted(world, DATA) == {"cost": 9, "spent": 9}


def test_a_call_that_is_repeated_or_refused_counts_nothing(world: World) -> None:
    begun(world)
    for _ in range(2):
        tell(world, "CostsIncremented", op="once", cost_delta=5)
    move(world, "failed")
    before = world.dump()
    with pytest.raises(Exception, match="it has ended"):
        tell(world, "CostsIncremented", cost_delta=5)

    assert world.dump() == before
    assert counted(world, DATA) == {"cost": 5, "spent": 5}


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_from_the_data_is_not_told_beside_it(world: World, name: str) -> None:
    begun(world)
    before = world.dump()
    for trigger, payload in (
        ("costs_incremented", {"cost_delta": 5}),
        ("assistant_message_count_updated", {"new_count": 1}),
    ):
        with pytest.raises(InvalidPayloadError, match=f"{name} follows from the record's data"):
            world.fire(CODON, trigger, payload, warrant=EVENTS, deltas={name: 5})
    with pytest.raises(InvalidPayloadError, match=f"{name} follows from the record's data"):
        world.note(CODON, deltas={name: 5}, op="a note")
    assert world.dump() == before

    world.fire(CODON, "costs_incremented", {"cost_delta": 5}, warrant=EVENTS, deltas={"runs": 1})
    world.lifecycle.note(world.record(CODON), NoteDraft("seen", {}, {"runs": 2}), op_id="another")
    assert (world.counter("tree.runs", DATA), world.counter("cost", CODON)) == (3, 5)


class Programme:
    """Somebody who runs a plan badly: it is stopped, skipped and begun again at random."""

    def __init__(self, world: World, chance: Random) -> None:
        self.world, self.chance = world, chance
        self.runs = 0
        self.codons: list[str] = []
        workspace(world)

    @property
    def alive(self) -> str:
        return self.world.views.holds(DATA).get("codon", "")

    @property
    def at_work(self) -> str:
        return self.world.views.holds(DATA).get("run", "")

    def step(self) -> None:
        if not self.alive:
            self.goes_on()
            return
        state = self.world.record(self.alive).state
        draw = self.chance.random()
        if draw < 0.2 and state != CHAIN[-1]:
            move(self.world, CHAIN[CHAIN.index(state) + 1], self.alive)
        elif draw < 0.3:
            self.ends(state)
        elif state in CHAIN[1:]:
            self.spends(state)

    def goes_on(self) -> None:
        if not self.at_work:
            self.runs += 1
            run(self.world, f"{DATA}/{self.runs}")
        elif self.chance.random() < 0.15:
            (complete if self.chance.random() < 0.5 else fail)(self.world, self.at_work)
        else:
            born = sum(one.startswith(f"{self.at_work}/") for one in self.codons)
            far = self.chance.choice(CHAIN)
            self.codons.append(codon(self.world, f"{self.at_work}/{born + 1}", far))

    def ends(self, state: str) -> None:
        how = self.chance.choice(("completed", "failed", "skipped", "run_ended"))
        if how == "run_ended":
            if self.at_work:
                fail(self.world, self.at_work)
            warrant = Warrant.component("codon_cleanup")
            self.world.fire(self.alive, how, {}, warrant=warrant)
        elif how != "completed" or state in CHAIN[3:]:
            move(self.world, how, self.alive)

    def spends(self, state: str) -> None:
        number = self.chance.randrange(1_000)
        known = self.world.record(self.alive).data
        acts: list[tuple[str, dict[str, Any]]] = [
            ("SentinelStatesUpdated", {"sentinel_states": [sentinel(number), sentinel(3)]}),
        ]
        if state in CHAIN[3:]:
            acts += [("CodonFinalCostSet", {"final_cost": number})]
            acts += [("AssistantMessageCountUpdated", {"new_count": number})]
        if state in CHAIN[3:] and not known.get("final_cost_set"):
            acts += [("CostsUpdated", {"cost": number})] * 3
            acts += [("CostsIncremented", {"cost_delta": number})] * 3
        name, said = self.chance.choice(acts)
        tell(self.world, name, self.alive, **said)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2))
def test_counters_are_the_fold_of_the_logs_after_any_events(
    world: World, seed: int, *, is_proof: bool
) -> None:
    programme = Programme(world, Random(seed))
    steps, between_sums = (300, 10) if is_proof else (150, 30)
    for number in range(steps):
        programme.step()
        if number % between_sums == 0:
            adds_up(world, programme.codons)
    adds_up(world, programme.codons)

    assert programme.runs >= 3
    assert {world.record(of).state for of in programme.codons} >= {"completed", "failed", "skipped"}
    total = counted(world, DATA)
    assert 0 < total["cost"] < total["spent"]


def test_what_a_run_began_with_tells_what_was_spent_since(world: World) -> None:
    begun(world)
    tell(world, "CostsUpdated", cost=500)
    move(world, "skipped")
    complete(world)
    before = counted(world, DATA)
    said = {"plan": {}, "folder": "/data", "before": before}
    world.create("data/2", said, machine="run")
    codon(world, "data/2/1", "running")
    tell(world, "CostsUpdated", "data/2/1", cost=40)

    kept = world.record("data/2").data["before"]
    since = {name: counted(world, DATA)[name] - kept[name] for name in NAMES}

    assert kept == {"cost": 0, "spent": 500}
    assert since == {"cost": 40, "spent": 40} == counted(world, "data/2")
