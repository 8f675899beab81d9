"""The guards and updates of a codon's rows. In each state its data have that state's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import Ask, validated
from interlock.system.tables import RecordData as Data
from interlock.systems.runs.machines.codon.names import State, Trigger
from interlock.systems.runs.machines.codon.payloads import CodonData, NewCodon
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.machines.values import CheckpointType, FailureType, TokenCounts

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
# The message of a failure that no event reports: a field of the trigger's payload, or else this.
FORCED = {
    str(Trigger.LOST): ("detail", "who was at work on it is gone"),
    str(Trigger.RUN_ENDED): ("reason", "its run has ended"),
}
# The fields that stay when a codon has ended, where it has them.
KEPT = (*ALWAYS, "rig_setup_checkpoint", "log_path", "previous_session_id", "session_id")


def initial_data(payload: Data) -> Data:
    """Check what a codon is created from and return its first data."""
    return validated(NewCodon, "the codon", payload)


def counters(data: CodonData) -> dict[str, int]:
    """Return what a codon adds to the counters of its run and its workspace.

    `cost` is what counts as the codon's: final, partial or current, and nothing once it is skipped.
    `spent` is all the money that was spent, also by its sentinels.
    """
    cost = data.get("final_cost", data.get("partial_cost", data.get("current_cost", 0)))
    counts = 0 if "skipped_during" in data else cost
    sentinels = data.get("sentinels")
    spent = cost + (sentinels["total_cost"] if sentinels else 0)
    return {"cost": counts, "spent": min(spent, MICRO_MAX)}


def no_tokens() -> dict[str, Any]:
    """Return a count of 0 for each kind of tokens."""
    return TokenCounts().model_dump()


def only(data: CodonData, names: tuple[str, ...]) -> dict[str, Any]:
    """Return those of these fields that a codon's data have."""
    return {name: value for name, value in data.items() if name in names}


def state_of(data: CodonData) -> State:
    """Return the live state that this data is of, whatever a payload says about it."""
    if data.get("completing"):
        return State.COMPLETING_SENTINELS
    if "session_id" in data:
        return State.RUNNING
    if "pid" in data:
        return State.INITIALIZING
    return State.STARTING if data.get("started") else State.PREPARING


def started(ask: Ask[CodonData]) -> Data:
    """Note that the rig is set up."""
    data = {**only(ask.data, STARTED), "started": True}
    sha = ask.payload.get("checkpoint_sha") or taken(ask.data, CheckpointType.RIG_SETUP)
    return {**data, "rig_setup_checkpoint": sha} if sha else data


def initialized(ask: Ask[CodonData]) -> Data:
    """Keep the agent's process."""
    return {**only(ask.data, STARTED), **ask.payload}


def running(ask: Ask[CodonData]) -> Data:
    """Keep the session, and begin to count."""
    began = {"current_cost": 0, "current_tokens": no_tokens(), "assistant_message_count": 0}
    return {**only(ask.data, LAUNCHED), **ask.payload, **began}


def completing(ask: Ask[CodonData]) -> Data:
    """Note that the agent has ended and its sentinels have not."""
    return {**only(ask.data, AT_WORK), "completing": True}


def completed(ask: Ask[CodonData]) -> Data:
    """Keep the final cost and the checkpoint of the work."""
    data, payload = ask.data, ask.payload
    return {
        **only(data, KEPT),
        **executed(data),
        "exit_code": 0,
        "final_cost": data["current_cost"],
        "final_tokens": data["current_tokens"],
        "assistant_message_count": data["assistant_message_count"],
        "completion_checkpoint": payload["checkpoint_sha"],
        **{name: value for name, value in payload.items() if name != "checkpoint_sha"},
    }


def failed(ask: Ask[CodonData]) -> Data:
    """Keep why and in which state the codon failed, and what it had cost."""
    data, payload = ask.data, ask.payload
    sha = payload.get("checkpoint_sha") or taken(data, CheckpointType.ERROR)
    kept = {name: payload[name] for name in ("exit_code", "failure_reason")}
    return {
        **only(data, (*KEPT, "pid")),
        **executed(data),
        **kept,
        "failed_during": str(state_of(data)),
        **partial(data),
        **messages(data),
        "ignored": payload.get("ignored", False),
        **({"error_checkpoint": sha} if sha else {}),
    }


def skipped(ask: Ask[CodonData]) -> Data:
    """Keep in which state the codon was skipped; its cost is 0, and what was spent stays."""
    data, payload = ask.data, ask.payload
    sha = payload.get("checkpoint_sha") or taken(data, CheckpointType.SKIPPED)
    return {
        **only(data, (*KEPT, "pid")),
        **executed(data),
        **partial(data),
        "skipped_during": str(state_of(data)),
        **messages(data),
        **({"skip_checkpoint": sha} if sha else {}),
    }


