"""The guards and updates of a job."""

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
from interlock.kernel.table import UNBOUND
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.machines.job.limits import EVIDENCE_KEPT_MAX, EVIDENCE_MAX, UNBEGUN_MAX
from interlock.systems.jobs.machines.job.table import JOB
from tests.kernel.samples import EVIDENCE, PHASES, SAMPLES
from tests.systems.jobs.machines.jobs import LIVE, PureJob, refused

Data = Mapping[str, Any]
PASSED = {"verdict": "approval_required", "summary": "good"}
FAILED = {"verdict": "intervention_required", "reasons": ["it does not compile", "no test"]}


def test_there_are_thirty_two_published_rows_and_one_state_that_no_row_enters() -> None:
    path = Path(__file__).parents[1] / "golden" / "job.json"
    kept = json.loads(path.read_text("utf-8"))

    assert len({tuple(row) for row in kept["published"]}) == 32
    assert [str(stage.state) for stage in JOB.stages if stage.external] == kept["external"]
    assert kept["births"] == [str(JOB.initial_stage(PureJob().data).state)]
    assert len(JOB.stages) == 12


def test_a_new_job_is_a_draft_that_is_activated_by_itself_unless_it_is_held() -> None:
    free, held = PureJob(), PureJob(hold=True)

    assert (free.state, free.asks, free.timers) == ("draft", False, {"kickoff": 60_000})
    assert (held.state, held.asks, held.timers) == ("draft", True, {"reminder": 86_400_000})
    assert free.fire("activate").state == "pending"
    assert (JOB.first_trigger, JOB.placement.id_prefix) == ("activate", ("graph",))


def test_only_a_draft_is_configured() -> None:
    assert PureJob().fire("configure", objective="mend it").data["objective"] == "mend it"
    for state in LIVE:
        if state != "draft":
            with pytest.raises(IllegalTransitionError):
                PureJob.at(state).fire("configure", objective="mend it")


def test_a_configuration_replaces_the_fields_that_it_names() -> None:
    given = {"objective": "mend it", "review": {"command": "look"}, "queue": "slow"}
    case = PureJob(**given).fire("configure", queue="fast", acceptance=["it is green"])

    assert case.data == {**PureJob(**given).data, "queue": "fast", "acceptance": ["it is green"]}
    assert "by" not in case.data
    assert case.fire("configure", no_review=True).data.get("review") is None
    assert "no_review" not in case.data


def test_a_configuration_starts_timers_and_proposal_anew() -> None:
    case = PureJob(hold=True).fire("configure", remind_s=60)

    assert case.timers == {"reminder": 60_000}
    assert case.record.entered == case.record.version


def test_configured_limits_are_merged_and_bound_the_family() -> None:
    case = PureJob(limits={"cost_micro": 5, "iterations": 2})
    case.fire("configure", limits={"cost_micro": 7, "time_s": 9})

    assert case.data["limits"] == {"cost_micro": 7, "time_s": 9, "iterations": 2}
    assert case.last.bounds == {"spent": 7, "runs": 2}
    assert case.to("activate").last.bounds == UNBOUND, "other rows do not change it"


def test_the_place_of_its_files_cannot_be_configured() -> None:
    for name in ("dir", "host"):
        with pytest.raises(InvalidPayloadError, match=f"{name}: Extra inputs"):
            PureJob(dir="/d", host="here").fire("configure", **{name: "elsewhere"})


def test_a_job_starts_when_all_its_dependencies_succeeded() -> None:
    case = PureJob(depends_on=["g/a", "g/b"]).fire("activate")
    owed = {one.effect.name: one.countdown for one in case.last.owes}
    assert owed == {"subscription": "dependencies", "manifest": ""}
    refused(case, "scheduled", "dependency is missing", slots=["g"])
    case.fire("dependencies_met", tally={"success": 2})

    assert (case.data["met"], case.owed) == (True, ["scheduling"])
    refused(case, "dependencies_met", "met already", tally={"success": 2})
    assert case.fire("scheduled", slots=["g"]).state == "running"


def test_a_countdown_with_a_lost_dependency_does_not_start_a_job() -> None:
    case = PureJob(depends_on=["g/a"]).fire("activate")

    refused(case, "dependencies_met", "one of them is lost", tally={"success": 1, "canceled": 1})


