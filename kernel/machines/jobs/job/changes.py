"""What a job's rows ask and change: guards and updates. Pure functions of an Ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.machines.jobs.effects import APPROVAL
from interlock.kernel.machines.jobs.job.names import ReviewVerdict, RunUntil
from interlock.kernel.machines.jobs.job.payloads import NewJob
from interlock.kernel.payload import validated
from interlock.kernel.table import Ask, Bounds, Data

UNBEGUN = "unbegun"  # nobody took its work up: that it waited for long is no fault of it
UNBEGUN_MAX = 8  # four hours of that by default, then a person is asked
AFRESH = {"recoveries": 0, "retries": 0, "unbegun": 0}
GUIDANCE_MAX = 50
EVIDENCE_KEPT_MAX = 500


def birth(payload: Data) -> Data:
    """Check what a producer hands in and make the first data of it."""
    data = validated(NewJob, "the job", payload)
    counts = {"phase": 0, "runs": 0, **AFRESH}
    return {**data, **counts, "met": False, "lost": {}, "waived": [], "guidance": []}


def bounds(data: Data) -> Bounds:
    """Return what it may use."""
    return Bounds(data["limits"].get("cost_micro"), data["limits"].get("iterations"))


def place(data: Data) -> str:
    """Return the machine that its files are on, or ''."""
    return str(data.get("host") or "")


# --- what stages ask -------------------------------------------------------------------------


def held(data: Data) -> bool:
    """Whether a draft stays one until a person activates it."""
    return bool(data["hold"])


def starved(data: Data) -> bool:
    """Whether it waits for a success that can never come."""
    return bool(data["lost"])


def waits_for_word(data: Data) -> bool:
    """Whether it is stepped by hand and nobody has told it to go on."""
    return bool(data["manual"]) and not data.get("going")


def asks_pending(data: Data) -> bool:
    """Whether a pending job needs a person: it is starved, or to be started by hand."""
    return starved(data) or bool(data["met"] and waits_for_word(data))


def startable(data: Data) -> bool:
    """Whether nothing but a free place is missing; a retry waits for its time."""
    return bool(data["met"]) and not asks_pending(data) and not data.get("backoff_ms")


def reviewable(data: Data) -> bool:
    """Whether nothing but a limit can keep it from its review; a retry waits for its time."""
    return not waits_for_word(data) and not data.get("backoff_ms")


def mirrored(data: Data) -> bool:
    """Whether it keeps a manifest in a directory of its own."""
    return bool(data.get("dir"))


def keeps_slot(data: Data) -> bool:
    """Whether it has, or stands in line for, a place among those that run."""
    return bool(data.get("slots"))


def finished(data: Data) -> bool:
    """Whether every phase of its work is done."""
    return bool(data["phase"] >= len(data["phases"]))


def phase_of(data: Data) -> str:
    """Return the name of the phase that it is in; of the last one when all are done."""
    at = min(int(data["phase"]), len(data["phases"]) - 1)
    return str(data["phases"][at]["name"])


# --- guards ----------------------------------------------------------------------------------


def steward(ask: Ask) -> bool:
    """Whether who decides is one of its stewards, or it names none."""
    return not ask.data["stewards"] or ask.payload.get("by") in ask.data["stewards"]


def all_met(ask: Ask) -> bool:
    """Whether all it depends on ended well but what it was freed from, for the first time.

    Each loss is known by its name before it is in the tally, where a repeated registration counts
    it again.
    """
    badly = any(state != "success" for state in ask.payload["tally"])
    return not ask.data["met"] and not starved(ask.data) and bool(not badly or ask.data["waived"])


def newly_lost(ask: Ask) -> bool:
    """Whether this dependency was not known to be lost."""
    lost = ask.payload["dependency"]
    return lost not in ask.data["lost"] and lost not in ask.data["waived"]


def dies_with_it(ask: Ask) -> bool:
    """Whether a lost dependency cancels it."""
    return newly_lost(ask) and bool(ask.data["on_cancel"] == "cancel")


def may_be_waived(ask: Ask) -> bool:
    """Whether a steward frees it from something that is lost."""
    one = ask.payload.get("dependency")
    return steward(ask) and starved(ask.data) and (one is None or one in ask.data["lost"])


def may_start(ask: Ask) -> bool:
    """Whether it may run now."""
    return startable(ask.data)


def may_recover(ask: Ask) -> bool:
    """Whether it is taken up anew once more."""
    if ask.payload.get("code") == UNBEGUN:
        return bool(ask.data["unbegun"] < UNBEGUN_MAX)
    return bool(ask.data["recoveries"] < ask.data["recoveries_max"])


def may_retry(ask: Ask) -> bool:
    """Whether it is tried once more."""
    return bool(ask.data["retries"] < ask.data["retries_max"])


def more_phases(ask: Ask) -> bool:
    """Whether another phase follows the one that it is in."""
    return bool(ask.data["phase"] + 1 < len(ask.data["phases"]))


def approved(ask: Ask) -> bool:
    """Whether the reviewer lets it go on to be signed off."""
    return bool(ask.payload["verdict"] == ReviewVerdict.APPROVAL_REQUIRED)


def signed(ask: Ask) -> bool:
    """Whether a steward signs it off, or the effect that does where none is needed."""
    by_itself = ask.data["auto_approve"] and ask.payload["by"] == APPROVAL.name
    return bool(by_itself) or steward(ask)


def knows_phase(ask: Ask) -> bool:
    """Whether a steward names a phase that it has come to, or none."""
    named = ask.payload.get("phase")
    reached = [phase["name"] for phase in ask.data["phases"][: ask.data["phase"] + 1]]
    return steward(ask) and (named is None or named in reached)


# --- updates ---------------------------------------------------------------------------------


def configured(ask: Ask) -> Data:
    """Take over what was changed."""
    changes = {k: v for k, v in ask.payload.items() if k not in ("by", "no_review")}
    if ask.payload["no_review"]:
        changes["review"] = None
    if "limits" in changes:
        changes["limits"] = {**ask.data["limits"], **changes["limits"]}
    return {name: value for name, value in {**ask.data, **changes}.items() if value is not None}


def met(ask: Ask) -> Data:
    """Note that nothing it depends on is missing any more."""
    return {**ask.data, "met": True}


def lost(ask: Ask) -> Data:
    """Note which dependency will never be a success."""
    one = {ask.payload["dependency"]: ask.payload["state"]}
    return {**ask.data, "lost": {**ask.data["lost"], **one}}


def waived(ask: Ask) -> Data:
    """Free it from what is lost."""
    one = ask.payload.get("dependency")
    freed = [one] if one else sorted(ask.data["lost"])
    left = {name: state for name, state in ask.data["lost"].items() if name not in freed}
    return {**ask.data, "lost": left, "waived": [*ask.data["waived"], *freed]}


def awaiting(ask: Ask) -> Data:
    """Note which places are taken."""
    return {**ask.data, "slots": ask.payload["slots"]}


def told_to_go(ask: Ask) -> Data:
    """Let it go on by itself, one step or to the next gate."""
    return {**without(ask.data, "backoff_ms"), "going": ask.payload["to"]}


def started(ask: Ask) -> Data:
    """Begin a run: one more, in these places, with so much time."""
    kept = without(ask.data, "slots", "time_left_ms", "backoff_ms", "failure")
    more = {k: v for k, v in ask.payload.items() if v}
    going = {"going": ""} if ask.data.get("going") == RunUntil.NEXT else {}
    return {**kept, **more, **going, "runs": ask.data["runs"] + 1}


def reviewing(ask: Ask) -> Data:
    """Begin a review."""
    kept = without(ask.data, "time_left_ms", "backoff_ms")
    going = {"going": ""} if ask.data.get("going") == RunUntil.NEXT else {}
    return {**kept, **{k: v for k, v in ask.payload.items() if k == "time_left_ms"}, **going}


def phase_completed(ask: Ask) -> Data:
    """Go on to the next phase."""
    return {**_kept(ask), "phase": ask.data["phase"] + 1, **AFRESH}


def completed(ask: Ask) -> Data:
    """Keep what the worker made; it has left its place."""
    over = {"phase": len(ask.data["phases"]), **AFRESH}
    return {**left_running(_kept(ask)), **over}


def stuck(ask: Ask) -> Data:
    """Keep why the worker cannot go on, for the person who is asked."""
    return {**left_running(_kept(ask)), "going": "", "failure": failure_of(ask)}


def retried(ask: Ask) -> Data:
    """Wait a while, longer each time, at least as long as asked."""
    return {**left_running(_kept(ask)), **_later(ask)}


def review_retried(ask: Ask) -> Data:
    """Review it once more, after a while."""
    return {**without(ask.data, "time_left_ms"), **_later(ask)}


def paused(ask: Ask) -> Data:
    """Note for how long."""
    for_s = ask.payload.get("for_s")
    kept = {**without(ask.data, "paused_s"), "pauses": ask.data.get("pauses", 0) + 1}
    return {**kept, "paused_s": for_s} if for_s else kept


def unpaused(ask: Ask) -> Data:
    """Go on: its worker begins again, with papers of its own. The run was counted before."""
    return {**without(ask.data, "paused_s"), "runs": ask.data["runs"] + 1}


def recovered(ask: Ask) -> Data:
    """Count one more that was lost, or that nobody took up: that one was no run."""
    data = left_running(ask.data)
    if ask.payload.get("code") != UNBEGUN:
        return {**data, "recoveries": data["recoveries"] + 1}
    return {**data, "unbegun": data["unbegun"] + 1}


def given_up(ask: Ask) -> Data:
    """Keep why it is a person's matter now: it was lost, or tried, too often."""
    return _given_up(ask, ask.data)


