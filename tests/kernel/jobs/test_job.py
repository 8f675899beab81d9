"""What a job's guards ask and its updates change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import (
    IllegalTransitionError,
    InvalidPayloadError,
)
from interlock.kernel.machines.jobs.job.changes import EVIDENCE_KEPT_MAX, UNBEGUN_MAX, phase_of
from interlock.kernel.machines.jobs.job.payloads import EVIDENCE_MAX
from interlock.kernel.machines.jobs.job.table import JOB
from interlock.kernel.table import UNBOUND, Bounds
from tests.kernel.jobs.jobs import LIVE, Job, refused
from tests.kernel.samples import EVIDENCE, PHASES, SAMPLES

Data = Mapping[str, Any]
PASSED = {"verdict": "approval_required", "summary": "good"}
FAILED = {"verdict": "intervention_required", "reasons": ["it does not compile", "no test"]}


# --- the page --------------------------------------------------------------------------------


def test_the_page_has_thirty_two_rows_and_one_end_that_nothing_enters() -> None:
    path = Path(__file__).parents[2] / "golden" / "job.json"
    kept = json.loads(path.read_text("utf-8"))

    assert len({tuple(row) for row in kept["published"]}) == 32
    assert [str(stage.state) for stage in JOB.stages if stage.external] == kept["external"]
    assert kept["births"] == [str(JOB.initial_stage(Job().data).state)]
    assert len(JOB.stages) == 12


def test_what_a_job_is_born_with_is_a_draft_that_begins_by_itself_unless_it_is_held() -> None:
    free, held = Job(), Job(hold=True)

    assert (free.state, free.asks, free.timers) == ("draft", False, {"kickoff": 60_000})
    assert (held.state, held.asks, held.timers) == ("draft", True, {"reminder": 86_400_000})
    assert free.fire("activate").state == "pending"
    assert (JOB.first_trigger, JOB.id_prefix) == ("activate", ("graph",))


# --- a draft is configured -------------------------------------------------------------------


def test_only_a_draft_is_configured() -> None:
    assert Job().fire("configure", objective="mend it").data["objective"] == "mend it"
    for state in LIVE:
        if state != "draft":
            with pytest.raises(IllegalTransitionError):
                Job.at(state).fire("configure", objective="mend it")


def test_what_is_configured_replaces_what_it_names_and_nothing_else() -> None:
    given = {"objective": "mend it", "review": {"command": "look"}, "queue": "slow"}
    told = Job(**given).fire("configure", queue="fast", acceptance=["it is green"])

    assert told.data == {**Job(**given).data, "queue": "fast", "acceptance": ["it is green"]}
    assert "by" not in told.data
    assert told.fire("configure", no_review=True).data.get("review") is None
    assert "no_review" not in told.data


def test_configuring_starts_its_timers_anew_and_what_was_seen_is_seen_again() -> None:
    told = Job(hold=True).fire("configure", remind_s=60)

    assert told.timers == {"reminder": 60_000}
    assert told.record.entered == told.record.version


def test_limits_that_are_configured_are_merged_and_are_what_its_family_may_use() -> None:
    told = Job(limits={"cost_micro": 5, "iterations": 2})
    told.fire("configure", limits={"cost_micro": 7, "time_s": 9})

    assert told.data["limits"] == {"cost_micro": 7, "time_s": 9, "iterations": 2}
    assert told.last.bounds == Bounds(7, 2)
    assert told.to("activate").last.bounds is UNBOUND, "nothing changes it in passing"


def test_where_its_files_are_is_not_configured() -> None:
    for name in ("dir", "host"):
        with pytest.raises(InvalidPayloadError, match=f"{name}: Extra inputs"):
            Job(dir="/d", host="here").fire("configure", **{name: "elsewhere"})


# --- pending: dependencies -------------------------------------------------------------------


def test_a_job_starts_when_all_that_it_depends_on_has_ended_well() -> None:
    told = Job(depends_on=["g/a", "g/b"]).fire("activate")
    owed = {one.effect.name: one.countdown for one in told.last.owes}
    assert owed == {"registration": "dependencies"}
    refused(told, "scheduled", "dependency is missing", slots=["g"])
    told.fire("dependencies_met", tally={"success": 2})

    assert (told.data["met"], told.owed) == (True, ["scheduling"])
    refused(told, "dependencies_met", "met already", tally={"success": 2})
    assert told.fire("scheduled", slots=["g"]).state == "running"


def test_a_countdown_with_an_end_that_is_no_success_meets_nothing() -> None:
    told = Job(depends_on=["g/a"]).fire("activate")

    refused(told, "dependencies_met", "one of them is lost", tally={"success": 1, "canceled": 1})


def test_a_lost_dependency_starves_a_job_and_a_person_is_asked() -> None:
    told = Job(depends_on=["g/a"]).fire("activate")
    told.fire("dependency_lost", dependency="g/a", state="canceled")

    assert (told.state, told.asks, told.data["lost"]) == ("pending", True, {"g/a": "canceled"})
    assert "resolution" in told.owed
    assert list(told.timers) == ["reminder"]
    refused(told, "dependency_lost", "known already", dependency="g/a", state="failed")
    refused(told, "dependencies_met", "one of them is lost", tally={"canceled": 1})


def test_a_loss_that_a_repeated_registration_counted_twice_is_one() -> None:
    told = Job(depends_on=["g/a", "g/b"]).fire("activate")
    told.fire("dependency_lost", dependency="g/a", state="canceled")
    told.fire("dependency_waived", dependency="g/a")

    assert told.fire("dependencies_met", tally={"canceled": 2, "success": 1}).data["met"]


def test_a_lost_dependency_ends_a_job_where_that_was_asked_for() -> None:
    for state in ("pending", "suspended"):
        told = Job(on_cancel="cancel").fire("activate")
        if state == "suspended":
            told.fire("suspend")
        told.fire("dependency_lost", dependency="g/a", state="canceled")

        assert (told.state, told.owed) == ("canceled", ["tell"])
        assert told.data["end"] == {"by": "tell", "reason": "g/a is canceled"}
        assert told.data["lost"] == {"g/a": "canceled"}


def test_a_job_that_ends_with_what_it_depends_on_gives_its_place_back() -> None:
    told = Job(on_cancel="cancel").to("activate").fire("slot_awaited", slots=["g"])
    told.fire("dependency_lost", dependency="g/a", state="canceled")

    assert ("slots" in told.data, "vacancy" in told.owed) == (False, True)


def test_a_suspended_job_learns_of_its_dependencies_and_stays_where_it_is() -> None:
    told = Job(depends_on=["g/a"]).to("activate", "suspend")
    entered = told.record.entered
    told.fire("dependency_lost", dependency="g/a", state="canceled")
    assert (told.state, told.data["lost"]) == ("suspended", {"g/a": "canceled"})
    assert told.record.entered == entered, "what a person saw of it is still so"
    refused(told, "dependency_lost", "known already", dependency="g/a", state="canceled")
    refused(told, "dependencies_met", "one of them is lost", tally={"canceled": 1})

    met = Job(depends_on=["g/a"]).to("activate", "suspend")
    met.fire("dependencies_met", tally={"success": 1})
    refused(met, "dependencies_met", "met already", tally={"success": 1})
    assert met.fire("resume").data["met"]
    assert met.owed == ["registration", "scheduling"]


def test_a_steward_frees_a_job_from_what_is_lost_one_by_one_or_at_once() -> None:
    def starved() -> Job:
        told = Job(depends_on=["g/a", "g/b"], stewards=["ann"]).fire("activate")
        for one in ("g/a", "g/b"):
            told.fire("dependency_lost", dependency=one, state="canceled")
        return told

    one = starved().fire("dependency_waived", by="ann", dependency="g/a")
    assert (one.data["lost"], one.data["waived"]) == ({"g/b": "canceled"}, ["g/a"])
    assert one.asks
    refused(one, "dependency_waived", "only a lost one", by="ann", dependency="g/a")
    refused(one, "dependency_lost", "known already", dependency="g/a", state="canceled")
    refused(one, "dependencies_met", "one of them is lost", tally={"canceled": 2})
    one.fire("dependency_waived", by="ann")
    assert (one.data["lost"], one.data["waived"]) == ({}, ["g/a", "g/b"])
    every = starved().fire("dependency_waived", by="ann")
    assert (every.data["lost"], every.data["waived"]) == ({}, ["g/a", "g/b"])
    assert not every.asks
    assert every.owed[0] == "scheduling"
    every.fire("dependencies_met", tally={"canceled": 2})

    assert every.data["met"]


def test_nobody_is_freed_from_what_is_not_lost_and_by_no_stranger() -> None:
    waiting = Job(depends_on=["g/a"], stewards=["ann"]).fire("activate")
    refused(waiting, "dependency_waived", "only a steward waives", by="ann")
    waiting.fire("dependency_lost", dependency="g/a", state="canceled")

    refused(waiting, "dependency_waived", "only a steward waives", by="bob")
    refused(waiting, "dependency_waived", "only a lost one", by="ann", dependency="g/b")


# --- pending: by hand, places ----------------------------------------------------------------


def test_a_job_that_is_stepped_by_hand_waits_for_a_word_at_each_command() -> None:
    assert not Job(manual=True).fire("activate").asks, "it waits for what it depends on"
    told = Job.at("pending", manual=True)
    assert (told.asks, "resolution" in told.owed) == (True, True)
    refused(told, "scheduled", "waits for a person", slots=[])
    told.fire("run", to="next")
    assert (told.asks, "scheduling" in told.owed) == (False, True)
    told.fire("scheduled").fire("agent_completed")

    assert (told.state, told.asks) == ("review_required", True)
    assert "scheduling" not in told.owed


def test_a_run_to_the_gate_goes_on_until_a_person_decides() -> None:
    told = Job.at("pending", manual=True).fire("run").fire("scheduled").fire("agent_completed")
    assert (told.state, told.asks) == ("review_required", False)
    assert "scheduling" in told.owed
    told.fire("step").fire("review_completed", **FAILED).fire("resubmit")

    assert (told.state, told.asks) == ("pending", True)


def test_a_step_of_a_review_is_one_word_too() -> None:
    told = Job.at("pending", manual=True).fire("run", to="next").fire("scheduled")
    told.fire("agent_completed").fire("run", to="next")
    assert (told.asks, "scheduling" in told.owed) == (False, True)
    told.fire("step")

    assert (told.state, told.data["going"]) == ("reviewing", "")


def test_why_a_job_does_not_start_yet_is_told_without_moving_it() -> None:
    told = Job.at("pending")
    entered = told.record.entered
    told.fire("slot_awaited", slots=["g"])

    assert (told.data["slots"], told.record.entered) == (["g"], entered)
    assert told.timers == {}


def test_a_place_is_given_back_exactly_when_it_is_left() -> None:
    kept = Job.at("pending").fire("slot_awaited", slots=["g"]).fire("scheduled", slots=["g"])
    assert "vacancy" not in kept.owed
    assert "vacancy" not in kept.fire("pause").owed
    assert "vacancy" not in kept.fire("unpause").owed
    assert "vacancy" in kept.fire("agent_completed").owed
    assert "slots" not in kept.data
    assert "vacancy" not in kept.fire("step").owed

    for trigger in ("suspend", "cancel", "restep", "force_success", "limit_reached"):
        waiting = Job.at("pending").fire("slot_awaited", slots=["g"])
        payload = {key: value[0] for key, value in SAMPLES["job"][1].items()}.get(trigger, {})
        assert "vacancy" in waiting.fire(trigger, **payload).owed, trigger
    assert "vacancy" not in Job.at("pending").fire("suspend").owed, "it had none"


# --- running ---------------------------------------------------------------------------------


def test_a_start_counts_one_run_and_forgets_what_the_last_one_left() -> None:
    told = Job.at("pending").having(failure={"code": "x"}, backoff_ms=0, slots=["g"])
    told.fire("scheduled", slots=["g", "h"], time_left_ms=5_000)

    assert told.data["runs"] == 1
    assert told.data["slots"] == ["g", "h"]
    assert not {"failure", "backoff_ms"} & set(told.data)
    assert told.timers == {"stall": 1_800_000, "limit": 1_805_000}, "to wait is no work"
    assert [str(one.kind) for one in told.last.owes if one.once] == ["state"]


def test_phases_follow_each_other_in_one_run() -> None:
    told = Job.at("running")
    assert phase_of(told.data) == "build"
    entered = told.record.entered
    told.having(recoveries=2, retries=3)
    told.fire("phase_completed", summary="built", evidence=[EVIDENCE])

    assert phase_of(told.data) == "test"
    assert told.record.entered == entered, "its worker goes on"
    assert (told.data["recoveries"], told.data["retries"]) == (0, 0)
    assert told.data["evidence"] == [{**EVIDENCE, "phase": "build"}]
    told.having(recoveries=2, retries=3).fire("agent_completed", summary="tested")
    assert (told.data["recoveries"], told.data["retries"]) == (0, 0)
    assert (told.state, told.data["phase"], told.data["summary"]) == (
        "review_required",
        2,
        "tested",
    )


def test_the_end_of_the_last_phase_is_the_end_of_its_work() -> None:
    told = Job.at("running").fire("phase_completed", summary="built")

    refused(told, "phase_completed", "last phase", summary="tested")
    assert told.fire("agent_completed").state == "review_required"
    refused(Job.at("running", phases=[PHASES[0]]), "phase_completed", "last phase")


def test_of_one_file_the_latest_evidence_counts() -> None:
    told = Job.at("running").fire("phase_completed", evidence=[EVIDENCE, {**EVIDENCE, "path": "b"}])
    told.fire("agent_completed", evidence=[{**EVIDENCE, "sha256": "1" * 64}])

    kept = {(one["path"], one["sha256"][0], one["phase"]) for one in told.data["evidence"]}
    assert kept == {("b", "0", "build"), (EVIDENCE["path"], "1", "test")}


def test_evidence_is_bounded_and_the_latest_is_kept() -> None:
    phases = [{**PHASES[0], "name": f"part-{number}"} for number in range(4)]
    told = Job.at("running", phases=phases)
    for page in range(3):
        many = [{**EVIDENCE, "path": f"{page}/{number}"} for number in range(EVIDENCE_MAX)]
        told.fire("phase_completed", evidence=many)

    kept = [one["path"] for one in told.data["evidence"]]
    assert len(kept) == EVIDENCE_KEPT_MAX
    assert kept[-1] == f"2/{EVIDENCE_MAX - 1}"


LEAVING: dict[str, tuple[dict[str, Any], Data]] = {
    "agent_completed": ({"summary": "half"}, {}),
    "stuck": ({"summary": "half"}, {"going": ""}),
    "retry": ({"summary": "half", "evidence": [EVIDENCE]}, {}),
    "recovered": ({}, {}),
    "limit_reached": ({"limit": "time"}, {"going": ""}),
    "suspend": ({}, {"going": ""}),
    "cancel": ({}, {}),
    "force_success": ({"reason": "so it is"}, {}),
}


@pytest.mark.parametrize("worn", [False, True])
@pytest.mark.parametrize("trigger", LEAVING)
def test_whoever_leaves_its_work_leaves_its_place_and_its_time(trigger: str, *, worn: bool) -> None:
    payload, after = LEAVING[trigger]
    told = Job.at("running", manual=False).having(going="gate", summary="half")
    if worn:
        told.having(recoveries=3, retries=5)
        after = {"retry": {"going": ""}, "recovered": {"going": ""}}.get(trigger, after)
    told.fire(trigger, **payload)

    assert not {"slots", "time_left_ms", "paused_s"} & set(told.data)
    assert told.data["going"] == after.get("going", "gate")
    assert told.data["summary"] == "half"
    if trigger == "retry" and not worn:
        assert told.data["evidence"] == [{**EVIDENCE, "phase": "build"}]


def test_a_worker_that_is_stuck_asks_a_person_and_says_why() -> None:
    told = Job.at("running").fire("stuck", code="no_key", detail="which key?", summary="half")

    assert (told.state, told.asks) == ("intervention_required", True)
    assert told.data["failure"] == {"code": "no_key", "detail": "which key?"}
    assert told.data["summary"] == "half"
    silent = Job.at("running").fire("stuck")
    assert silent.data["failure"] == {"code": "stuck", "detail": "no reason was given"}


def test_a_retry_waits_twice_as_long_each_time() -> None:
    told = Job.at("pending", retries_max=9, retry_delay_s=30)
    waits = []
    for _ in range(9):
        told.fire("scheduled").fire("retry")
        assert (told.state, "scheduling" in told.owed) == ("pending", False)
        assert told.timers["backoff"] == told.data["backoff_ms"]
        refused(told, "scheduled", "before a retry")
        waits.append(told.data["backoff_ms"] // 1_000)
        told.fire("backoff_elapsed")
        assert told.owed == ["scheduling"]

    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3840, 3840]
    told.fire("scheduled").fire("retry", summary="nothing works")
    assert (told.state, told.data["retries"]) == ("intervention_required", 0)
    assert told.data["failure"]["detail"] == "nothing works"


def test_a_retry_waits_at_least_as_long_as_it_was_asked_to() -> None:
    asked = [
        Job.at("running").fire("retry", retry_after_s=after).data["backoff_ms"]
        for after in (0, 10, 86_400)
    ]

    assert asked == [30_000, 30_000, 86_400_000]
    with pytest.raises(InvalidPayloadError):
        Job.at("running").fire("retry", retry_after_s=86_401)


def test_a_person_need_not_wait_for_a_retry() -> None:
    told = Job.at("running").fire("retry").fire("run")

    assert "backoff_ms" not in told.data
    assert told.fire("scheduled").state == "running"


def test_a_reviewer_may_ask_to_be_tried_again_as_often() -> None:
    told = Job.at("reviewing", retries_max=2)
    assert told.data["retries"] == 0, "its worker's tries are not its reviewer's"
    for count in (1, 2):
        told.fire("retry")
        assert (told.state, told.data["retries"]) == ("review_required", count)
        told.fire("backoff_elapsed").fire("step")

    assert told.fire("retry", summary="it is down").state == "intervention_required"
    assert told.data["failure"]["detail"] == "it is down"


def test_a_review_waits_before_its_retry_twice_as_long_each_time_and_as_long_as_asked() -> None:
    told = Job.at("reviewing").having(time_left_ms=9)
    waits = []
    for asked_s in (0, 10, 86_400):
        told.fire("retry", retry_after_s=asked_s)
        assert (told.state, told.asks, told.owed) == ("review_required", False, [])
        assert told.timers["backoff"] == told.data["backoff_ms"]
        assert "time_left_ms" not in told.data
        waits.append(told.data["backoff_ms"])
        told.fire("backoff_elapsed")
        assert (told.owed, "backoff_ms" in told.data) == (["scheduling"], False)
        told.fire("step")

    assert waits == [30_000, 60_000, 86_400_000]
    at_once = told.fire("retry").fire("run")
    assert ("backoff_ms" in at_once.data, "scheduling" in at_once.owed) == (False, True)


def test_what_the_last_try_made_is_kept_and_what_was_lost_made_nothing() -> None:
    said = {"summary": "half", "evidence": [EVIDENCE]}
    worn = Job.at("running").having(retries=5, recoveries=3, unbegun=2)
    tried = Job.at("running").having(**worn.data).fire("retry", **said)
    assert (tried.state, tried.data["summary"]) == ("intervention_required", "half")
    assert tried.data["evidence"] == [{**EVIDENCE, "phase": "build"}]
    reviewed = Job.at("reviewing").having(retries=5)
    before = reviewed.data
    reviewed.fire("retry", **said)
    lost = Job.at("running").having(**worn.data).fire("recovered", code="lost_worker")

    assert (reviewed.state, reviewed.data["failure"]["detail"]) == ("intervention_required", "half")
    assert reviewed.data["evidence"] == before["evidence"]
    assert reviewed.data["summary"] == before["summary"] == "tested"
    assert not {"summary", "evidence"} & set(lost.data)
    for told in (tried, reviewed, lost):
        assert [told.data[name] for name in ("recoveries", "retries", "unbegun")] == [0, 0, 0]


def test_what_nobody_takes_up_is_not_lost_and_in_the_end_a_persons_matter() -> None:
    told = Job.at("running", recoveries_max=0)
    for count in range(1, UNBEGUN_MAX + 1):
        told.fire("recovered", code="unbegun", detail="they are busy")
        assert (told.state, told.data["recoveries"], told.data["unbegun"]) == ("pending", 0, count)
        told.fire("scheduled")
    begun = Job.at("running").having(**told.data).fire("agent_completed")
    told.fire("recovered", code="unbegun", detail="they are busy")

    assert (told.state, told.data["unbegun"]) == ("intervention_required", 0)
    assert told.data["failure"] == {"code": "unbegun", "detail": "they are busy"}
    assert begun.data["unbegun"] == 0
    again = told.fire("resubmit").fire("scheduled").fire("recovered", code="unbegun")
    assert (again.state, again.data["unbegun"]) == ("pending", 1), "a person's word counts afresh"
    reviewing = begun.fire("step").fire("recovered", code="unbegun")
    assert (reviewing.state, reviewing.data["unbegun"]) == ("review_required", 1)


def test_a_run_that_nobody_took_up_is_taken_back_and_a_review_was_none() -> None:
    for state, undoes in (("running", {"runs": -1}), ("reviewing", {})):
        timer = JOB.stage(state).timer("stall")
        assert timer is not None
        fresh = Job.at(state).data
        assert timer.deltas_when(fresh, begun=False) == undoes
        assert timer.deltas_when({**fresh, "phase": len(fresh["phases"])}, begun=False) == {}, (
            "what is done is no run"
        )
        assert timer.payload_when(begun=False)["code"] == "unbegun"
        assert timer.payload_when(begun=True)["code"] == "stalled"
        payload = timer.payload_when(begun=False)
        told = Job.at(state, recoveries_max=0).fire(str(timer.trigger), **payload)
        assert told.state == {"running": "pending", "reviewing": "review_required"}[state]


def test_to_wait_for_a_worker_is_no_time_at_work() -> None:
    given = {"running_s": 60, "reviewing_s": 90}
    told = Job.at("pending", **given).fire("scheduled", time_left_ms=5_000)
    assert told.timers == {"stall": 60_000, "limit": 95_000}
    told.fire("agent_completed").fire("step", time_left_ms=7_000)

    assert told.timers == {"stall": 90_000, "limit": 97_000}
    assert "limit" not in Job.at("pending").fire("scheduled").timers


def test_what_is_lost_again_and_again_is_given_to_a_person() -> None:
    told = Job.at("running", recoveries_max=2)
    for count in (1, 2):
        told.fire("recovered", code="lost_worker", detail="gone")
        assert (told.state, told.data["recoveries"]) == ("pending", count)
        assert "vacancy" in told.owed
        told.fire("scheduled", slots=["g"])
    told.fire("recovered", code="lost_worker", detail="gone")

    assert (told.state, told.asks) == ("intervention_required", True)
    assert told.data["failure"] == {"code": "lost_worker", "detail": "gone"}
    assert told.data["recoveries"] == 0


def test_a_success_makes_up_for_what_was_lost() -> None:
    told = Job.at("running", recoveries_max=1).fire("recovered").fire("scheduled")
    told.fire("phase_completed").fire("recovered")
    assert (told.state, told.data["recoveries"]) == ("pending", 1)
    told.fire("scheduled").fire("agent_completed").fire("step").fire("recovered")

    assert (told.state, told.data["recoveries"]) == ("review_required", 1)
    told.fire("step").fire("recovered", code="lost_worker", detail="gone")
    assert told.state == "intervention_required"
    assert told.data["failure"] == {"code": "lost_worker", "detail": "gone"}


def test_a_job_is_paused_for_a_while_or_until_somebody_lifts_it() -> None:
    told = Job.at("running").fire("pause", for_s=60)
    assert (told.state, told.asks, told.timers) == ("paused", False, {"until": 60_000})
    told.fire("unpause")
    assert (told.state, "paused_s" in told.data) == ("running", False)
    assert told.data["runs"] == 2, "its worker begins again, with papers of its own"
    told.fire("pause")
    assert (told.asks, list(told.timers), told.data["pauses"]) == (True, ["reminder"], 2)
    assert "resolution" in told.owed

    assert told.fire("cancel").state == "canceled"


@pytest.mark.parametrize("state", ["pending", "review_required", "running", "reviewing"])
def test_a_limit_that_is_reached_asks_a_person(state: str) -> None:
    told = Job.at(state)
    told.fire("limit_reached", limit="cost", used=2.5, allowed=2)

    assert (told.state, told.asks) == ("intervention_required", True)
    assert told.data["failure"] == {
        "code": "limit_reached",
        "detail": "the job's limit of cost is reached: 2.5 of 2 $",
        "limit": "cost",
    }


def test_what_was_used_is_told_to_the_last_digit() -> None:
    told = Job.at("running").fire("limit_reached", limit="cost", used=1234567.25, allowed=1234567)

    assert told.data["failure"]["detail"].endswith("is reached: 1234567.25 of 1234567 $")


def test_what_the_timer_of_a_limit_fires_needs_no_figures() -> None:
    timer = JOB.stage("running").timer("limit")
    assert timer is not None
    told = Job.at("running").fire(str(timer.trigger), **timer.payload)

    assert told.data["failure"]["detail"] == "the job's limit of time is reached"
