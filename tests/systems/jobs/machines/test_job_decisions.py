"""Who decides about a job, what its cards offer, and in which states it comes to rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from interlock.kernel.errors import (
    CallError,
    IllegalTransitionError,
    InvalidPayloadError,
)
from interlock.kernel.table import Stage, Waiting
from interlock.systems.jobs.machines.job import limits
from interlock.systems.jobs.machines.job.table import JOB
from tests.kernel.samples import PHASES, SAMPLES
from tests.systems.jobs.machines.jobs import LIVE, ROUTES, PureJob, refused

Data = Mapping[str, Any]

STEWARDED = {
    "approve": ("approval_required", {}),
    "reject": ("approval_required", {"reason": "x"}),
    "resubmit": ("intervention_required", {}),
    "resubmit_to_review": ("intervention_required", {}),
    "terminate": ("intervention_required", {}),
    "force_success": ("running", {"reason": "x"}),
    "restep": ("pending", {"phase": "build"}),
}


@pytest.mark.parametrize("trigger", STEWARDED)
def test_only_a_steward_decides_where_there_are_some(trigger: str) -> None:
    state, payload = STEWARDED[trigger]

    refused(
        PureJob.at(state, stewards=["ann"]),
        trigger,
        "bob is no steward; only ann may decide: add --as ann",
        by="bob",
        **payload,
    )
    refused(PureJob.at(state, stewards=["ann"]), trigger, "person is no steward", **payload)
    by_steward = PureJob.at(state, stewards=["ann", "eve"]).fire(trigger, by="eve", **payload)
    by_anyone = PureJob.at(state).fire(trigger, by="bob", **payload)
    assert by_steward.state == by_anyone.state


def test_a_job_that_a_steward_ended_keeps_who_and_why() -> None:
    case = PureJob.at("intervention_required").fire("terminate", by="ann", reason="no use")

    assert (case.state, case.data["end"]) == ("canceled", {"by": "ann", "reason": "no use"})
    assert PureJob.at("approval_required").fire("approve", by="ann").data["end"] == {"by": "ann"}


def test_a_success_is_forced_from_anywhere_but_a_draft_and_never_without_a_reason() -> None:
    for state in LIVE:
        if state == "draft":
            with pytest.raises(IllegalTransitionError):
                PureJob.at(state).fire("force_success", reason="it is done")
            continue
        case = PureJob.at(state).fire("force_success", by="ann", reason="it is done")
        assert case.state == "success"
        assert case.data["end"] == {"by": "ann", "reason": "it is done"}
        for reason in ("", " \n"):
            with pytest.raises(InvalidPayloadError):
                PureJob.at(state).fire("force_success", reason=reason)


def test_a_decision_that_cannot_be_undone_names_its_proposal() -> None:
    seen = {str(row.trigger) for row in JOB.transitions if row.names_proposal}
    assert seen == {"approve", "reject", "force_success"}
    rows = [row for row in JOB.transitions if row.trigger in seen]

    assert all(row.names_proposal for row in rows)
    assert {row.by for row in rows} == {("person",), ("approval", "person")}


@pytest.mark.parametrize("state", [state for state in LIVE if JOB.rows(state, "cancel")])
def test_a_cancellation_is_kept_with_who_and_why(state: str) -> None:
    case = PureJob.at(state).fire("cancel", by="ann", reason="no use")

    assert (case.state, case.data["end"]) == ("canceled", {"by": "ann", "reason": "no use"})


def test_only_a_job_without_auto_approval_asks_a_person() -> None:
    alone = PureJob.at("approval_required", auto_approve=True)
    assert (alone.asks, alone.owed, alone.timers) == (False, ["approval"], {"recheck": 900_000})
    asked = PureJob.at("approval_required")
    assert (asked.asks, asked.owed) == (True, ["resolution"])
    assert asked.timers == {"reminder": 86_400_000}

    signed = PureJob.at("approval_required", auto_approve=True, stewards=["ann"])
    signed.fire("approve", by="approval")
    assert (signed.state, signed.data["end"]) == ("success", {"by": "approval"})


def test_auto_approval_is_by_its_effect_or_a_steward_only() -> None:
    def waits(**given: Any) -> PureJob:
        return PureJob.at("approval_required", stewards=["ann"], **given)

    for by in ("bob", "person", "approval "):
        refused(waits(auto_approve=True), "approve", "only ann may decide", by=by)
    assert waits(auto_approve=True).fire("approve", by="ann").state == "success"
    refused(waits(), "approve", "only ann may decide", by="approval")


def test_a_review_is_begun_by_scheduling_alone() -> None:
    assert {row.by for row in JOB.transitions if row.trigger == "step"} == {("scheduling",)}
    stage = JOB.stage("review_required")
    assert isinstance(stage, Waiting)
    assert [trigger for _, trigger in stage.affordances] == ["run", "cancel"]


@pytest.mark.parametrize("stage", JOB.stages, ids=lambda stage: str(stage.state))
def test_every_answer_of_a_card_is_fired_by_a_person(stage: Stage) -> None:
    if not isinstance(stage, Waiting):
        return
    assert stage.card
    for answer, trigger in stage.affordances:
        rows = JOB.rows(str(stage.state), trigger)
        assert rows, f"{answer} is offered in {stage.state} and illegal"
        assert all("person" in row.by for row in rows)


def test_every_waiting_job_has_a_reminder_or_a_recheck() -> None:
    """A job that waits for a person has a reminder; an effect rechecks every other one."""
    for state, data in ((s, d) for s in LIVE for d in SAMPLES["job"][0]):
        stage = JOB.stage(state)
        if not isinstance(stage, Waiting):
            continue
        timers = {timer.name for timer in stage.due(data)}
        assert ("reminder" in timers) == stage.waits_for_person(data), (state, timers)
        assert timers


def by_itself(case: PureJob) -> list[tuple[str, Data]]:
    """Return all that can be fired at a job without a person or a producer.

    The pauses of a worker are left out: the worker itself limits how often it asks for one. So are
    suspensions that the scheduler ends: each lasts until the hours of the job begin.
    """
    found: list[tuple[str, Data]] = []
    for trigger in JOB.legal(case.state):
        names = {name for row in JOB.rows(case.state, trigger) for name in row.by}
        timer = next((t for t in JOB.stage(case.state).timers if t.trigger == trigger), None)
        others = names - {"person", "producer"}
        never = others == {"stalls"} and not (timer and timer.delay(case.data))
        if trigger == "pause" or never or names <= {"person", "producer"}:
            continue
        found += [(trigger, payload) for payload in SAMPLES["job"][1].get(trigger, ({},))]
    return found


@pytest.mark.parametrize("on_cancel", ["starve", "cancel"])
def test_without_people_a_job_comes_to_rest_whatever_goes_wrong(
    on_cancel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Follow every path that needs no person: their number is limited."""
    monkeypatch.setattr(limits, "UNBEGUN_MAX", 1)
    case = PureJob(recoveries_max=1, retries_max=1, phases=[PHASES[0]], on_cancel=on_cancel)
    seen, pending = {key(case)}, [case.record]
    while pending:
        case.record = record = pending.pop()
        for trigger, payload in by_itself(case):
            case.record = record
            try:
                case.fire(trigger, **payload)
            except CallError:
                continue
            if key(case) not in seen:
                seen.add(key(case))
                pending.append(case.record)
        assert len(seen) < 2_000, "it goes round"

    reached = {state for state, _ in seen} | {"suspended"}
    assert reached | {"paused", "canceled"} == {*ROUTES, "success"}
    assert ("canceled" in reached) is (on_cancel == "cancel")


def key(case: PureJob) -> tuple[str, str]:
    """Return the state and data of a job, without the fields that only grow."""
    grown = ("evidence", "guidance", "failure", "summary")
    data = {name: value for name, value in case.data.items() if name not in grown}
    return case.state, json.dumps(data, sort_keys=True)