def test_a_lost_dependency_starves_a_job_and_a_person_is_asked() -> None:
    case = PureJob(depends_on=["g/a"]).fire("activate")
    case.fire("dependency_lost", dependency="g/a", state="canceled")

    assert (case.state, case.asks, case.data["lost"]) == ("pending", True, {"g/a": "canceled"})
    assert "resolution" in case.owed
    assert list(case.timers) == ["reminder"]
    refused(case, "dependency_lost", "known already", dependency="g/a", state="failed")
    refused(case, "dependencies_met", "one of them is lost", tally={"canceled": 1})


def test_a_loss_that_is_counted_twice_counts_once() -> None:
    case = PureJob(depends_on=["g/a", "g/b"]).fire("activate")
    case.fire("dependency_lost", dependency="g/a", state="canceled")
    case.fire("dependency_waived", dependency="g/a")

    assert case.fire("dependencies_met", tally={"canceled": 2, "success": 1}).data["met"]


def test_a_lost_dependency_cancels_a_job_that_asked_for_it() -> None:
    for state in ("pending", "suspended"):
        case = PureJob(on_cancel="cancel").fire("activate")
        if state == "suspended":
            case.fire("suspend")
        case.fire("dependency_lost", dependency="g/a", state="canceled")

        assert (case.state, case.owed) == ("canceled", [])
        assert case.data["end"] == {"by": "notification", "reason": "g/a is canceled"}
        assert case.data["lost"] == {"g/a": "canceled"}


def test_a_job_that_a_loss_cancels_releases_its_slots() -> None:
    case = PureJob(on_cancel="cancel").to("activate").fire("slot_awaited", slots=["g"])
    case.fire("dependency_lost", dependency="g/a", state="canceled")

    assert ("slots" in case.data, "slot_release" in case.owed) == (False, True)


def test_a_suspended_job_notes_its_dependencies_and_stays_suspended() -> None:
    case = PureJob(depends_on=["g/a"]).to("activate", "suspend")
    entered = case.record.entered
    case.fire("dependency_lost", dependency="g/a", state="canceled")
    assert (case.state, case.data["lost"]) == ("suspended", {"g/a": "canceled"})
    assert case.record.entered == entered, "a proposal that a person saw is still valid"
    refused(case, "dependency_lost", "known already", dependency="g/a", state="canceled")
    refused(case, "dependencies_met", "one of them is lost", tally={"canceled": 1})

    met = PureJob(depends_on=["g/a"]).to("activate", "suspend")
    met.fire("dependencies_met", tally={"success": 1})
    refused(met, "dependencies_met", "met already", tally={"success": 1})
    assert met.fire("resume").data["met"]
    assert met.owed == ["subscription", "scheduling"]


def test_a_steward_waives_lost_dependencies_one_by_one_or_at_once() -> None:
    def starved() -> PureJob:
        case = PureJob(depends_on=["g/a", "g/b"], stewards=["ann"]).fire("activate")
        for one in ("g/a", "g/b"):
            case.fire("dependency_lost", dependency=one, state="canceled")
        return case

    one = starved().fire("dependency_waived", by="ann", dependency="g/a")
    assert (one.data["lost"], one.data["waived"]) == ({"g/b": "canceled"}, ["g/a"])
    assert one.asks
    refused(one, "dependency_waived", "g/a is not among", by="ann", dependency="g/a")
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


def test_only_a_steward_waives_and_only_a_lost_dependency() -> None:
    waiting = PureJob(depends_on=["g/a"], stewards=["ann"]).fire("activate")
    refused(waiting, "dependency_waived", "has lost no dependency", by="ann")
    waiting.fire("dependency_lost", dependency="g/a", state="canceled")

    refused(waiting, "dependency_waived", "only ann may decide: add --as ann", by="bob")
    refused(waiting, "dependency_waived", "g/b is not among", by="ann", dependency="g/b")