def messages(data: CodonData) -> dict[str, Any]:
    """Return how many messages the agent had written, if it came to count them."""
    return only(data, ("assistant_message_count",))


def lost(ask: Ask[CodonData]) -> Data:
    """Fail the codon: the process that held it is gone."""
    return failed(Ask(ask.data, forced(Trigger.LOST, ask.payload), ask.facts))


def run_ended(ask: Ask[CodonData]) -> Data:
    """Fail the codon: its run has ended before it."""
    return failed(Ask(ask.data, forced(Trigger.RUN_ENDED, ask.payload), ask.facts))


def forced(trigger: str, payload: Data) -> dict[str, Any]:
    """Return the failure of a codon whose supervisor can no longer report it."""
    name, otherwise = FORCED[trigger]
    reason = {"type": str(FailureType.UNKNOWN), "retriable": False}
    return {
        "exit_code": -1,
        "failure_reason": {**reason, "message": payload.get(name) or otherwise},
    }


def costs_updated(ask: Ask[CodonData]) -> Data:
    """Set what the codon has cost so far."""
    return priced(ask, ask.payload["cost"], ask.payload["tokens"])


def costs_incremented(ask: Ask[CodonData]) -> Data:
    """Add to what the codon has cost so far."""
    more = ask.payload["tokens_delta"]
    tokens = {name: n + more[name] for name, n in ask.data["current_tokens"].items()}
    return priced(ask, ask.data["current_cost"] + ask.payload["cost_delta"], tokens)


def final_cost_set(ask: Ask[CodonData]) -> Data:
    """Set the cost that the provider reports in the end, whatever was counted before."""
    data = priced(ask, ask.payload["final_cost"], ask.payload["final_tokens"])
    return {**data, "final_cost_set": True}


def priced(ask: Ask[CodonData], cost: int, tokens: Mapping[str, int]) -> dict[str, Any]:
    """Return the codon's data with another cost, limited to what can be counted."""
    kinds = {name: min(n, MICRO_MAX) for name, n in tokens.items()}
    return {**ask.data, "current_cost": min(cost, MICRO_MAX), "current_tokens": kinds}


def is_not_final(ask: Ask[CodonData]) -> bool:
    """Whether the final cost is not set yet; no later cost counts."""
    return not ask.data.get("final_cost_set")


def messages_counted(ask: Ask[CodonData]) -> Data:
    """Set how many messages the agent has written."""
    return {**ask.data, "assistant_message_count": ask.payload["new_count"]}


def sentinels_updated(ask: Ask[CodonData]) -> Data:
    """Set the states of the codon's sentinels."""
    states = ask.payload["sentinel_states"]
    total = min(sum(state["total_cost"] for state in states), MICRO_MAX)
    return {**ask.data, "sentinels": {"loaded": states, "total_cost": total}}


def checkpoint_created(ask: Ask[CodonData]) -> Data:
    """Keep a checkpoint until the state that it belongs to is entered."""
    kind, sha = CheckpointType(ask.payload["checkpoint_type"]), ask.payload["sha"]
    if kind is CheckpointType.RIG_SETUP and state_of(ask.data) is not State.PREPARING:
        return {**ask.data, "rig_setup_checkpoint": sha}
    return {**ask.data, "checkpoints": {**ask.data.get("checkpoints", {}), str(kind): sha}}


def skip_requested(ask: Ask[CodonData]) -> Data:
    """Note that a person wants the codon skipped."""
    return {**ask.data, "skip_requested": ask.payload.get("reason", "") or "skipped"}


def taken(data: CodonData, kind: CheckpointType) -> str | None:
    """Return the checkpoint of this kind that was taken, if any."""
    found = data.get("checkpoints", {}).get(str(kind))
    return str(found) if found else None


def executed(data: CodonData) -> dict[str, Any]:
    """Return what the sentinels did, under the name that says that their work is over."""
    sentinels = data.get("sentinels")
    if not sentinels:
        return {}
    return {"sentinels": {"executed": sentinels["loaded"], "total_cost": sentinels["total_cost"]}}


def partial(data: CodonData) -> dict[str, Any]:
    """Return what the codon had cost when it ended."""
    cost, tokens = data.get("current_cost", 0), data.get("current_tokens", no_tokens())
    return {"partial_cost": cost, "partial_tokens": tokens}
