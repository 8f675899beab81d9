"""The guards and updates of the rows that send a job back, with a person's changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import Ask
from interlock.system.tables import RecordData as Data
from interlock.systems.jobs.machines.job.changes import (
    NO_TRIES,
    guided,
    host,
    knows_phase,
    stopped,
    without,
)
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.stewards import steward

REPAIRED = ("objective", "details", "acceptance", "review")


def may_resubmit(ask: Ask[JobData]) -> bool:
    """Whether a steward sends the job back to a phase that it knows, and it can be done there."""
    return knows_phase(ask) and not placeless(ask)


def may_review_again(ask: Ask[JobData]) -> bool:
    """Whether a steward sends the job back to a review that can be done."""
    return steward(ask) and not placeless(ask)


def placeless(ask: Ask[JobData]) -> str:
    """Return which new executor has no known place to run at, or an empty text.

    A job of capabilities only has no host. One of commands has none only if its producer said so.
    """
    data = ask.data
    executors = [*(phase["worker"] for phase in data["phases"]), data.get("review")]
    if host(data) or any(map(_is_local, executors)):
        return ""
    return next((role for role in ("worker", "review") if _is_local(ask.payload.get(role))), "")


def _is_local(executor: Mapping[str, Any] | None) -> bool:
    """Whether an executor needs a folder: it is a command or a model, and no capability."""
    return executor is not None and bool(executor.get("command") or executor.get("model"))


def resubmitted(ask: Ask[JobData]) -> Data:
    """Work on the job again from a phase on, with the person's guidance and changes."""
    names = [phase["name"] for phase in ask.data["phases"]]
    named = ask.payload.get("phase")
    phase = names.index(named) if named else min(ask.data["phase"], len(names) - 1)
    data = {**without(_repaired(ask), "backoff_ms"), "phase": phase}
    if worker := ask.payload.get("worker"):
        data["phases"] = [*data["phases"]]
        data["phases"][phase] = {**data["phases"][phase], "worker": worker}
    return data


def resubmitted_to_review(ask: Ask[JobData]) -> Data:
    """Review the job again, with the work as it is, and the person's guidance and changes."""
    return _repaired(ask)


def _repaired(ask: Ask[JobData]) -> dict[str, Any]:
    """Take over the changes and the guidance of a person who sends the job back."""
    changes = {name: ask.payload[name] for name in REPAIRED if name in ask.payload}
    changes["limits"] = {**ask.data["limits"], **(ask.payload.get("limits") or {})}
    data = {**without(stopped(ask.data), "failure"), **changes, **NO_TRIES, "going": ""}
    reason = ask.payload.get("reason")
    return guided(data, "steward", ask.payload["by"], reason) if reason else data