def test_a_manual_job_waits_for_a_person_before_each_step() -> None:
    assert not PureJob(manual=True).fire("activate").asks, "it waits for its dependencies"
    case = PureJob.at("pending", manual=True)
    assert (case.asks, "resolution" in case.owed) == (True, True)
    refused(case, "scheduled", "waits for a person", slots=[])
    case.fire("run", to="next")
    assert (case.asks, "scheduling" in case.owed) == (False, True)
    case.fire("scheduled").fire("agent_completed")

    assert (case.state, case.asks) == ("review_required", True)
    assert "scheduling" not in case.owed


def test_a_run_to_the_gate_goes_on_until_a_person_decides() -> None:
    case = PureJob.at("pending", manual=True).fire("run").fire("scheduled").fire("agent_completed")
    assert (case.state, case.asks) == ("review_required", False)
    assert "scheduling" in case.owed
    case.fire("step").fire("review_completed", **FAILED).fire("resubmit")

    assert (case.state, case.asks) == ("pending", True)


def test_a_review_is_one_step_of_a_manual_job() -> None:
    case = PureJob.at("pending", manual=True).fire("run", to="next").fire("scheduled")
    case.fire("agent_completed").fire("run", to="next")
    assert (case.asks, "scheduling" in case.owed) == (False, True)
    case.fire("step")

    assert (case.state, case.data["going"]) == ("reviewing", "")


def test_a_job_that_awaits_a_slot_stays_in_its_state() -> None:
    case = PureJob.at("pending")
    entered = case.record.entered
    case.fire("slot_awaited", slots=["g"])

    assert (case.data["slots"], case.record.entered) == (["g"], entered)
    assert case.timers == {}


def test_slots_are_released_when_a_job_leaves_them_and_not_before() -> None:
    kept = PureJob.at("pending").fire("slot_awaited", slots=["g"]).fire("scheduled", slots=["g"])
    assert "slot_release" not in kept.owed
    assert "slot_release" not in kept.fire("pause").owed
    assert "slot_release" not in kept.fire("unpause").owed
    assert "slot_release" in kept.fire("agent_completed").owed
    assert "slots" not in kept.data
    assert "slot_release" not in kept.fire("step").owed

    for trigger in ("suspend", "cancel", "restep", "force_success", "limit_reached"):
        waiting = PureJob.at("pending").fire("slot_awaited", slots=["g"])
        payload = {key: value[0] for key, value in SAMPLES["job"][1].items()}.get(trigger, {})
        assert "slot_release" in waiting.fire(trigger, **payload).owed, trigger
    assert "slot_release" not in PureJob.at("pending").fire("suspend").owed, "it had no slot"


def test_a_start_counts_one_run_and_forgets_the_failure_before() -> None:
    case = PureJob.at("pending").having(failure={"code": "x"}, backoff_ms=0, slots=["g"])
    case.fire("scheduled", slots=["g", "h"], time_left_ms=5_000)

    assert case.data["runs"] == 1
    assert case.data["slots"] == ["g", "h"]
    assert not {"failure", "backoff_ms"} & set(case.data)
    assert case.timers == {"stall": 1_800_000, "limit": 1_805_000}, (
        "the wait for a worker does not count"
    )
    assert [str(one.kind) for one in case.last.owes if one.once] == ["state"]


def test_phases_follow_each_other_in_one_run() -> None:
    case = PureJob.at("running")
    assert phase_of(case.data) == "build"
    entered = case.record.entered
    case.having(recoveries=2, retries=3)
    case.fire("phase_completed", summary="built", evidence=[EVIDENCE])

    assert phase_of(case.data) == "test"
    assert case.record.entered == entered, "the worker goes on"
    assert (case.data["recoveries"], case.data["retries"]) == (0, 0)
    assert case.data["evidence"] == [{**EVIDENCE, "phase": "build"}]
    case.having(recoveries=2, retries=3).fire("agent_completed", summary="tested")
    assert (case.data["recoveries"], case.data["retries"]) == (0, 0)
    assert (case.state, case.data["phase"], case.data["summary"]) == (
        "review_required",
        2,
        "tested",
    )


def test_the_last_phase_ends_with_the_work() -> None:
    case = PureJob.at("running").fire("phase_completed", summary="built")

    refused(case, "phase_completed", "last phase", summary="tested")
    assert case.fire("agent_completed").state == "review_required"
    refused(PureJob.at("running", phases=[PHASES[0]]), "phase_completed", "last phase")


