"""The guards and updates of a job's rows. Pure functions of data, payload and facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import NOTIFICATION, Ask, validated
from interlock.system.tables import RecordData as Data
from interlock.systems.jobs.machines.effects import APPROVAL
from interlock.systems.jobs.machines.job import limits
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.machines.job.payloads import NewJob, ReviewVerdict, RunUntil
from interlock.systems.jobs.machines.stewards import steward

UNBEGUN = "unbegun"  # the code of a wait for a worker that was too long; it is no failed try
NO_TRIES = {"recoveries": 0, "retries": 0, "unbegun": 0}


def initial_data(payload: Data) -> Data:
    """Check what a producer hands in and return the first data of the job."""
    data = validated(NewJob, "the job", payload)
    counts = {"phase": 0, "runs": 0, **NO_TRIES}
    return {**data, **counts, "met": False, "lost": {}, "waived": [], "guidance": []}


def bounds(data: JobData) -> Mapping[str, int | None]:
    """Return what the job may use."""
    caps = data["limits"]
    return {"spent": caps.get("cost_micro"), "runs": caps.get("iterations")}


def host(data: JobData) -> str:
    """Return the computer that the job's files are on, or ''."""
    return str(data.get("host") or "")


def held(data: JobData) -> bool:
    """Whether a draft stays one until a person activates it."""
    return bool(data["hold"])


def ends_by_itself(ask: Ask[JobData]) -> bool:
    """Whether the suspension of the job ends at a set time."""
    return bool(ask.data.get("suspended_s"))


def starved(data: JobData) -> bool:
    """Whether the job waits for a dependency that can never succeed."""
    return bool(data["lost"])


def waits_by_hand(data: JobData) -> bool:
    """Whether the job is manual and waits for a person to let it go on."""
    return bool(data["manual"]) and not data.get("going")


def asks_pending(data: JobData) -> bool:
    """Whether a pending job needs a person: it is starved, or must be started by hand."""
    return starved(data) or bool(data["met"] and waits_by_hand(data))


def startable(data: JobData) -> bool:
    """Whether the job only needs a free slot; a retry waits for its time before."""
    return bool(data["met"]) and not asks_pending(data) and not data.get("backoff_ms")


def reviewable(data: JobData) -> bool:
    """Whether only a limit can keep the job from its review; a retry waits for its time."""
    return not waits_by_hand(data) and not data.get("backoff_ms")


def has_slot(data: JobData) -> bool:
    """Whether the job uses slots, or waits in a queue for them."""
    return bool(data.get("slots"))


def finished(data: JobData) -> bool:
    """Whether every phase of the work is done."""
    return bool(data["phase"] >= len(data["phases"]))


def phase_of(data: JobData) -> str:
    """Return the name of the phase that the job is in; of the last one when all are done."""
    index = min(int(data["phase"]), len(data["phases"]) - 1)
    return str(data["phases"][index]["name"])


def depends(ask: Ask[JobData]) -> bool:
    """Whether the job depends on others."""
    return bool(ask.data["depends_on"])


def all_met(ask: Ask[JobData]) -> bool:
    """Whether all dependencies but the waived ones succeeded, for the first time.

    A loss is fired with the name of its dependency before the tally has it. A repeated subscription
    puts it into the tally again, also where it was waived.
    """
    lost = any(state != State.SUCCESS for state in ask.payload["tally"])
    return not ask.data["met"] and not starved(ask.data) and bool(not lost or ask.data["waived"])


def newly_lost(ask: Ask[JobData]) -> bool:
    """Whether it is news that this dependency is lost."""
    dependency = ask.payload["dependency"]
    return dependency not in ask.data["lost"] and dependency not in ask.data["waived"]


def canceled_by_loss(ask: Ask[JobData]) -> bool:
    """Whether a lost dependency cancels the job."""
    return newly_lost(ask) and bool(ask.data["on_cancel"] == "cancel")


def may_be_waived(ask: Ask[JobData]) -> bool:
    """Whether a steward waives a dependency that is lost."""
    dependency = ask.payload.get("dependency")
    named = dependency is None or dependency in ask.data["lost"]
    return steward(ask) and starved(ask.data) and named


def may_start(ask: Ask[JobData]) -> bool:
    """Whether the job may run now."""
    return startable(ask.data)


def may_recover(ask: Ask[JobData]) -> bool:
    """Whether the job may be started again once more."""
    if ask.payload.get("code") == UNBEGUN:
        return bool(ask.data["unbegun"] < limits.UNBEGUN_MAX)
    return bool(ask.data["recoveries"] < ask.data["recoveries_max"])


def may_retry(ask: Ask[JobData]) -> bool:
    """Whether the job may be tried once more."""
    return bool(ask.data["retries"] < ask.data["retries_max"])


def more_phases(ask: Ask[JobData]) -> bool:
    """Whether another phase follows the one that the job is in."""
    return bool(ask.data["phase"] + 1 < len(ask.data["phases"]))


def approved(ask: Ask[JobData]) -> bool:
    """Whether the reviewer passes the work on for approval."""
    return bool(ask.payload["verdict"] == ReviewVerdict.APPROVAL_REQUIRED)


