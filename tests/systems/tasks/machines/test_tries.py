"""What the next try of a task is told about the last one, and what all tries may spend."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.amounts import DELTA_MAX
from interlock.systems.tasks.machines.task.limits import SIGNALS_TOLD_MAX
from interlock.systems.tasks.machines.task.table import TASK
from tests.systems.tasks.machines.test_coding import PureTask


def failing(number: int) -> dict[str, Any]:
    return {"type": "test_passes", "value": f"make {number}", "passed": False, "detail": "red"}


def test_the_next_try_is_told_which_signals_did_not_pass_and_what_a_person_says() -> None:
    passed = {**failing(0), "passed": True}
    results = [passed, *map(failing, range(1, 9))]
    refused = {"reason": "make 1 did not pass", "why": "verification_failed", "results": results}
    task = PureTask().to("claimed", "completed").fire("verification_rejected", refused)

    told = task.fire("retried", {"reason": "use the other compiler"}).record.data["last_try"]

    assert told["reason"] == "make 1 did not pass"
    assert [one["value"] for one in told["signals"]] == ["make 1", "make 2", "make 3"]
    assert len(told["signals"]) == SIGNALS_TOLD_MAX
    assert told["answer"] == "use the other compiler"
    assert task.to("claimed").record.data["last_try"] == told, "a claim does not lose it"


def test_only_the_last_failure_is_told() -> None:
    task = PureTask().to("claimed").fire("failed", {"reason": "one", "paths": ["a"]}).to("retried")
    assert task.record.data["last_try"] == {"reason": "one", "paths": ["a"]}

    task.to("claimed").fire("failed", {"reason": "two"}).to("retried")

    assert task.record.data["last_try"] == {"reason": "two"}


def test_a_rejection_is_told_once() -> None:
    task = PureTask(needs_approval=True).to("claimed", "completed", "verified")
    task.fire("rejected", {"reason": "use tabs"}).to("retried")

    assert (task.record.data["rejections"], task.record.data["last_try"]) == (["use tabs"], {})


def test_the_agent_after_a_lost_one_is_told_how_that_ended_and_what_failed() -> None:
    task = PureTask().to("claimed", "started").fire("orphaned", {"reason": "killed, 137"})
    lost = {"reason": "its agent was lost", "results": [failing(1)]}

    told = task.fire("requeued", lost).record.data["last_try"]

    assert (told["reason"], told["signals"][0]["value"]) == ("killed, 137", "make 1")


def test_the_agent_after_a_block_is_told_what_was_missing_and_the_answer() -> None:
    task = PureTask().to("claimed", "started", "blocked")

    told = task.fire("unblocked", {"reason": "it lies on the table"}).record.data["last_try"]

    assert told["reason"].endswith(": the key of the safe")
    assert told["answer"] == "it lies on the table"


def test_the_agent_after_one_whose_task_was_taken_away_is_told_why() -> None:
    task = PureTask().to("claimed", "started").fire("requeued", {"reason": "it is too slow"})
    assert task.record.data["last_try"] == {
        "reason": "a person took the task from its agent",
        "answer": "it is too slow",
    }
    assert PureTask().fire("requeued", {"reason": "hm"}).record.data["last_try"] == {"answer": "hm"}
    assert "last_try" not in PureTask().to("claimed", "requeued").record.data


@pytest.mark.parametrize(("budget", "cap"), [(5, 20), (10**15, 4 * 10**15), (None, None)])
def test_all_tries_may_spend_what_each_may(budget: int | None, cap: int | None) -> None:
    assert TASK.bounds({"budget_micro": budget, "max_retries": 3}) == {"spent": cap}


def test_the_highest_budget_of_a_task_is_one_that_is_counted_exactly() -> None:
    assert TASK.bounds({"budget_micro": 10**15, "max_retries": 100}) == {"spent": DELTA_MAX}
