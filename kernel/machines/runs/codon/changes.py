"""What each row does to a codon's data: each state has its own fields, and no other's are left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.machines.runs.codon.names import Trigger
from interlock.kernel.machines.runs.codon.payloads import no_tokens
from interlock.kernel.machines.runs.values import (
    MICRO_MAX,
    CheckpointType,
    CodonStatus,
    FailureType,
)
from interlock.kernel.table import Ask, Data

ALWAYS = ("codon_id", "loop_context")
STARTED = (*ALWAYS, "rig_setup_checkpoint", "checkpoints", "sentinels", "skip_requested")
LAUNCHED = (*STARTED, "pid", "log_path", "previous_session_id")
AT_WORK = (
    *LAUNCHED,
    "session_id",
    "current_cost",
    "current_tokens",
    "assistant_message_count",
    "final_cost_set",
)
# What a failure says that nobody told: the word of the trigger's payload, or else this.
FORCED = {
    str(Trigger.LOST): ("detail", "who was at work on it is gone"),
    str(Trigger.RUN_ENDED): ("reason", "its run has ended"),
}
# What stays when it has ended, where it got so far.
KEPT = (*ALWAYS, "rig_setup_checkpoint", "log_path", "previous_session_id", "session_id")


def only(data: Data, names: tuple[str, ...]) -> dict[str, Any]:
    """Return these fields of a codon's data, where they are there."""
    return {name: data[name] for name in names if name in data}


def stage_of(data: Data) -> CodonStatus:
    """Return which live state this data is of: what a codon says of that itself is not relied on."""
    if data.get("completing"):
        return CodonStatus.COMPLETING_SENTINELS
    if "session_id" in data:
        return CodonStatus.RUNNING
    if "pid" in data:
        return CodonStatus.INITIALIZING
    return CodonStatus.STARTING if data.get("started") else CodonStatus.PREPARING


def started(ask: Ask) -> Data:
    """Note that the rig is set up."""
    data = {**only(ask.data, STARTED), "started": True}
    sha = ask.payload.get("checkpoint_sha") or taken(ask.data, CheckpointType.RIG_SETUP)
    return {**data, "rig_setup_checkpoint": sha} if sha else data


def initialized(ask: Ask) -> Data:
    """Note which process it is."""
    return {**only(ask.data, STARTED), **ask.payload}


def running(ask: Ask) -> Data:
    """Begin to count."""
    began = {"current_cost": 0, "current_tokens": no_tokens(), "assistant_message_count": 0}
    return {**only(ask.data, LAUNCHED), **ask.payload, **began}


def completing(ask: Ask) -> Data:
    """Go on with the same."""
    return {**only(ask.data, AT_WORK), "completing": True}


def completed(ask: Ask) -> Data:
    """Keep what it came to."""
    data, told = ask.data, ask.payload
    return {
        **only(data, KEPT),
        **executed(data),
        "exit_code": 0,
        "final_cost": data["current_cost"],
        "final_tokens": data["current_tokens"],
        "completion_checkpoint": told["checkpoint_sha"],
        **{name: told[name] for name in told if name != "checkpoint_sha"},
    }


def failed(ask: Ask) -> Data:
    """Keep why, while what, and what it had cost."""
    data, told = ask.data, ask.payload
    sha = told.get("checkpoint_sha") or taken(data, CheckpointType.ERROR)
    kept = {name: told[name] for name in ("exit_code", "failure_reason")}
    return {
        **only(data, (*KEPT, "pid")),
        **executed(data),
        **kept,
        "failed_during": str(stage_of(data)),
        **partial(data),
        "ignored": told.get("ignored", False),
        **({"error_checkpoint": sha} if sha else {}),
    }


def skipped(ask: Ask) -> Data:
    """Keep while what; what was spent stays beside a cost of nothing."""
    data, told = ask.data, ask.payload
    sha = told.get("checkpoint_sha") or taken(data, CheckpointType.SKIPPED)
    count = data.get("assistant_message_count")
    return {
        **only(data, (*KEPT, "pid")),
        **executed(data),
        **partial(data),
        "skipped_during": str(stage_of(data)),
        **({} if count is None else {"assistant_message_count": count}),
        **({"skip_checkpoint": sha} if sha else {}),
    }