def signed_off(ask: Ask[JobData]) -> bool:
    """Whether a steward approves, or the approval effect does where no person is needed."""
    automatic = ask.data["auto_approve"] and ask.payload["by"] == APPROVAL.name
    return bool(automatic) or steward(ask)


def knows_phase(ask: Ask[JobData]) -> bool:
    """Whether a steward decides, and names no phase or one that the job has come to."""
    named = ask.payload.get("phase")
    return steward(ask) and (named is None or named in phases_reached(ask.data)["phase"])


def phases_reached(data: JobData) -> dict[str, list[str]]:
    """Return the phases that the job has come to, as the values of the field `phase`."""
    return {"phase": [phase["name"] for phase in data["phases"][: data["phase"] + 1]]}


def lost_dependencies(data: JobData) -> dict[str, list[str]]:
    """Return the dependencies that are lost, as the values of the field `dependency`."""
    return {"dependency": sorted(data["lost"])}


def configured(ask: Ask[JobData]) -> Data:
    """Take over the changes."""
    changes = {
        name: value for name, value in ask.payload.items() if name not in ("by", "no_review")
    }
    if ask.payload["no_review"]:
        changes["review"] = None
    if "limits" in changes:
        changes["limits"] = {**ask.data["limits"], **changes["limits"]}
    return {name: value for name, value in {**ask.data, **changes}.items() if value is not None}


def met(ask: Ask[JobData]) -> Data:
    """Note that all dependencies are met."""
    return {**ask.data, "met": True}


def lost(ask: Ask[JobData]) -> Data:
    """Note the dependency that will never be a success."""
    loss = {ask.payload["dependency"]: ask.payload["state"]}
    return {**ask.data, "lost": {**ask.data["lost"], **loss}}


def waived(ask: Ask[JobData]) -> Data:
    """Waive one lost dependency, or all of them."""
    dependency = ask.payload.get("dependency")
    freed = [dependency] if dependency else sorted(ask.data["lost"])
    left = {name: state for name, state in ask.data["lost"].items() if name not in freed}
    return {**ask.data, "lost": left, "waived": [*ask.data["waived"], *freed]}


def slot_awaited(ask: Ask[JobData]) -> Data:
    """Note the slots that the job waits for."""
    return {**ask.data, "slots": ask.payload["slots"]}


def run_until(ask: Ask[JobData]) -> Data:
    """Let the job go on by itself, for one step or until a person must decide."""
    return {**without(ask.data, "backoff_ms"), "going": ask.payload["to"]}


def started(ask: Ask[JobData]) -> Data:
    """Begin and count a run, with these slots and this time."""
    kept = without(ask.data, "slots", "time_left_ms", "backoff_ms", "failure")
    more = {name: value for name, value in ask.payload.items() if value}
    return {**kept, **more, **_after_step(ask), "runs": ask.data["runs"] + 1}


def reviewing(ask: Ask[JobData]) -> Data:
    """Begin a review."""
    kept = without(ask.data, "time_left_ms", "backoff_ms")
    left = {name: value for name, value in ask.payload.items() if name == "time_left_ms"}
    return {**kept, **left, **_after_step(ask)}


def phase_completed(ask: Ask[JobData]) -> Data:
    """Go on to the next phase."""
    return {**_with_report(ask), "phase": ask.data["phase"] + 1, **NO_TRIES}


def completed(ask: Ask[JobData]) -> Data:
    """Keep what the worker made; the job's slots are free again."""
    done = {"phase": len(ask.data["phases"]), **NO_TRIES}
    return {**stopped(_with_report(ask)), **done}


def stuck(ask: Ask[JobData]) -> Data:
    """Keep why the worker cannot go on, for the card."""
    return {**stopped(_with_report(ask)), "going": "", "failure": failure_of(ask)}


def retried(ask: Ask[JobData]) -> Data:
    """Wait before the next try: longer each time, at least as long as the worker asks."""
    return {**stopped(_with_report(ask)), **_later(ask)}


def review_retried(ask: Ask[JobData]) -> Data:
    """Wait before the next review: longer each time, at least as long as the reviewer asks."""
    return {**without(ask.data, "time_left_ms"), **_later(ask)}


def paused(ask: Ask[JobData]) -> Data:
    """Note how long the pause lasts."""
    for_s = ask.payload.get("for_s")
    kept = {**without(ask.data, "paused_s"), "pauses": ask.data.get("pauses", 0) + 1}
    return {**kept, "paused_s": for_s} if for_s else kept


def unpaused(ask: Ask[JobData]) -> Data:
    """Go on: the worker begins again, in a new work folder; the limit of runs does not count it."""
    return {**without(ask.data, "paused_s"), "runs": ask.data["runs"] + 1}


def recovered(ask: Ask[JobData]) -> Data:
    """Count a lost worker or reviewer, or a wait for one that was too long."""
    data = stopped(ask.data)
    if ask.payload.get("code") != UNBEGUN:
        return {**data, "recoveries": data["recoveries"] + 1}
    return {**data, "unbegun": data["unbegun"] + 1}


