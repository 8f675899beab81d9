"""What a codon costs, and an oracle that reads the page again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from interlock.kernel.errors import GuardRefusedError, IllegalTransitionError
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.codon_types import CompletedCodon, SkippedCodon, codon_cost
from interlock.systems.runs.machines.errors import InvalidTransitionError, MetadataValidationError
from interlock.systems.runs.machines.limits import MICRO_MAX
from tests.kernel.samples import TOKENS
from tests.systems.runs.machines.codons import (
    AT_WORK,
    CHAIN,
    ENDS,
    NO_TOKENS,
    REQUIRED,
    STATES,
    WATCHED,
    PureCodon,
    at,
    metadata,
    paths,
    sentinel,
)


def test_costs_are_set_and_added_to_until_the_final_cost_is_set() -> None:
    codon = at("running")
    assert (codon.data["current_cost"], codon.data["current_tokens"]) == (0, NO_TOKENS)

    codon.post("CostsUpdated", cost=500, tokens=TOKENS)
    codon.post("CostsIncremented", cost_delta=20, tokens_delta={"input_tokens": 5})
    assert codon.data["current_cost"] == 520
    assert codon.data["current_tokens"] == {**TOKENS, "input_tokens": 1_505}
    codon.post("CostsUpdated", cost=100)
    assert (codon.data["current_cost"], codon.data["current_tokens"]) == (100, NO_TOKENS)

    codon.post("CodonFinalCostSet", final_cost=450, final_tokens=TOKENS)
    for late in (("CostsUpdated", {"cost": 1}), ("CostsIncremented", {"cost_delta": 1})):
        with pytest.raises(GuardRefusedError, match="no later cost counts"):
            codon.post(late[0], **late[1])
    codon.to("completing_sentinels")
    with pytest.raises(GuardRefusedError):
        codon.post("CostsIncremented", cost_delta=1)
    codon.post("CodonFinalCostSet", final_cost=460, final_tokens=TOKENS)
    assert codon.to("completed").data["final_cost"] == 460


def test_no_cost_grows_beyond_the_highest_exact_number() -> None:
    tokens = dict.fromkeys(TOKENS, MICRO_MAX)
    codon = at("running").post("CostsUpdated", cost=MICRO_MAX, tokens=tokens)

    codon.post("CostsIncremented", cost_delta=MICRO_MAX, tokens_delta=tokens)
    codon.post("CostsIncremented", cost_delta=1, tokens_delta={"input_tokens": 1})
    watchers = [sentinel(MICRO_MAX, id=name) for name in ("one", "two")]
    codon.post("SentinelStatesUpdated", sentinel_states=watchers)

    assert codon.data["sentinels"]["total_cost"] == MICRO_MAX
    assert codon_cost(codon.codon) == MICRO_MAX
    assert CODON.counters(codon.data)["spent"] == MICRO_MAX
    completed = codon.to("completed").codon
    assert isinstance(completed, CompletedCodon)
    assert (completed.final_cost, completed.final_tokens.model_dump()) == (MICRO_MAX, tokens)


def test_costs_that_come_while_sentinels_finish_count() -> None:
    codon = at("running").post("CostsUpdated", cost=500).to("completing_sentinels")
    codon.post("CostsIncremented", cost_delta=7, tokens_delta=TOKENS)
    codon.post("AssistantMessageCountUpdated", new_count=4)
    assert codon.data["assistant_message_count"] == 4

    completed = codon.to("completed").codon

    assert isinstance(completed, CompletedCodon)
    assert (completed.final_cost, completed.final_tokens.model_dump()) == (507, TOKENS)


@pytest.mark.parametrize("state", CHAIN[:3])
def test_a_codon_before_its_session_refuses_costs(state: str) -> None:
    for name, data in (
        ("CostsUpdated", {"cost": 1}),
        ("CostsIncremented", {"cost_delta": 1}),
        ("CodonFinalCostSet", {"final_cost": 1}),
        ("AssistantMessageCountUpdated", {"new_count": 1}),
    ):
        assert f"not allowed in {state}" in at(state).refused(name, **data)


@pytest.mark.parametrize("wrong", [-1, 1.5, "much", 2**53])
def test_a_cost_is_a_natural_number_of_micro_dollars(wrong: object) -> None:
    for name, field in (("CostsUpdated", "cost"), ("CostsIncremented", "cost_delta")):
        assert f"data.{field}: " in at("running").refused(name, **{field: wrong})


@pytest.mark.parametrize("path", list(paths()), ids="-".join)
def test_the_counters_of_a_codon_follow_its_state(
    path: tuple[str, ...],
) -> None:
    codon = PureCodon()
    cost = spent = 0
    for state, following in zip(path, (*path[1:], ""), strict=True):
        if state in WATCHED:
            codon.post("SentinelStatesUpdated", sentinel_states=[sentinel(9)])
        if state in AT_WORK:
            codon.post("CostsIncremented", cost_delta=100)
            cost += 100
        spent = cost + (9 if set(path[: path.index(state) + 1]) & set(WATCHED) else 0)
        counts = 0 if state == "skipped" else cost
        assert codon_cost(codon.codon) == counts
        assert CODON.counters(codon.data) == {"cost": counts, "spent": spent}
        assert {"cost": counts, "spent": spent} == {
            name: codon.counted[name] for name in ("cost", "spent")
        }
        if following:
            codon.to(following)


def test_a_skipped_codon_costs_nothing_and_keeps_what_was_spent() -> None:
    codon = at("running").post("CostsUpdated", cost=300, tokens=TOKENS)
    codon.post("AssistantMessageCountUpdated", new_count=2)
    skipped = codon.to("skipped").codon

    assert isinstance(skipped, SkippedCodon)
    assert codon_cost(skipped) == 0
    assert (skipped.partial_cost, skipped.partial_tokens.model_dump()) == (300, TOKENS)
    assert (skipped.assistant_message_count, skipped.skipped_during) == (2, "running")
    assert (codon.counted["cost"], codon.counted["spent"]) == (0, 300)


def test_a_new_codon_counts_nothing() -> None:
    assert CODON.counters(PureCodon().data) == {"cost": 0, "spent": 0}


class CodonOracle:
    """The published page in other words: a rank along the chain, two sums, and a final cost."""

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

    def follow(self, name: str, data: dict[str, Any]) -> bool:
        """Follow an event; False where the page has no row for it."""
        if self.end:
            return False
        if name == "CodonTransitioned":
            return self._moved(data)
        since = {"CheckpointCreated": 0, "SentinelStatesUpdated": 1}.get(name, 3)
        early = self.rank < since
        late = self.closed and name in ("CostsUpdated", "CostsIncremented")
        if not early and not late:
            self._counted(name, data)
        return not early and not late

    def _counted(self, name: str, data: dict[str, Any]) -> None:
        if name == "SentinelStatesUpdated":
            self.watchers = sum(state["total_cost"] for state in data["sentinel_states"])
        elif name == "AssistantMessageCountUpdated":
            self.messages = data["new_count"]
        elif name == "CostsIncremented":
            self.agent += data["cost_delta"]
        elif name == "CostsUpdated":
            self.agent = data["cost"]
        elif name == "CodonFinalCostSet":
            self.agent, self.closed = data["final_cost"], True

    def _moved(self, data: dict[str, Any]) -> bool:
        to, given = data["to"], data["metadata"]
        required = REQUIRED.get(to, ())
        if not all(str(given.get(name, "")).strip() for name in required):
            return False
        if data["from"] != self.state:
            return False
        if to in ("failed", "skipped"):
            self.end = to if given[required[-1]] == self.state else ""
        elif to == "completed":
            self.end = to if self.rank >= 3 else ""
        elif CHAIN.index(to) == self.rank + 1:
            self.rank += 1
            return True
        return bool(self.end)


def random_event(chance: Random, state: str) -> tuple[str, dict[str, Any]]:
    """Return a random event: mostly a possible one, sometimes a wrong one."""
    kinds = ("rig-setup", "completed", "error", "skipped")
    costs = [chance.randrange(99) for _ in range(chance.randrange(4))]
    events: dict[str, dict[str, Any]] = {
        "CostsUpdated": {"cost": chance.randrange(1_000)},
        "CostsIncremented": {"cost_delta": chance.randrange(1_000)},
        "AssistantMessageCountUpdated": {"new_count": chance.randrange(50)},
        "CodonFinalCostSet": {"final_cost": chance.randrange(1_000)},
        "SentinelStatesUpdated": {"sentinel_states": [sentinel(cost) for cost in costs]},
        "CheckpointCreated": {"checkpoint_type": chance.choice(kinds), "sha": "c", "branch": "b"},
        "CodonTransitioned": transition(chance, state),
    }
    name = chance.choices([*events], (9, 9, 4, 2, 9, 4, 30))[0]
    return name, events[name]


def transition(chance: Random, state: str) -> dict[str, Any]:
    source = state if chance.random() < 0.9 else chance.choice(STATES)
    to = chance.choice(STATES if chance.random() < 0.4 else CHAIN)
    given = metadata(source if chance.random() < 0.9 else chance.choice(STATES), to)
    if chance.random() < 0.15 and given:
        del given[chance.choice(sorted(given))]
    if chance.random() < 0.1 and to == "completed":
        given["checkpoint_sha"] = "  "
    return {"from": source, "to": to, "metadata": given}


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2))
def test_any_events_lead_to_the_state_of_the_oracle(seed: int, *, is_proof: bool) -> None:
    chance = Random(seed)
    codon, oracle, ended = PureCodon(), CodonOracle(), dict.fromkeys(ENDS, 0)
    for _ in range(30_000 if is_proof else 3_000):
        if codon.state in ENDS and chance.random() < 0.2:
            ended[codon.state] += 1
            codon, oracle = PureCodon(), CodonOracle()
        name, data = random_event(chance, codon.state)
        before = codon.record
        try:
            codon.post(name, **data)
        except (
            InvalidTransitionError,
            MetadataValidationError,
            IllegalTransitionError,
            GuardRefusedError,
        ):
            assert codon.record == before
            assert not oracle.follow(name, data), f"{name} {data} in {codon.state}"
            continue
        assert oracle.follow(name, data), f"{name} {data} in {before.state}"
        assert (codon.state, CODON.counters(codon.data)) == (oracle.state, oracle.sums)
        assert {name: codon.counted[name] for name in oracle.sums} == oracle.sums
        assert codon_cost(codon.codon) == oracle.sums["cost"]
        assert codon.data.get("assistant_message_count", oracle.messages) == oracle.messages
    assert min(ended.values()) >= 3, "the walk reaches every end"
