"""A transcript: its costs, which of them are recorded, and the reports without use for a codon."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.reason import TransitionReason
from interlock.systems.runs.codon.transcript import Transcript
from interlock.systems.runs.machines.codon.names import Trigger
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.workers.supervision.reports import (
    AgentFailed,
    MessageWritten,
    Report,
    UsageAdded,
    UsageTotal,
    UsedTokens,
)
from tests.systems.runs.machines.codons import at

MAXIMUM = UsedTokens(MICRO_MAX, MICRO_MAX, MICRO_MAX, MICRO_MAX)


@pytest.fixture
def transcript() -> Transcript:
    return Transcript(lambda _name, _data: None)


def test_costs_between_two_polls_become_one_change(transcript: Transcript) -> None:
    transcript.hear(UsageAdded(5, UsedTokens(1, 2)))
    transcript.hear(UsageAdded(7, UsedTokens(10, 20)))

    tokens = {"input_tokens": 11, "output_tokens": 22}
    nothing = {"cache_creation_tokens": 0, "cache_read_tokens": 0}
    change = {"cost_delta": 12, "tokens_delta": {**tokens, **nothing}}
    assert transcript.take_changes() == [(Trigger.COSTS_INCREMENTED, change)]
    assert transcript.take_changes() == []


def test_no_sum_is_ever_more_than_a_record_can_count(transcript: Transcript) -> None:
    for _ in range(3):
        transcript.hear(UsageAdded(MICRO_MAX, MAXIMUM))

    assert (transcript.used.cost_micro, transcript.used.tokens, transcript.unrecorded_micro) == (
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
        ([UsageAdded(7)], 7),
        ([UsageAdded(7), UsageAdded(8)], 15),
        ([UsageTotal(25)], 15),
        ([UsageTotal(25, final=True)], 15),
        # A provider that corrects its costs downwards takes no recorded cost back.
        ([UsageTotal(4)], 0),
    ],
)
def test_costs_that_are_not_recorded_yet_are_known(
    transcript: Transcript, reports: list[Any], unrecorded: int
) -> None:
    transcript.hear(UsageAdded(10))
    assert transcript.unrecorded_micro == 10
    transcript.take_changes()
    assert transcript.unrecorded_micro == 10, "a change that was taken may still be refused"
    transcript.mark_recorded()

    for report in reports:
        transcript.hear(report)

    assert transcript.unrecorded_micro == unrecorded
    transcript.mark_recorded()
    assert transcript.unrecorded_micro == 0


@pytest.mark.parametrize(
    ("final", "change"),
    [
        (False, (Trigger.COSTS_UPDATED, "cost", "tokens")),
        (True, (Trigger.CODON_FINAL_COST_SET, "final_cost", "final_tokens")),
    ],
)
def test_a_total_replaces_the_costs_so_far(
    transcript: Transcript,
    change: tuple[Trigger, str, str],
    *,
    final: bool,
) -> None:
    transcript.hear(UsageAdded(90, UsedTokens(80)))
    transcript.take_changes()
    transcript.hear(UsageTotal(7, UsedTokens(1), final, UsageAdded(3)))

    trigger, cost, tokens = change
    ((taken, payload),) = transcript.take_changes()
    assert (taken, payload[cost], payload[tokens]["input_tokens"]) == (trigger, 7, 1)
    assert (transcript.used.cost_micro, transcript.used.tokens) == (7, UsedTokens(1))


def test_a_total_of_an_unknown_cost_is_rejected(transcript: Transcript) -> None:
    transcript.hear(UsageTotal(None, UsedTokens(5), final=True))

    assert transcript.rejected == ["the total usage has no cost"]
    assert transcript.take_changes() == []


@pytest.mark.parametrize(
    ("report", "exceeded"),
    [
        (AgentFailed("it is all too much", TransitionReason.PROMPT_TOO_LONG), True),
        (AgentFailed("prompt is too long: 9 > 8"), True),
        (AgentFailed("no disk"), False),
    ],
)
def test_a_failure_may_say_that_the_context_is_exceeded(
    transcript: Transcript, report: AgentFailed, *, exceeded: bool
) -> None:
    transcript.hear(report)

    assert (transcript.context_exceeded, transcript.error) == (exceeded, report.error)


def test_a_full_context_is_not_the_error_where_another_is_known(transcript: Transcript) -> None:
    transcript.hear(AgentFailed("no disk", retry_after_s=3))
    transcript.hear(AgentFailed("", TransitionReason.PROMPT_TOO_LONG))

    assert (transcript.context_exceeded, transcript.error) == (True, "no disk")
    assert transcript.retry_after_ms == 3_000


def test_only_the_agents_own_messages_count() -> None:
    seen: list[object] = []
    transcript = Transcript(lambda _name, data: seen.append(data["text"]))
    reports: list[Report] = [
        MessageWritten("one"),
        MessageWritten("more", continues=True),
        MessageWritten("of a subagent", own=False),
    ]
    for report in reports:
        transcript.hear(report)

    assert (transcript.messages, seen) == (1, ["one", "more"])
