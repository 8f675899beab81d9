"""What a codon costs: set, added to, set for good; and a second reading of the page beside it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from interlock.kernel.errors import (
    GuardRefusedError,
    IllegalTransitionError,
    InvalidTransitionError,
    MetadataValidationError,
)
from interlock.kernel.machines.runs.codon.changes import counters
from interlock.kernel.machines.runs.codon_types import CompletedCodon, SkippedCodon, codon_cost
from interlock.kernel.machines.runs.values import MICRO_MAX
from tests.kernel.runs.codons import (
    AT_WORK,
    CHAIN,
    ENDS,
    NO_TOKENS,
    REQUIRED,
    STATES,
    WATCHED,
    Led,
    at,
    metadata,
    paths,
    sentinel,
)
from tests.kernel.samples import TOKENS

# --- what it costs ---------------------------------------------------------------------------


def test_costs_are_set_added_to_and_set_for_good() -> None:
    codon = at("running")
    assert (codon.data["current_cost"], codon.data["current_tokens"]) == (0, NO_TOKENS)

    codon.tell("CostsUpdated", cost=500, tokens=TOKENS)
    codon.tell("CostsIncremented", cost_delta=20, tokens_delta={"input_tokens": 5})
    assert codon.data["current_cost"] == 520
    assert codon.data["current_tokens"] == {**TOKENS, "input_tokens": 1_505}
    codon.tell("CostsUpdated", cost=100)
    assert (codon.data["current_cost"], codon.data["current_tokens"]) == (100, NO_TOKENS)

    codon.tell("CodonFinalCostSet", final_cost=450, final_tokens=TOKENS)
    for late in (("CostsUpdated", {"cost": 1}), ("CostsIncremented", {"cost_delta": 1})):
        with pytest.raises(
            GuardRefusedError, match="its final cost is set, and no later cost counts"
        ):
            codon.tell(late[0], **late[1])
    codon.to("completing_sentinels")
    with pytest.raises(GuardRefusedError):
        codon.tell("CostsIncremented", cost_delta=1)
    codon.tell("CodonFinalCostSet", final_cost=460, final_tokens=TOKENS)
    assert codon.to("completed").data["final_cost"] == 460


def test_no_sum_of_costs_grows_beyond_what_can_be_counted() -> None:
    tokens = dict.fromkeys(TOKENS, MICRO_MAX)
    codon = at("running").tell("CostsUpdated", cost=MICRO_MAX, tokens=tokens)

    codon.tell("CostsIncremented", cost_delta=MICRO_MAX, tokens_delta=tokens)
    codon.tell("CostsIncremented", cost_delta=1, tokens_delta={"input_tokens": 1})
    watchers = [sentinel(MICRO_MAX, id=name) for name in ("one", "two")]
    codon.tell("SentinelStatesUpdated", sentinel_states=watchers)

    assert codon.data["sentinels"]["total_cost"] == MICRO_MAX
    assert codon_cost(codon.codon) == MICRO_MAX
    completed = codon.to("completed").codon
    assert isinstance(completed, CompletedCodon)
    assert (completed.final_cost, completed.final_tokens.model_dump()) == (MICRO_MAX, tokens)


def test_costs_that_come_while_sentinels_finish_count() -> None:
    codon = at("running").tell("CostsUpdated", cost=500).to("completing_sentinels")
    codon.tell("CostsIncremented", cost_delta=7, tokens_delta=TOKENS)
    codon.tell("AssistantMessageCountUpdated", new_count=4)
    assert codon.data["assistant_message_count"] == 4

    completed = codon.to("completed").codon

    assert isinstance(completed, CompletedCodon)
    assert (completed.final_cost, completed.final_tokens.model_dump()) == (507, TOKENS)


@pytest.mark.parametrize("state", CHAIN[:3])
def test_what_does_not_work_yet_costs_nothing_and_is_told_nothing_of_costs(state: str) -> None:
    for name, said in (
        ("CostsUpdated", {"cost": 1}),
        ("CostsIncremented", {"cost_delta": 1}),
        ("CodonFinalCostSet", {"final_cost": 1}),
        ("AssistantMessageCountUpdated", {"new_count": 1}),
    ):
        assert f"not allowed in {state}" in at(state).refused(name, **said)


@pytest.mark.parametrize("wrong", [-1, 1.5, "much", 2**53])
def test_a_cost_is_a_natural_number_of_micro_dollars(wrong: object) -> None:
    for name, field in (("CostsUpdated", "cost"), ("CostsIncremented", "cost_delta")):
        assert f"data.{field}: " in at("running").refused(name, **{field: wrong})


@pytest.mark.parametrize("way", list(paths()), ids="-".join)
def test_a_codon_counts_for_what_its_state_says_and_what_was_spent_stays(
    way: tuple[str, ...],
) -> None:
    codon = Led()
    cost = spent = 0
    for here, state in zip(way, (*way[1:], ""), strict=True):
        if here in WATCHED:
            codon.tell("SentinelStatesUpdated", sentinel_states=[sentinel(9)])
        if here in AT_WORK:
            codon.tell("CostsIncremented", cost_delta=100)
            cost += 100
        spent = cost + (9 if set(way[: way.index(here) + 1]) & set(WATCHED) else 0)
        counts = 0 if here == "skipped" else cost
        assert codon_cost(codon.codon) == counts
        assert counters(codon.data) == {"cost": counts, "spent": spent}
        assert {"cost": counts, "spent": spent} == {
            name: codon.counted[name] for name in ("cost", "spent")
        }
        if state:
            codon.to(state)


def test_a_skipped_codon_keeps_what_was_spent_beside_a_cost_of_nothing() -> None:
    codon = at("running").tell("CostsUpdated", cost=300, tokens=TOKENS)
    codon.tell("AssistantMessageCountUpdated", new_count=2)
    skipped = codon.to("skipped").codon

    assert isinstance(skipped, SkippedCodon)
    assert codon_cost(skipped) == 0
    assert (skipped.partial_cost, skipped.partial_tokens.model_dump()) == (300, TOKENS)
    assert (skipped.assistant_message_count, skipped.skipped_during) == (2, "running")
    assert (codon.counted["cost"], codon.counted["spent"]) == (0, 300)


def test_a_birth_counts_nothing() -> None:
    assert counters(Led().data) == {"cost": 0, "spent": 0}


# --- an independent reading of the page ------------------------------------------------------


class Oracle:
    """The page, read once more: a rank along the chain, money in two purses, and one last word."""

    def __init__(self) -> None:
        self.rank, self.end = 0, ""
        self.agent = self.watchers = self.messages = 0
        self.closed = False

    @property
    def state(self) -> str:
        return self.end or CHAIN[self.rank]

    @property
    def sums(self) -> dict[str, int]:
        counts = 0 if self.end == "skipped" else self.agent
        return {"cost": counts, "spent": self.agent + self.watchers}

    def told(self, name: str, said: dict[str, Any]) -> bool:
        """Follow an event; False where the page has nothing for it."""
        if self.end:
            return False
        if name == "CodonTransitioned":
            return self._moved(said)
        since = {"CheckpointCreated": 0, "SentinelStatesUpdated": 1}.get(name, 3)
        early = self.rank < since
        late = self.closed and name in ("CostsUpdated", "CostsIncremented")
        if not early and not late:
            self._counted(name, said)
        return not early and not late

    def _counted(self, name: str, said: dict[str, Any]) -> None:
        if name == "SentinelStatesUpdated":
            self.watchers = sum(one["total_cost"] for one in said["sentinel_states"])
        elif name == "AssistantMessageCountUpdated":
            self.messages = said["new_count"]
        elif name == "CostsIncremented":
            self.agent += said["cost_delta"]
        elif name == "CostsUpdated":
            self.agent = said["cost"]
        elif name == "CodonFinalCostSet":
            self.agent, self.closed = said["final_cost"], True

    def _moved(self, said: dict[str, Any]) -> bool:
        to, told = said["to"], said["metadata"]
        must = REQUIRED.get(to, ())
        if said["from"] != self.state or not all(str(told.get(n, "")).strip() for n in must):
            return False
        if to in ("failed", "skipped"):
            self.end = to if told[must[-1]] == self.state else ""
        elif to == "completed":
            self.end = to if self.rank >= 3 else ""
        elif CHAIN.index(to) == self.rank + 1:
            self.rank += 1
            return True
        return bool(self.end)


def happens(chance: Random, state: str) -> tuple[str, dict[str, Any]]:
    """Make up an event: mostly one that could be, sometimes one that is wrong."""
    kinds = ("rig-setup", "completed", "error", "skipped")
    costs = [chance.randrange(99) for _ in range(chance.randrange(4))]
    told: dict[str, dict[str, Any]] = {
        "CostsUpdated": {"cost": chance.randrange(1_000)},
        "CostsIncremented": {"cost_delta": chance.randrange(1_000)},
        "AssistantMessageCountUpdated": {"new_count": chance.randrange(50)},
        "CodonFinalCostSet": {"final_cost": chance.randrange(1_000)},
        "SentinelStatesUpdated": {"sentinel_states": [sentinel(cost) for cost in costs]},
        "CheckpointCreated": {"checkpoint_type": chance.choice(kinds), "sha": "c", "branch": "b"},
        "CodonTransitioned": transition(chance, state),
    }
    name = chance.choices([*told], (9, 9, 4, 2, 9, 4, 30))[0]
    return name, told[name]


def transition(chance: Random, state: str) -> dict[str, Any]:
    source = state if chance.random() < 0.9 else chance.choice(STATES)
    to = chance.choice(STATES if chance.random() < 0.4 else CHAIN)
    said = metadata(source if chance.random() < 0.9 else chance.choice(STATES), to)
    if chance.random() < 0.15 and said:
        del said[chance.choice(sorted(said))]
    if chance.random() < 0.1 and to == "completed":
        said["checkpoint_sha"] = "  "
    return {"from": source, "to": to, "metadata": said}


@pytest.mark.parametrize("seed", range(4))
def test_any_events_lead_where_a_second_reading_of_the_page_leads(seed: int) -> None:
    chance = Random(seed)
    codon, oracle, ended = Led(), Oracle(), dict.fromkeys(ENDS, 0)
    for _ in range(3_000):
        if codon.state in ENDS and chance.random() < 0.2:
            ended[codon.state] += 1
            codon, oracle = Led(), Oracle()
        name, said = happens(chance, codon.state)
        before = codon.record
        try:
            codon.tell(name, **said)
        except (
            InvalidTransitionError,
            MetadataValidationError,
            IllegalTransitionError,
            GuardRefusedError,
        ):
            assert codon.record == before
            assert not oracle.told(name, said), f"{name} {said} in {codon.state}"
            continue
        assert oracle.told(name, said), f"{name} {said} in {before.state}"
        assert (codon.state, counters(codon.data)) == (oracle.state, oracle.sums)
        assert {name: codon.counted[name] for name in oracle.sums} == oracle.sums
        assert codon_cost(codon.codon) == oracle.sums["cost"]
        assert codon.data.get("assistant_message_count", oracle.messages) == oracle.messages
    assert min(ended.values()) >= 3, "the walk reaches every end"