def tried_in_vain(ask: Ask) -> Data:
    """As given up, with what the last try made."""
    return _given_up(ask, _kept(ask))


def limited(ask: Ask) -> Data:
    """Keep which limit was reached."""
    reached = ask.payload
    unit = {"cost": "$", "time": "s", "iterations": "runs"}[reached["limit"]]
    told = f"{reached['used']:.12g} of {reached['allowed']:.12g} {unit}"
    used = f": {told}" if reached["allowed"] else ""
    detail = f"the {reached['of']}'s limit of {reached['limit']} is reached{used}"
    failure = {"code": "limit_reached", "detail": detail, "limit": reached["limit"]}
    return {**left_running(ask.data), "going": "", "failure": failure}


def reviewed(ask: Ask) -> Data:
    """Keep what the reviewer found; what is wrong goes back to the worker as guidance."""
    reasons: list[str] = ask.payload.get("reasons") or []
    review = {"reasons": reasons, "evidence": ask.payload.get("evidence") or []}
    review |= {"verdict": ask.payload["verdict"], "summary": ask.payload["summary"]}
    data = {**without(ask.data, "time_left_ms"), "review_result": review, "going": ""}
    data |= AFRESH
    if approved(ask):
        return data
    said = "; ".join(reasons) or ask.payload["summary"] or "the reviewer gave no reason"
    failure = {"code": "review", "detail": said}
    return {**_guided(data, "reviewer", "reviewer", said), "failure": failure}