def test_evidence_of_a_file_replaces_older_evidence() -> None:
    case = PureJob.at("running").fire(
        "phase_completed", evidence=[EVIDENCE, {**EVIDENCE, "path": "b"}]
    )
    case.fire("agent_completed", evidence=[{**EVIDENCE, "sha256": "1" * 64}])

    kept = {(one["path"], one["sha256"][0], one["phase"]) for one in case.data["evidence"]}
    assert kept == {("b", "0", "build"), (EVIDENCE["path"], "1", "test")}


def test_evidence_is_bounded_and_the_latest_is_kept() -> None:
    phases = [{**PHASES[0], "name": f"part-{number}"} for number in range(4)]
    case = PureJob.at("running", phases=phases)
    for page in range(3):
        many = [{**EVIDENCE, "path": f"{page}/{number}"} for number in range(EVIDENCE_MAX)]
        case.fire("phase_completed", evidence=many)

    kept = [one["path"] for one in case.data["evidence"]]
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
def test_a_job_that_stops_working_gives_up_slots_and_time(trigger: str, *, worn: bool) -> None:
    payload, after = LEAVING[trigger]
    case = PureJob.at("running", manual=False).having(going="gate", summary="half")
    if worn:
        case.having(recoveries=3, retries=5)
        after = {"retry": {"going": ""}, "recovered": {"going": ""}}.get(trigger, after)
    case.fire(trigger, **payload)

    assert not {"slots", "time_left_ms", "paused_s"} & set(case.data)
    assert case.data["going"] == after.get("going", "gate")
    assert case.data["summary"] == "half"
    if trigger == "retry" and not worn:
        assert case.data["evidence"] == [{**EVIDENCE, "phase": "build"}]


def test_a_worker_that_is_stuck_asks_a_person_and_says_why() -> None:
    case = PureJob.at("running").fire("stuck", code="no_key", detail="which key?", summary="half")

    assert (case.state, case.asks) == ("intervention_required", True)
    assert case.data["failure"] == {"code": "no_key", "detail": "which key?"}
    assert case.data["summary"] == "half"
    silent = PureJob.at("running").fire("stuck")
    assert silent.data["failure"] == {"code": "stuck", "detail": "no reason was given"}


def test_a_retry_waits_twice_as_long_each_time() -> None:
    case = PureJob.at("pending", retries_max=9, retry_delay_s=30)
    waits = []
    for _ in range(9):
        case.fire("scheduled").fire("retry")
        assert (case.state, "scheduling" in case.owed) == ("pending", False)
        assert case.timers["backoff"] == case.data["backoff_ms"]
        refused(case, "scheduled", "before a retry")
        waits.append(case.data["backoff_ms"] // 1_000)
        case.fire("backoff_elapsed")
        assert case.owed == ["scheduling"]

    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3840, 3840]
    case.fire("scheduled").fire("retry", summary="nothing works")
    assert (case.state, case.data["retries"]) == ("intervention_required", 0)
    assert case.data["failure"]["detail"] == "nothing works"


def test_a_retry_waits_at_least_as_long_as_the_worker_asks() -> None:
    asked = [
        PureJob.at("running").fire("retry", retry_after_s=after).data["backoff_ms"]
        for after in (0, 10, 86_400)
    ]

    assert asked == [30_000, 30_000, 86_400_000]
    with pytest.raises(InvalidPayloadError):
        PureJob.at("running").fire("retry", retry_after_s=86_401)


def test_a_person_need_not_wait_for_a_retry() -> None:
    case = PureJob.at("running").fire("retry").fire("run")

    assert "backoff_ms" not in case.data
    assert case.fire("scheduled").state == "running"


def test_a_reviewer_may_ask_for_as_many_retries_as_a_worker() -> None:
    case = PureJob.at("reviewing", retries_max=2)
    assert case.data["retries"] == 0, "retries of the worker do not count for the reviewer"
    for count in (1, 2):
        case.fire("retry")
        assert (case.state, case.data["retries"]) == ("review_required", count)
        case.fire("backoff_elapsed").fire("step")

    assert case.fire("retry", summary="it is down").state == "intervention_required"
    assert case.data["failure"]["detail"] == "it is down"