def given_up(ask: Ask[JobData]) -> Data:
    """Keep why a person is asked: the job was lost, or tried, too often."""
    return _given_up(ask, ask.data)


def retries_exhausted(ask: Ask[JobData]) -> Data:
    """Keep why a person is asked, and what the last try made."""
    return _given_up(ask, _with_report(ask))


def limited(ask: Ask[JobData]) -> Data:
    """Keep which limit was reached."""
    reached = ask.payload
    unit = {"cost": "$", "time": "s", "iterations": "runs"}[reached["limit"]]
    usage = f"{reached['used']:.12g} of {reached['allowed']:.12g} {unit}"
    used = f": {usage}" if reached["allowed"] else ""
    detail = f"the {reached['of']}'s limit of {reached['limit']} is reached{used}"
    failure = {"code": "limit_reached", "detail": detail, "limit": reached["limit"]}
    return {**stopped(ask.data), "going": "", "failure": failure}


def reviewed(ask: Ask[JobData]) -> Data:
    """Keep what the reviewer found; its objections become guidance for the worker."""
    reasons: list[str] = ask.payload.get("reasons") or []
    review = {"reasons": reasons, "evidence": ask.payload.get("evidence") or []}
    review |= {"verdict": ask.payload["verdict"], "summary": ask.payload["summary"]}
    data = {**without(ask.data, "time_left_ms"), "review_result": review, "going": ""}
    data |= NO_TRIES
    if approved(ask):
        return data
    objections = "; ".join(reasons) or ask.payload["summary"] or "the reviewer gave no reason"
    failure = {"code": "review", "detail": objections}
    return {**guided(data, "reviewer", "reviewer", objections), "failure": failure}


def suspended(ask: Ask[JobData]) -> Data:
    """Stop the job until it is resumed, or for some time; it keeps what it has made."""
    for_s = ask.payload.get("for_s")
    kept = without(stopped(ask.data), "suspended_s")
    return {**kept, **({"suspended_s": for_s} if for_s else {"going": ""})}


def resumed(ask: Ask[JobData]) -> Data:
    """Go on where the job was."""
    return without(ask.data, "backoff_ms", "suspended_s")


def ended(ask: Ask[JobData]) -> Data:
    """Keep who ended the job and why."""
    end = {"by": ask.payload["by"], "reason": ask.payload["reason"]}
    return {**stopped(ask.data), "end": {name: value for name, value in end.items() if value}}


def ended_by_loss(ask: Ask[JobData]) -> Data:
    """Keep that the job ended because its dependency is lost."""
    end = {
        "by": NOTIFICATION.name,
        "reason": f"{ask.payload['dependency']} is {ask.payload['state']}",
    }
    return {**stopped(lost(ask)), "end": end}


def failure_of(ask: Ask[JobData]) -> dict[str, Any]:
    """Return why a person is asked, as cards show it."""
    detail = ask.payload.get("detail") or ask.payload.get("summary") or "no reason was given"
    return {"code": ask.payload.get("code") or "stuck", "detail": detail}


def stopped(data: Data) -> Data:
    """Return the data of a job that uses no slots and whose time does not run."""
    return without(data, "slots", "time_left_ms", "paused_s")


def without(data: Data, *names: str) -> dict[str, Any]:
    """Return data without some of its fields."""
    return {name: value for name, value in data.items() if name not in names}


def guided(data: Mapping[str, Any], role: str, by: str, text: str) -> dict[str, Any]:
    """Return data with the guidance of a reviewer or steward for the worker."""
    guidance = {"from": role, "by": by, "text": text}
    return {**data, "guidance": [*data["guidance"], guidance][-limits.GUIDANCE_MAX :]}


def _after_step(ask: Ask[JobData]) -> dict[str, Any]:
    """Return the change after which a job that was to do one step does no more by itself."""
    return {"going": ""} if ask.data.get("going") == RunUntil.NEXT else {}


def _later(ask: Ask[JobData]) -> dict[str, Any]:
    """Count a retry and set its wait: longer each time, at least as long as was asked for."""
    wait_s = ask.data["retry_delay_s"] * 2 ** min(ask.data["retries"], limits.RETRY_DOUBLINGS_MAX)
    asked_s = ask.payload.get("retry_after_s") or 0
    return {"retries": ask.data["retries"] + 1, "backoff_ms": max(wait_s, asked_s) * 1_000}


def _given_up(ask: Ask[JobData], data: Data) -> dict[str, Any]:
    counts = {**NO_TRIES, "going": ""}
    return {**stopped(data), **counts, "failure": failure_of(ask)}


def _with_report(ask: Ask[JobData]) -> dict[str, Any]:
    """Add the summary and the evidence of this phase; evidence of a file replaces older one."""
    phase, summary = phase_of(ask.data), ask.payload.get("summary")
    new = [{**item, "phase": phase} for item in ask.payload.get("evidence") or ()]
    paths = {item["path"] for item in new}
    older = [item for item in ask.data.get("evidence", ()) if item["path"] not in paths]
    data = {**ask.data, "evidence": [*older, *new][-limits.EVIDENCE_KEPT_MAX :]}
    return {**data, "summary": summary} if summary else data
