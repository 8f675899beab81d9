"""What a job keeps when it is put aside, sent back or reviewed, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.kernel.errors import (
    IllegalTransitionError,
    InvalidPayloadError,
)
from interlock.kernel.machines.jobs.job.changes import GUIDANCE_MAX, phase_of
from interlock.kernel.machines.jobs.job.table import IDLE_GATES, SUSPENDABLE
from interlock.kernel.table import Bounds
from tests.kernel.jobs.jobs import Job, refused
from tests.kernel.samples import EVIDENCE

Data = Mapping[str, Any]
PASSED = {"verdict": "approval_required", "summary": "good"}
FAILED = {"verdict": "intervention_required", "reasons": ["it does not compile", "no test"]}


@pytest.mark.parametrize("state", [*map(str, SUSPENDABLE), "paused"])
def test_a_suspension_keeps_what_was_done_and_said_and_a_resumption_leads_to_pending(
    state: str,
) -> None:
    words = {"from": "steward", "by": "ann", "text": "mind the gap"}
    shown = [{**EVIDENCE, "phase": "build"}]
    told = Job.at(state, limits={"iterations": 7})
    told.having(evidence=shown, guidance=[words], runs=3, summary="half", backoff_ms=9_000)
    told.having(slots=["g"], going="gate")
    before = told.data
    told.fire("suspend", reason="the machine is needed")

    for name in ("evidence", "guidance", "runs", "summary", "phase", "limits", "phases"):
        assert told.data[name] == before[name], name
    assert not {"slots", "time_left_ms", "paused_s"} & set(told.data)
    assert (told.asks, told.data["going"]) == (True, "")
    told.fire("resume")
    assert told.state == "pending"
    assert told.owed[0] == "registration", "what ended meanwhile is asked for anew"
    assert (told.data["guidance"], told.data["phase"]) == ([words], before["phase"])


def test_a_job_that_was_suspended_in_its_second_phase_goes_on_there() -> None:
    told = Job.at("running").fire("phase_completed").fire("suspend").fire("resume")
    told.fire("scheduled")

    assert (told.state, phase_of(told.data)) == ("running", "test")


def test_a_job_that_waited_before_a_retry_need_not_after_a_suspension() -> None:
    told = Job.at("running").fire("retry").fire("suspend").fire("resume")

    assert told.owed == ["registration", "scheduling"]
    assert told.fire("scheduled").state == "running"


def test_a_rejected_job_goes_back_to_its_last_phase_or_the_named_one() -> None:
    last = Job.at("approval_required").fire("reject", by="ann", reason="too slow")
    assert (last.state, phase_of(last.data), last.data["phase"]) == ("pending", "test", 1)
    assert last.data["guidance"] == [{"from": "steward", "by": "ann", "text": "too slow"}]
    assert last.owed == ["scheduling", "resolution"], "its card is taken away"
    first = Job.at("approval_required").fire("reject", reason="wrong", phase="build")
    assert first.data["phase"] == 0
    assert Job.at("approval_required").fire("reject", reason="x", phase="test").data["phase"] == 1

    refused(Job.at("approval_required"), "reject", "has come to", reason="x", phase="no")
    with pytest.raises(InvalidPayloadError):
        Job.at("approval_required").fire("reject")


def test_a_resubmitted_job_goes_on_where_it_stopped_with_what_was_said_and_more_to_use() -> None:
    told = Job.at("running", limits={"cost_micro": 5, "iterations": 2}).fire("phase_completed")
    told.fire("stuck", detail="which key?").having(recoveries=1, retries=1, going="gate")
    told.fire("resubmit", by="ann", reason="the red one", limits={"cost_micro": 9, "time_s": 60})

    assert (told.state, told.data["phase"]) == ("pending", 1)
    assert told.data["guidance"][-1]["text"] == "the red one"
    assert told.data["limits"] == {"cost_micro": 9, "iterations": 2, "time_s": 60}
    assert told.last.bounds == Bounds(9, 2)
    assert (told.data["recoveries"], told.data["retries"], told.data["going"]) == (0, 0, "")
    assert "failure" not in told.data


def test_what_is_to_be_reviewed_again_is_reviewed_as_it_is() -> None:
    told = Job.at("reviewing", limits={"iterations": 4}).fire("review_completed", **FAILED)
    told.having(recoveries=1, retries=1, going="gate")
    told.fire("resubmit_to_review", reason="look at the branch", limits={"cost_micro": 3})

    assert (told.state, told.data["phase"]) == ("review_required", 2)
    assert told.data["guidance"][-1]["text"] == "look at the branch"
    assert told.data["limits"] == {"iterations": 4, "cost_micro": 3}
    assert (told.data["recoveries"], told.data["retries"], told.data["going"]) == (0, 0, "")
    assert "failure" not in told.data
    assert told.last.bounds == Bounds(3, 4)
    assert told.owed[0] == "scheduling"


def test_what_a_reviewer_finds_wrong_is_guidance_for_the_worker() -> None:
    told = Job.at("reviewing").fire("review_completed", **FAILED, evidence=[EVIDENCE])

    assert told.state == "intervention_required"
    text = "it does not compile; no test"
    assert told.data["guidance"] == [{"from": "reviewer", "by": "reviewer", "text": text}]
    assert told.data["failure"] == {"code": "review", "detail": text}
    assert told.data["review_result"]["verdict"] == "intervention_required"
    assert told.data["review_result"]["evidence"] == [EVIDENCE]


@pytest.mark.parametrize("said", [PASSED, FAILED])
def test_what_a_reviewer_finds_is_kept_and_its_tries_begin_anew(said: dict[str, Any]) -> None:
    told = Job.at("reviewing").having(recoveries=1, retries=1, going="gate", time_left_ms=9)
    told.fire("review_completed", **said)

    assert told.data["review_result"]["verdict"] == said["verdict"]
    assert (told.data["recoveries"], told.data["retries"], told.data["going"]) == (0, 0, "")
    assert "time_left_ms" not in told.data
    assert ("failure" in told.data) is (said is FAILED)


def test_a_reviewer_without_reasons_is_quoted_by_its_summary() -> None:
    for summary, text in (("hm", "hm"), ("", "the reviewer gave no reason")):
        said = {"verdict": "intervention_required", "summary": summary}
        told = Job.at("reviewing").fire("review_completed", **said)
        assert told.data["guidance"][-1]["text"] == text


def test_guidance_is_bounded() -> None:
    told = Job.at("intervention_required")
    for number in range(GUIDANCE_MAX + 10):
        told.fire("resubmit", reason=f"{number}").fire("scheduled").fire("stuck")

    said = [line["text"] for line in told.data["guidance"]]
    assert said == [f"{number}" for number in range(10, GUIDANCE_MAX + 10)]


@pytest.mark.parametrize("state", ["pending", "suspended", *map(str, IDLE_GATES)])
def test_a_job_can_be_sent_back_to_a_phase_while_nothing_is_at_work(state: str) -> None:
    told = Job.at(state).having(phase=2, failure={"code": "x", "detail": "y"}, backoff_ms=9)
    told.fire("restep", phase="build", by="ann", reason="from the start")

    assert told.state == ("suspended" if state == "suspended" else "pending")
    assert (told.data["phase"], told.data["guidance"][-1]["text"]) == (0, "from the start")
    assert not {"failure", "backoff_ms"} & set(told.data)
    refused(Job.at(state), "restep", "has come to", phase="nope")


def test_nobody_is_sent_on_to_a_phase_that_was_not_come_to() -> None:
    ahead = {"resubmit": "intervention_required", "restep": "pending"}
    for trigger, state in ahead.items():
        refused(Job.at(state), trigger, "has come to", phase="test")
        for phase in ("build", "test"):
            come = Job.at(state).having(phase=1).fire(trigger, phase=phase)
            assert phase_of(come.data) == phase
    done = Job.at("approval_required").fire("reject", reason="x", phase="test")
    assert phase_of(done.data) == "test"
    early = Job.at("approval_required").having(phase=0)
    refused(early, "reject", "has come to", reason="x", phase="test")


def test_a_job_at_work_or_in_draft_is_not_sent_back() -> None:
    for state in ("draft", "running", "paused", "reviewing"):
        with pytest.raises(IllegalTransitionError):
            Job.at(state).fire("restep", phase="build")
