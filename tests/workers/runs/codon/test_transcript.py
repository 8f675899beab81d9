"""What a process says of its costs: what is told, what is not yet, and never too much to count."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.machines.runs.codon.names import Trigger
from interlock.kernel.machines.runs.values import MICRO_MAX
from interlock.workers.runs.codon.transcript import Hearing
from interlock.workers.supervision.session_reports import (
    CostsAdded,
    CostsFinal,
    CostsSet,
    TokenCounts,
)
from tests.kernel.runs.codons import at

MOST = TokenCounts(MICRO_MAX, MICRO_MAX, MICRO_MAX, MICRO_MAX)


@pytest.fixture
def hearing() -> Hearing:
    return Hearing(lambda _name, _data: None)


def test_what_is_said_within_one_look_is_told_at_once(hearing: Hearing) -> None:
    hearing.feed(CostsAdded(5, TokenCounts(1, 2)))
    hearing.feed(CostsAdded(7, TokenCounts(10, 20)))

    tokens = {"input_tokens": 11, "output_tokens": 22}
    nothing = {"cache_creation_tokens": 0, "cache_read_tokens": 0}
    told = {"cost_delta": 12, "tokens_delta": {**tokens, **nothing}}
    assert hearing.take() == [(Trigger.COSTS_INCREMENTED, told)]
    assert hearing.take() == []


def test_no_sum_is_ever_more_than_a_record_can_count(hearing: Hearing) -> None:
    for _ in range(3):
        hearing.feed(CostsAdded(MICRO_MAX, MOST))

    assert (hearing.cost_micro, hearing.tokens, hearing.untold_micro) == (
        MICRO_MAX,
        MOST,
        MICRO_MAX,
    )
    codon = at("running")
    for trigger, payload in hearing.take():
        codon.fire(str(trigger), **payload)
    assert codon.data["current_cost"] == MICRO_MAX


@pytest.mark.parametrize(
    ("said", "untold"),
    [
        ([], 0),
        ([CostsAdded(7)], 7),
        ([CostsAdded(7), CostsAdded(8)], 15),
        ([CostsSet(25)], 15),
        ([CostsFinal(25)], 15),
        # A provider that counts anew has taken nothing back that was told.
        ([CostsSet(4)], 0),
    ],
)
def test_what_was_spent_and_not_told_is_known(
    hearing: Hearing, said: list[Any], untold: int
) -> None:
    hearing.feed(CostsAdded(10))
    assert hearing.untold_micro == 10
    hearing.take()
    assert hearing.untold_micro == 10, "what was taken may still be refused"
    hearing.told()

    for one in said:
        hearing.feed(one)

    assert hearing.untold_micro == untold
    hearing.told()
    assert hearing.untold_micro == 0