def test_the_wait_before_a_review_doubles_and_is_at_least_as_long_as_asked() -> None:
    case = PureJob.at("reviewing").having(time_left_ms=9)
    waits = []
    for asked_s in (0, 10, 86_400):
        case.fire("retry", retry_after_s=asked_s)
        assert (case.state, case.asks, case.owed) == ("review_required", False, [])
        assert case.timers["backoff"] == case.data["backoff_ms"]
        assert "time_left_ms" not in case.data
        waits.append(case.data["backoff_ms"])
        case.fire("backoff_elapsed")
        assert (case.owed, "backoff_ms" in case.data) == (["scheduling"], False)
        case.fire("step")

    assert waits == [30_000, 60_000, 86_400_000]
    at_once = case.fire("retry").fire("run")
    assert ("backoff_ms" in at_once.data, "scheduling" in at_once.owed) == (False, True)


def test_the_work_of_the_last_try_is_kept_and_a_lost_try_has_none() -> None:
    report = {"summary": "half", "evidence": [EVIDENCE]}
    worn = PureJob.at("running").having(retries=5, recoveries=3, unbegun=2)
    tried = PureJob.at("running").having(**worn.data).fire("retry", **report)
    assert (tried.state, tried.data["summary"]) == ("intervention_required", "half")
    assert tried.data["evidence"] == [{**EVIDENCE, "phase": "build"}]
    reviewed = PureJob.at("reviewing").having(retries=5)
    before = reviewed.data
    reviewed.fire("retry", **report)
    lost = PureJob.at("running").having(**worn.data).fire("recovered", code="lost_worker")

    assert (reviewed.state, reviewed.data["failure"]["detail"]) == ("intervention_required", "half")
    assert reviewed.data["evidence"] == before["evidence"]
    assert reviewed.data["summary"] == before["summary"] == "tested"
    assert not {"summary", "evidence"} & set(lost.data)
    for case in (tried, reviewed, lost):
        assert [case.data[name] for name in ("recoveries", "retries", "unbegun")] == [0, 0, 0]


def test_work_that_no_worker_begins_is_not_lost_and_at_last_a_person_is_asked() -> None:
    case = PureJob.at("running", recoveries_max=0)
    for count in range(1, UNBEGUN_MAX + 1):
        case.fire("recovered", code="unbegun", detail="they are busy")
        assert (case.state, case.data["recoveries"], case.data["unbegun"]) == ("pending", 0, count)
        case.fire("scheduled")
    begun = PureJob.at("running").having(**case.data).fire("agent_completed")
    case.fire("recovered", code="unbegun", detail="they are busy")

    assert (case.state, case.data["unbegun"]) == ("intervention_required", 0)
    assert case.data["failure"] == {"code": "unbegun", "detail": "they are busy"}
    assert begun.data["unbegun"] == 0
    again = case.fire("resubmit").fire("scheduled").fire("recovered", code="unbegun")
    assert (again.state, again.data["unbegun"]) == ("pending", 1), "a resubmission counts anew"
    reviewing = begun.fire("step").fire("recovered", code="unbegun")
    assert (reviewing.state, reviewing.data["unbegun"]) == ("review_required", 1)


def test_a_run_that_never_began_is_uncounted_and_a_review_counts_none() -> None:
    for state, undoes in (("running", {"runs": -1}), ("reviewing", {})):
        timer = JOB.stage(state).timer("stall")
        assert timer is not None
        fresh = PureJob.at(state).data
        assert timer.deltas_when(fresh, begun=False) == undoes
        done = {**fresh, "phase": len(fresh["phases"])}
        assert timer.deltas_when(done, begun=False) == {}, "a job that is done counted no run"
        assert timer.payload_when(begun=False)["code"] == "unbegun"
        assert timer.payload_when(begun=True)["code"] == "stalled"
        payload = timer.payload_when(begun=False)
        case = PureJob.at(state, recoveries_max=0).fire(str(timer.trigger), **payload)
        assert case.state == {"running": "pending", "reviewing": "review_required"}[state]