def suspended(ask: Ask) -> Data:
    """Put it aside with all that it has."""
    return {**left_running(ask.data), "going": ""}


def resumed(ask: Ask) -> Data:
    """Take it up where it was."""
    return without(ask.data, "backoff_ms")


def again(ask: Ask) -> Data:
    """Work on it again, from a phase on, minding what was said."""
    names = [phase["name"] for phase in ask.data["phases"]]
    named = ask.payload.get("phase")
    phase = names.index(named) if named else min(ask.data["phase"], len(names) - 1)
    limits = {**ask.data["limits"], **(ask.payload.get("limits") or {})}
    kept = without(left_running(ask.data), "failure", "backoff_ms")
    data = {**kept, "phase": phase, "limits": limits, **AFRESH, "going": ""}
    said = ask.payload.get("reason")
    return _guided(data, "steward", ask.payload["by"], said) if said else data


def review_again(ask: Ask) -> Data:
    """Review it again as it is: what it has is what is judged."""
    data = {**without(ask.data, "failure"), **AFRESH, "going": ""}
    data |= {"limits": {**ask.data["limits"], **(ask.payload.get("limits") or {})}}
    said = ask.payload.get("reason")
    return _guided(data, "steward", ask.payload["by"], said) if said else data


def ended(ask: Ask) -> Data:
    """Keep who ended it and why."""
    end = {"by": ask.payload["by"], "reason": ask.payload["reason"]}
    return {**left_running(ask.data), "end": {k: v for k, v in end.items() if v}}


def lost_and_ended(ask: Ask) -> Data:
    """Keep that it ended with what it depends on."""
    end = {"by": "tell", "reason": f"{ask.payload['dependency']} is {ask.payload['state']}"}
    return {**left_running(lost(ask)), "end": end}


def failure_of(ask: Ask) -> dict[str, Any]:
    """Return why it is a person's matter, as cards show it."""
    said = ask.payload.get("detail") or ask.payload.get("summary") or "no reason was given"
    return {"code": ask.payload.get("code") or "stuck", "detail": said}


def left_running(data: Data) -> Data:
    """Return the data of a job that no longer has a place, nor time to keep to."""
    return without(data, "slots", "time_left_ms", "paused_s")


def without(data: Data, *names: str) -> dict[str, Any]:
    """Return data without some of its fields."""
    return {name: value for name, value in data.items() if name not in names}


def _later(ask: Ask) -> dict[str, Any]:
    """Count a retry, and return how long it waits: longer each time, at least as long as asked."""
    wait_s = ask.data["retry_delay_s"] * 2 ** min(ask.data["retries"], 7)
    asked_s = ask.payload.get("retry_after_s") or 0
    return {"retries": ask.data["retries"] + 1, "backoff_ms": max(wait_s, asked_s) * 1_000}


def _given_up(ask: Ask, data: Data) -> dict[str, Any]:
    counts = {**AFRESH, "going": ""}
    return {**left_running(data), **counts, "failure": failure_of(ask)}


def _kept(ask: Ask) -> dict[str, Any]:
    """Add what was said and shown of this phase. Of the same file the latest counts."""
    phase, said = phase_of(ask.data), ask.payload.get("summary")
    fresh = [{**one, "phase": phase} for one in ask.payload.get("evidence") or ()]
    paths = {one["path"] for one in fresh}
    older = [one for one in ask.data.get("evidence", ()) if one["path"] not in paths]
    data = {**ask.data, "evidence": [*older, *fresh][-EVIDENCE_KEPT_MAX:]}
    return {**data, "summary": said} if said else data


def _guided(data: Mapping[str, Any], whose: str, by: str, text: str) -> dict[str, Any]:
    words = {"from": whose, "by": by, "text": text}
    return {**data, "guidance": [*data["guidance"], words][-GUIDANCE_MAX:]}