def lost(ask: Ask) -> Data:
    """Fail it: who was at work on it is gone."""
    return failed(Ask(ask.data, forced(Trigger.LOST, ask.payload), ask.facts))


def run_ended(ask: Ask) -> Data:
    """Fail it: its run has ended without it."""
    return failed(Ask(ask.data, forced(Trigger.RUN_ENDED, ask.payload), ask.facts))


def forced(trigger: str, payload: Data) -> dict[str, Any]:
    """Return what a failure says of itself where nobody was left to say it."""
    name, otherwise = FORCED[trigger]
    reason = {"type": str(FailureType.UNKNOWN), "retriable": False}
    return {
        "exit_code": -1,
        "failure_reason": {**reason, "message": payload.get(name) or otherwise},
    }


def costs_updated(ask: Ask) -> Data:
    """Set what it has cost so far."""
    return priced(ask, ask.payload["cost"], ask.payload["tokens"])


def costs_incremented(ask: Ask) -> Data:
    """Add to what it has cost so far."""
    more = ask.payload["tokens_delta"]
    tokens = {name: n + more[name] for name, n in ask.data["current_tokens"].items()}
    return priced(ask, ask.data["current_cost"] + ask.payload["cost_delta"], tokens)


def final_cost_set(ask: Ask) -> Data:
    """Set what its provider says in the end, whatever was counted before."""
    data = priced(ask, ask.payload["final_cost"], ask.payload["final_tokens"])
    return {**data, "final_cost_set": True}


def priced(ask: Ask, cost: int, tokens: Mapping[str, int]) -> dict[str, Any]:
    """Return its data with another cost; no sum grows beyond what can be counted."""
    kinds = {name: min(n, MICRO_MAX) for name, n in tokens.items()}
    return {**ask.data, "current_cost": min(cost, MICRO_MAX), "current_tokens": kinds}


def is_not_final(ask: Ask) -> bool:
    """Whether the final cost is not set yet: what comes after it is no news."""
    return not ask.data.get("final_cost_set")


def messages_counted(ask: Ask) -> Data:
    """Set how many messages there are."""
    return {**ask.data, "assistant_message_count": ask.payload["new_count"]}


def sentinels_updated(ask: Ask) -> Data:
    """Set where its sentinels stand."""
    states = ask.payload["sentinel_states"]
    total = min(sum(one["total_cost"] for one in states), MICRO_MAX)
    return {**ask.data, "sentinels": {"loaded": states, "total_cost": total}}


def checkpoint_created(ask: Ask) -> Data:
    """Keep a checkpoint until the state that it belongs to is entered."""
    kind, sha = CheckpointType(ask.payload["checkpoint_type"]), ask.payload["sha"]
    if kind is CheckpointType.RIG_SETUP and stage_of(ask.data) is not CodonStatus.PREPARING:
        return {**ask.data, "rig_setup_checkpoint": sha}
    return {**ask.data, "checkpoints": {**ask.data.get("checkpoints", {}), str(kind): sha}}


def skip_requested(ask: Ask) -> Data:
    """Note that a person wants it skipped."""
    return {**ask.data, "skip_requested": ask.payload.get("reason", "") or "skipped"}


def taken(data: Data, kind: CheckpointType) -> str | None:
    """Return the checkpoint of this kind that was taken, if any."""
    found = data.get("checkpoints", {}).get(str(kind))
    return str(found) if found else None


def executed(data: Data) -> dict[str, Any]:
    """Return what its sentinels did: the name says that no more will come."""
    watched = data.get("sentinels")
    if not watched:
        return {}
    return {"sentinels": {"executed": watched["loaded"], "total_cost": watched["total_cost"]}}


def partial(data: Data) -> dict[str, Any]:
    """Return what it had cost when it ended."""
    cost, tokens = data.get("current_cost", 0), data.get("current_tokens", no_tokens())
    return {"partial_cost": cost, "partial_tokens": tokens}
