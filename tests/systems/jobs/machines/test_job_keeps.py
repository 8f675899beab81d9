"""The data that a job keeps when it is suspended, sent back or reviewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.kernel.errors import (
    IllegalTransitionError,
    InvalidPayloadError,
)
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.machines.job.limits import GUIDANCE_MAX
from interlock.systems.jobs.machines.job.table import IDLE_GATES, JOB, SUSPENDABLE
from tests.kernel.samples import EVIDENCE, PHASES
from tests.systems.jobs.machines.jobs import PureJob, refused

Data = Mapping[str, Any]
PASSED = {"verdict": "approval_required", "summary": "good"}
FAILED = {"verdict": "intervention_required", "reasons": ["it does not compile", "no test"]}


@pytest.mark.parametrize("state", [*map(str, SUSPENDABLE), "paused"])
def test_a_suspended_job_keeps_work_and_guidance_and_resumes_as_pending(
    state: str,
) -> None:
    guidance = {"from": "steward", "by": "ann", "text": "mind the gap"}
    shown = [{**EVIDENCE, "phase": "build"}]
    case = PureJob.at(state, limits={"iterations": 7})
    case.having(evidence=shown, guidance=[guidance], runs=3, summary="half", backoff_ms=9_000)
    case.having(slots=["g"], going="gate")
    before = case.data
    case.fire("suspend", reason="the computer is needed")

    for name in ("evidence", "guidance", "runs", "summary", "phase", "limits", "phases"):
        assert case.data[name] == before[name], name
    assert not {"slots", "time_left_ms", "paused_s"} & set(case.data)
    assert (case.asks, case.data["going"]) == (True, "")
    case.fire("resume")
    assert case.state == "pending"
    assert case.owed[0] == "subscription", "dependencies that ended meanwhile are asked for again"
    assert (case.data["guidance"], case.data["phase"]) == ([guidance], before["phase"])


def test_a_job_that_was_suspended_in_its_second_phase_goes_on_there() -> None:
    case = PureJob.at("running").fire("phase_completed").fire("suspend").fire("resume")
    case.fire("scheduled")

    assert (case.state, phase_of(case.data)) == ("running", "test")


def test_a_person_makes_the_suspension_of_the_scheduler_last_until_it_is_resumed() -> None:
    case = PureJob.at("pending").fire("suspend", for_s=60, by="scheduling")
    assert set(case.timers) == {"until"}

    case.fire("suspend")

    assert (case.state, set(case.timers), case.asks) == ("suspended", {"reminder"}, True)
    refused(case, "suspend", "suspended already, until a person resumes it")


def test_a_suspension_ends_the_wait_before_a_retry() -> None:
    case = PureJob.at("running").fire("retry").fire("suspend").fire("resume")

    assert case.owed == ["subscription", "scheduling"]
    assert case.fire("scheduled").state == "running"


def test_a_rejected_job_goes_back_to_its_last_phase_or_the_named_one() -> None:
    last = PureJob.at("approval_required").fire("reject", by="ann", reason="too slow")
    assert (last.state, phase_of(last.data), last.data["phase"]) == ("pending", "test", 1)
    assert last.data["guidance"] == [{"from": "steward", "by": "ann", "text": "too slow"}]
    assert last.owed == ["scheduling", "resolution"], "its card is taken away"
    first = PureJob.at("approval_required").fire("reject", reason="wrong", phase="build")
    assert first.data["phase"] == 0
    assert (
        PureJob.at("approval_required").fire("reject", reason="x", phase="test").data["phase"] == 1
    )

    refused(PureJob.at("approval_required"), "reject", "has come to", reason="x", phase="no")
    with pytest.raises(InvalidPayloadError):
        PureJob.at("approval_required").fire("reject")


def test_an_objection_waits_for_a_person_and_a_rejection_starts_the_work_again() -> None:
    objected = PureJob.at("reviewing", auto_approve=True).fire("review_completed", **FAILED)
    rejected = PureJob.at("approval_required").fire("reject", reason="x")
    by_hand = PureJob.at("approval_required").having(manual=True).fire("reject", reason="x")

    assert [(case.asks, "scheduling" in case.owed) for case in (objected, rejected, by_hand)] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_a_resubmitted_job_goes_on_where_it_stopped_with_guidance_and_higher_limits() -> None:
    case = PureJob.at("running", limits={"cost_micro": 5, "iterations": 2}).fire("phase_completed")
    case.fire("stuck", detail="which key?").having(recoveries=1, retries=1, going="gate")
    case.fire("resubmit", by="ann", reason="the red one", limits={"cost_micro": 9, "time_s": 60})

    assert (case.state, case.data["phase"]) == ("pending", 1)
    assert case.data["guidance"][-1]["text"] == "the red one"
    assert case.data["limits"] == {"cost_micro": 9, "iterations": 2, "time_s": 60}
    assert case.last.bounds == {"spent": 9, "runs": 2}
    assert (case.data["recoveries"], case.data["retries"], case.data["going"]) == (0, 0, "")
    assert "failure" not in case.data


def test_a_steward_who_sends_a_job_back_may_change_what_it_does() -> None:
    aims = {"objective": "mend it", "details": "gently", "acceptance": ["it is green"]}
    review, worker = ({"command": "look again"}, {"capability": "mend", "parameters": {"x": 1}})
    case = PureJob.at("intervention_required", phases=PHASES)
    before = case.data["phases"]
    case.fire("resubmit", phase="build", worker=worker, review=review, **aims)

    assert {name: case.data[name] for name in aims} == aims
    assert case.data["review"]["command"] == "look again"
    assert case.data["phases"][0]["worker"].items() >= worker.items()
    assert case.data["phases"][1:] == before[1:], "only the worker of that phase is another one"
    again = PureJob.at("intervention_required").fire("resubmit_to_review", review=review, **aims)
    assert {name: again.data[name] for name in aims} == aims
    assert again.data["review"]["command"] == "look again"
    both = {"command": "a", "model": "b"}
    refusals: list[Data] = [{"worker": {}}, {"worker": both}, {"depends_on": []}]
    for wrong in refusals:
        with pytest.raises(InvalidPayloadError):
            JOB.admit("resubmit", wrong)
    with pytest.raises(InvalidPayloadError, match="worker: Extra inputs"):
        JOB.admit("resubmit_to_review", {"worker": worker})


@pytest.mark.parametrize("kind", ["command", "model"])
@pytest.mark.parametrize(
    ("trigger", "role"),
    [("resubmit", "worker"), ("resubmit", "review"), ("resubmit_to_review", "review")],
)
def test_a_job_of_capabilities_gets_no_command_because_it_has_no_host(
    trigger: str, role: str, kind: str
) -> None:
    phases = [{"name": "build", "worker": {"capability": "mend"}}]
    case = PureJob.at("running", phases=phases).fire("stuck")

    refused(case, trigger, f"its {role} can only be a capability", **{role: {kind: "x"}})
    case.having(host="barn-1").fire(trigger, **{role: {kind: "x"}})


def test_a_job_that_is_resubmitted_to_review_keeps_its_work() -> None:
    case = PureJob.at("reviewing", limits={"iterations": 4}).fire("review_completed", **FAILED)
    case.having(recoveries=1, retries=1, going="gate")
    case.fire("resubmit_to_review", reason="look at the branch", limits={"cost_micro": 3})

    assert (case.state, case.data["phase"]) == ("review_required", 2)
    assert case.data["guidance"][-1]["text"] == "look at the branch"
    assert case.data["limits"] == {"iterations": 4, "cost_micro": 3}
    assert (case.data["recoveries"], case.data["retries"], case.data["going"]) == (0, 0, "")
    assert "failure" not in case.data
    assert case.last.bounds == {"spent": 3, "runs": 4}
    assert case.owed[0] == "scheduling"


def test_the_objections_of_a_reviewer_are_guidance_for_the_worker() -> None:
    case = PureJob.at("reviewing").fire("review_completed", **FAILED, evidence=[EVIDENCE])

    assert case.state == "intervention_required"
    text = "it does not compile; no test"
    assert case.data["guidance"] == [{"from": "reviewer", "by": "reviewer", "text": text}]
    assert case.data["failure"] == {"code": "review", "detail": text}
    assert case.data["review_result"]["verdict"] == "intervention_required"
    assert case.data["review_result"]["evidence"] == [EVIDENCE]


@pytest.mark.parametrize("report", [PASSED, FAILED])
def test_a_review_result_is_kept_and_tries_are_counted_anew(report: dict[str, Any]) -> None:
    case = PureJob.at("reviewing").having(recoveries=1, retries=1, going="gate", time_left_ms=9)
    case.fire("review_completed", **report)

    assert case.state == case.data["review_result"]["verdict"] == report["verdict"]
    assert (case.data["recoveries"], case.data["retries"], case.data["going"]) == (0, 0, "")
    assert "time_left_ms" not in case.data
    assert ("failure" in case.data) is (report is FAILED)


def test_a_reviewer_without_reasons_is_quoted_by_its_summary() -> None:
    for summary, text in (("hm", "hm"), ("", "the reviewer gave no reason")):
        report = {"verdict": "intervention_required", "summary": summary}
        case = PureJob.at("reviewing").fire("review_completed", **report)
        assert case.data["guidance"][-1]["text"] == text


def test_guidance_is_bounded() -> None:
    case = PureJob.at("intervention_required")
    for number in range(GUIDANCE_MAX + 10):
        case.fire("resubmit", reason=f"{number}").fire("scheduled").fire("stuck")

    kept = [line["text"] for line in case.data["guidance"]]
    assert kept == [f"{number}" for number in range(10, GUIDANCE_MAX + 10)]


@pytest.mark.parametrize("state", ["pending", "suspended", *map(str, IDLE_GATES)])
def test_a_job_can_be_sent_back_to_a_phase_while_nothing_is_at_work(state: str) -> None:
    case = PureJob.at(state).having(phase=2, failure={"code": "x", "detail": "y"}, backoff_ms=9)
    case.fire("restep", phase="build", by="ann", reason="from the start")

    assert case.state == ("suspended" if state == "suspended" else "pending")
    assert (case.data["phase"], case.data["guidance"][-1]["text"]) == (0, "from the start")
    assert not {"failure", "backoff_ms"} & set(case.data)
    refused(PureJob.at(state), "restep", "has come to", phase="nope")


def test_a_job_cannot_be_sent_on_to_a_later_phase() -> None:
    ahead = {"resubmit": "intervention_required", "restep": "pending"}
    for trigger, state in ahead.items():
        refused(PureJob.at(state), trigger, "has come to", phase="test")
        for phase in ("build", "test"):
            come = PureJob.at(state).having(phase=1).fire(trigger, phase=phase)
            assert phase_of(come.data) == phase
    done = PureJob.at("approval_required").fire("reject", reason="x", phase="test")
    assert phase_of(done.data) == "test"
    early = PureJob.at("approval_required").having(phase=0)
    refused(early, "reject", "has come to", reason="x", phase="test")


def test_a_job_at_work_or_in_draft_is_not_sent_back() -> None:
    for state in ("draft", "running", "paused", "reviewing"):
        with pytest.raises(IllegalTransitionError):
            PureJob.at(state).fire("restep", phase="build")
