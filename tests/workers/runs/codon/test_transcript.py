"""The costs in a transcript: which are recorded, which are not yet, and their highest value."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.machines.runs.codon.names import Trigger
from interlock.kernel.machines.runs.values import MICRO_MAX
from interlock.workers.runs.codon.transcript import Transcript
from interlock.workers.supervision.session_reports import (
    CostsAdded,
    CostsFinal,
    CostsSet,
    TokenCounts,
)
from tests.kernel.runs.codons import at

MAXIMUM = TokenCounts(MICRO_MAX, MICRO_MAX, MICRO_MAX, MICRO_MAX)


@pytest.fixture
def transcript() -> Transcript:
    return Transcript(lambda _name, _data: None)


def test_costs_between_two_polls_become_one_change(transcript: Transcript) -> None:
    transcript.feed(CostsAdded(5, TokenCounts(1, 2)))
    transcript.feed(CostsAdded(7, TokenCounts(10, 20)))

    tokens = {"input_tokens": 11, "output_tokens": 22}
    nothing = {"cache_creation_tokens": 0, "cache_read_tokens": 0}
    change = {"cost_delta": 12, "tokens_delta": {**tokens, **nothing}}
    assert transcript.take_changes() == [(Trigger.COSTS_INCREMENTED, change)]
    assert transcript.take_changes() == []


def test_no_sum_is_ever_more_than_a_record_can_count(transcript: Transcript) -> None:
    for _ in range(3):
        transcript.feed(CostsAdded(MICRO_MAX, MAXIMUM))

    assert (transcript.cost_micro, transcript.tokens, transcript.unrecorded_micro) == (
        MICRO_MAX,
        MAXIMUM,
        MICRO_MAX,
    )
    codon = at("running")
    for trigger, payload in transcript.take_changes():
        codon.fire(str(trigger), **payload)
    assert codon.data["current_cost"] == MICRO_MAX


@pytest.mark.parametrize(
    ("reports", "unrecorded"),
    [
        ([], 0),
        ([CostsAdded(7)], 7),
        ([CostsAdded(7), CostsAdded(8)], 15),
        ([CostsSet(25)], 15),
        ([CostsFinal(25)], 15),
        # A provider that corrects its costs downwards takes no recorded cost back.
        ([CostsSet(4)], 0),
    ],
)
def test_costs_that_are_not_recorded_yet_are_known(
    transcript: Transcript, reports: list[Any], unrecorded: int
) -> None:
    transcript.feed(CostsAdded(10))
    assert transcript.unrecorded_micro == 10
    transcript.take_changes()
    assert transcript.unrecorded_micro == 10, "a change that was taken may still be refused"
    transcript.mark_recorded()

    for report in reports:
        transcript.feed(report)

    assert transcript.unrecorded_micro == unrecorded
    transcript.mark_recorded()
    assert transcript.unrecorded_micro == 0
