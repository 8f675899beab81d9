"""Who decides about a job, what its cards offer, and where it comes to rest by itself."""

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
from interlock.kernel.machines.jobs.job import changes
from interlock.kernel.machines.jobs.job.table import JOB
from interlock.kernel.table import Stage, Waiting
from tests.kernel.jobs.jobs import LIVE, ROUTES, Job, refused
from tests.kernel.samples import PHASES, SAMPLES

Data = Mapping[str, Any]

# --- who decides -----------------------------------------------------------------------------

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

    refused(Job.at(state, stewards=["ann"]), trigger, "steward", by="bob", **payload)
    refused(Job.at(state, stewards=["ann"]), trigger, "steward", **payload)
    by_steward = Job.at(state, stewards=["ann", "eve"]).fire(trigger, by="eve", **payload)
    by_anyone = Job.at(state).fire(trigger, by="bob", **payload)
    assert by_steward.state == by_anyone.state


def test_what_a_steward_ended_says_who_and_why() -> None:
    told = Job.at("intervention_required").fire("terminate", by="ann", reason="no use")

    assert (told.state, told.data["end"]) == ("canceled", {"by": "ann", "reason": "no use"})
    assert told.owed[0] == "tell"
    assert Job.at("approval_required").fire("approve", by="ann").data["end"] == {"by": "ann"}


def test_a_success_is_forced_from_anywhere_but_a_draft_and_never_without_a_reason() -> None:
    for state in LIVE:
        if state == "draft":
            with pytest.raises(IllegalTransitionError):
                Job.at(state).fire("force_success", reason="it is done")
            continue
        told = Job.at(state).fire("force_success", by="ann", reason="it is done")
        assert (told.state, "tell" in told.owed) == ("success", True)
        assert told.data["end"] == {"by": "ann", "reason": "it is done"}
        for reason in ("", " \n"):
            with pytest.raises(InvalidPayloadError):
                Job.at(state).fire("force_success", reason=reason)


def test_what_cannot_be_taken_back_names_what_was_seen() -> None:
    seen = {str(row.trigger) for row in JOB.transitions if row.names_proposal}
    assert seen == {"approve", "reject", "force_success"}
    rows = [row for row in JOB.transitions if row.trigger in seen]

    assert all(row.names_proposal for row in rows)
    assert {row.by for row in rows} == {("person",), ("approval", "person")}


@pytest.mark.parametrize("state", [state for state in LIVE if JOB.rows(state, "cancel")])
def test_a_cancellation_is_kept_with_who_and_why(state: str) -> None:
    told = Job.at(state).fire("cancel", by="ann", reason="no use")

    assert (told.state, told.data["end"]) == ("canceled", {"by": "ann", "reason": "no use"})
    assert told.owed[0] == "tell"


def test_what_needs_no_sign_off_asks_nobody_and_what_needs_one_asks() -> None:
    alone = Job.at("approval_required", auto_approve=True)
    assert (alone.asks, alone.owed, alone.timers) == (False, ["approval"], {"recheck": 900_000})
    asked = Job.at("approval_required")
    assert (asked.asks, asked.owed) == (True, ["resolution"])
    assert asked.timers == {"reminder": 86_400_000}

    signed = Job.at("approval_required", auto_approve=True, stewards=["ann"])
    signed.fire("approve", by="approval")
    assert (signed.state, signed.data["end"]) == ("success", {"by": "approval"})


def test_what_needs_no_sign_off_is_signed_by_the_effect_or_a_steward_and_nobody_else() -> None:
    def waits(**given: Any) -> Job:
        return Job.at("approval_required", stewards=["ann"], **given)

    for by in ("bob", "person", "approval "):
        refused(waits(auto_approve=True), "approve", "stewards", by=by)
    assert waits(auto_approve=True).fire("approve", by="ann").state == "success"
    refused(waits(), "approve", "stewards", by="approval")


def test_a_review_is_begun_by_scheduling_alone() -> None:
    assert {row.by for row in JOB.transitions if row.trigger == "step"} == {("scheduling",)}
    stage = JOB.stage("review_required")
    assert isinstance(stage, Waiting)
    assert [trigger for _, trigger in stage.affordances] == ["run", "cancel"]


# --- cards, timers, rest ---------------------------------------------------------------------


@pytest.mark.parametrize("stage", JOB.stages, ids=lambda stage: str(stage.state))
def test_what_a_card_offers_is_a_persons_to_do(stage: Stage) -> None:
    if not isinstance(stage, Waiting):
        return
    assert stage.card
    for answer, trigger in stage.affordances:
        rows = JOB.rows(str(stage.state), trigger)
        assert rows, f"{answer} is offered in {stage.state} and illegal"
        assert all("person" in row.by for row in rows)


def test_somebody_looks_at_every_waiting_job_again() -> None:
    """Whoever waits for no person is looked at by us, and a person is reminded."""
    for state, data in ((s, d) for s in LIVE for d in SAMPLES["job"][0]):
        stage = JOB.stage(state)
        if not isinstance(stage, Waiting):
            continue
        timers = {timer.name for timer in stage.due(data)}
        assert ("reminder" in timers) == stage.waits_for_person(data), (state, timers)
        assert timers


def deployment(told: Job) -> list[tuple[str, Data]]:
    """Return all that can be fired at a job while nobody outside does anything.

    A worker's pauses are left out, as it bounds by itself how often it asks for one.
    """
    found: list[tuple[str, Data]] = []
    for trigger in JOB.legal(told.state):
        names = {name for row in JOB.rows(told.state, trigger) for name in row.by}
        timer = next((t for t in JOB.stage(told.state).timers if t.trigger == trigger), None)
        never = names == {"stalls"} and not (timer and timer.delay(told.data))
        if trigger == "pause" or never or names <= {"person", "producer"}:
            continue
        found += [(trigger, payload) for payload in SAMPLES["job"][1].get(trigger, ({},))]
    return found


@pytest.mark.parametrize("on_cancel", ["starve", "cancel"])
def test_left_to_itself_a_job_comes_to_rest_whatever_goes_wrong(
    on_cancel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Follow every way on from a start that needs nobody: there are not endlessly many."""
    monkeypatch.setattr(changes, "UNBEGUN_MAX", 1)
    told = Job(recoveries_max=1, retries_max=1, phases=[PHASES[0]], on_cancel=on_cancel)
    seen, pending = {key(told)}, [told.record]
    while pending:
        told.record = record = pending.pop()
        for trigger, payload in deployment(told):
            told.record = record
            try:
                told.fire(trigger, **payload)
            except CallError:
                continue
            if key(told) not in seen:
                seen.add(key(told))
                pending.append(told.record)
        assert len(seen) < 2_000, "it goes round"

    reached = {state for state, _ in seen} | {"suspended"}
    assert reached | {"paused", "canceled"} == {*ROUTES, "success"}
    assert ("canceled" in reached) is (on_cancel == "cancel")


def key(told: Job) -> tuple[str, str]:
    """Return where a job stands, without the words that only grow."""
    grown = ("evidence", "guidance", "failure", "summary")
    data = {name: value for name, value in told.data.items() if name not in grown}
    return told.state, json.dumps(data, sort_keys=True)