def test_the_wait_for_a_worker_is_not_counted_as_work() -> None:
    given = {"running_s": 60, "reviewing_s": 90}
    case = PureJob.at("pending", **given).fire("scheduled", time_left_ms=5_000)
    assert case.timers == {"stall": 60_000, "limit": 95_000}
    case.fire("agent_completed").fire("step", time_left_ms=7_000)

    assert case.timers == {"stall": 90_000, "limit": 97_000}
    assert "limit" not in PureJob.at("pending").fire("scheduled").timers


def test_a_job_that_is_lost_again_and_again_asks_a_person() -> None:
    case = PureJob.at("running", recoveries_max=2)
    for count in (1, 2):
        case.fire("recovered", code="lost_worker", detail="gone")
        assert (case.state, case.data["recoveries"]) == ("pending", count)
        assert "slot_release" in case.owed
        case.fire("scheduled", slots=["g"])
    case.fire("recovered", code="lost_worker", detail="gone")

    assert (case.state, case.asks) == ("intervention_required", True)
    assert case.data["failure"] == {"code": "lost_worker", "detail": "gone"}
    assert case.data["recoveries"] == 0


def test_a_success_resets_the_count_of_recoveries() -> None:
    case = PureJob.at("running", recoveries_max=1).fire("recovered").fire("scheduled")
    case.fire("phase_completed").fire("recovered")
    assert (case.state, case.data["recoveries"]) == ("pending", 1)
    case.fire("scheduled").fire("agent_completed").fire("step").fire("recovered")

    assert (case.state, case.data["recoveries"]) == ("review_required", 1)
    case.fire("step").fire("recovered", code="lost_worker", detail="gone")
    assert case.state == "intervention_required"
    assert case.data["failure"] == {"code": "lost_worker", "detail": "gone"}


def test_a_job_is_paused_for_a_while_or_until_a_person_ends_it() -> None:
    case = PureJob.at("running").fire("pause", for_s=60)
    assert (case.state, case.asks, case.timers) == ("paused", False, {"until": 60_000})
    case.fire("unpause")
    assert (case.state, "paused_s" in case.data) == ("running", False)
    assert case.data["runs"] == 2, "the worker begins again, in a new work folder"
    case.fire("pause")
    assert (case.asks, list(case.timers), case.data["pauses"]) == (True, ["reminder"], 2)
    assert "resolution" in case.owed

    assert case.fire("cancel").state == "canceled"


def test_a_job_that_the_scheduler_suspends_asks_nobody_and_goes_on_by_itself() -> None:
    case = PureJob.at("pending", manual=True).fire("run", to="gate")
    case.fire("slot_awaited", slots=["g"]).fire("suspend", by="scheduling", for_s=60)
    assert (case.state, case.asks, case.timers) == ("suspended", False, {"until": 60_000})
    assert case.owed[0] == "slot_release"

    case.fire("resume")

    assert (case.state, case.data["going"], "suspended_s" in case.data) == (
        "pending",
        "gate",
        False,
    )
    assert "scheduling" in case.owed
    by_person = case.fire("suspend")
    assert (by_person.asks, list(by_person.timers)) == (True, ["reminder"])


@pytest.mark.parametrize("state", ["pending", "review_required", "running", "reviewing"])
def test_a_limit_that_is_reached_asks_a_person(state: str) -> None:
    case = PureJob.at(state)
    case.fire("limit_reached", limit="cost", used=2.5, allowed=2)

    assert (case.state, case.asks) == ("intervention_required", True)
    assert case.data["failure"] == {
        "code": "limit_reached",
        "detail": "the job's limit of cost is reached: 2.5 of 2 $",
        "limit": "cost",
    }


def test_the_usage_is_shown_to_the_last_digit() -> None:
    case = PureJob.at("running").fire(
        "limit_reached", limit="cost", used=1234567.25, allowed=1234567
    )

    assert case.data["failure"]["detail"].endswith("is reached: 1234567.25 of 1234567 $")


def test_the_timer_of_the_time_limit_fires_without_figures() -> None:
    timer = JOB.stage("running").timer("limit")
    assert timer is not None
    case = PureJob.at("running").fire(str(timer.trigger), **timer.payload)

    assert case.data["failure"]["detail"] == "the job's limit of time is reached"
