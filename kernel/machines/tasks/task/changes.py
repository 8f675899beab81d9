"""What a task's rows ask and change: guards and updates. Pure functions of an Ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines.tasks.task.names import State
from interlock.kernel.machines.tasks.task.payloads import NewTask
from interlock.kernel.machines.tasks.trust import NEEDED, Trust, refusal
from interlock.kernel.payload import validated
from interlock.kernel.reason import TransitionReason
from interlock.kernel.record import Record, RecordId, root_of
from interlock.kernel.table import Ask, Bounds, Data

BACKOFF_S_MAX = 300
CRASHES_MAX = 2
INHERITED = (
    "repo",
    "target",
    "push",
    "agent",
    "agent_name",
    "session",
    "idle_limit_s",
    "stream",
    "tenant",
    "remind_s",
    "stop_hooks",
    "budget_micro",
    "tool_failures_max",
    "abort_policy",
    "stage_failures",
)
CHILDREN_MAX = 100
CLAIMS_MAX = 20
SATISFIED = (State.DONE, State.CLOSED)
GOOD = (State.DONE, State.CLOSED)


def birth(payload: Data) -> Data:
    """Check what a producer hands in and make the first data of it."""
    data = dict(validated(NewTask, "the task", payload))
    if len(set(data["depends_on"])) != len(data["depends_on"]):
        raise InvalidPayloadError("the task", ["depends_on: it names a task twice"])
    return {**data, "retries": 0, "crashes": 0, "claims": 0, "claimed": 0}


def begins_in(data: Data) -> State:
    """Return where a task is born: planned where a plan must be approved first."""
    return State.PLANNED if data.get("plan") else State.OPEN


def bounds(data: Data) -> Bounds:
    """Return what all its tries together may spend."""
    once: int | None = data.get("budget_micro")
    return Bounds(None if once is None else once * (int(data["max_retries"]) + 1))


# --- claims ----------------------------------------------------------------------------------


def claimable(ask: Ask) -> bool:
    """Whether it may be claimed now by this owner."""
    return not unmet(ask.data, ask.facts) and not _mismatch(ask)


def unmet(data: Data, facts: Data) -> tuple[str, ...]:
    """Return the dependencies that are not done, from facts of them; an unknown one is unmet."""
    states = {of.partition("/")[2]: fact["state"] for of, fact in facts.items()}
    return tuple(one for one in data["depends_on"] if states.get(one) not in SATISFIED)


def relies(record: Record) -> tuple[RecordId, ...]:
    """Return whose states its rows ask for: its owner's identity, or what a claim depends on."""
    claim = record.data.get("claim")
    if claim:
        mine = root_of(claim["identity"]) == root_of(record.id)
        return (RecordId(claim["identity"]),) if mine else ()
    return tuple(RecordId(f"{root_of(record.id)}/{name}") for name in record.data["depends_on"])


def gate(trigger: str, data: Data, facts: Data) -> str:
    """Say why an owner's identity is not trusted enough to fire this, or nothing."""
    if trigger not in NEEDED:
        return ""
    fact = facts.get(str((data.get("claim") or {}).get("identity")))
    state = fact["state"] if fact else Trust.UNTRUSTED
    # Who was taken out of service meanwhile may still finish what it has.
    return refusal(Trust(state) if state in set(Trust) else Trust.UNTRUSTED, trigger)


def _mismatch(ask: Ask) -> bool:
    data, claim = ask.data, ask.payload
    early = claim["at_ms"] < data["not_before"]
    role = claim.get("role") not in (None, data["role"])
    tenant = claim.get("tenant") not in (None, data["tenant"])
    return early or role or tenant


def claimed(ask: Ask) -> Data:
    """Note who owns it. Each claim has a number of its own, and so a branch and a worktree."""
    number = ask.data["claimed"] + 1
    owner = {"owner": ask.payload["owner"], "identity": ask.payload["identity"], "number": number}
    count = {"claims": ask.data["claims"] + 1, "claimed": number}
    owner |= {name: ask.payload[name] for name in OF_CLAIM if ask.payload.get(name)}
    where = {"host": ask.payload["host"]} if ask.payload.get("host") else {}
    return {**given_back(ask), **count, **where, "claim": owner}


OF_CLAIM = ("agent", "deadline_s", "deadline_reasons")
# What a claim leaves behind is not the next one's.
LEFT_BEHIND = (
    "claim",
    "summary",
    "failure",
    "blocked_on",
    "verified",
    "approved",
    "checked",
    "commit",
    "branch",
    "worktree",
    "took_s",
    "recovered",
    "merging",
    "lost",
)


def place(data: Data) -> str:
    """Return the machine that its last claim was worked on, where its branch is."""
    return str(data.get("host") or "")


def claims_left(ask: Ask) -> bool:
    """Whether a claim that came to nothing may be followed by another."""
    return bool(ask.data["claims"] < CLAIMS_MAX)


def given_back(ask: Ask) -> Data:
    """Forget the owner."""
    return {name: value for name, value in ask.data.items() if name not in LEFT_BEHIND}


# --- work ------------------------------------------------------------------------------------


def completed(ask: Ask) -> Data:
    """Keep what was done, and where it is."""
    return {**ask.data, **ask.payload}


def failed(ask: Ask) -> Data:
    """Keep why, and whether another try may help."""
    told = {name: value for name, value in ask.payload.items() if value and name != "results"}
    final = bool(told.pop("final", False)) or ask.data["retries"] >= ask.data["max_retries"]
    return {**ask.data, "failure": told, "given_up": final}


def rejected(ask: Ask) -> Data:
    """Keep why the work is not accepted, and what its judges found."""
    return {**failed(ask), "checked": ask.payload.get("results", [])}


def retried(ask: Ask) -> Data:
    """Count the retry; the backoff was waited for, or a person decided."""
    count = {"retries": ask.data["retries"] + 1, "claims": 0, "crashes": 0, "given_up": False}
    return {**given_back(ask), **count}


def retries_left(data: Data) -> bool:
    """Whether a failed task will be tried again by itself."""
    return not data.get("given_up", False)


def given_up(data: Data) -> bool:
    """Whether only a person lets it try again."""
    return not retries_left(data)


def backoff_ms(data: Data) -> int | None:
    """Return the wait before the next try: doubling, at most five minutes or what was asked for."""
    if not retries_left(data):
        return None
    asked_s = (data.get("failure") or {}).get("retry_after_s", 0)
    wait_s = max(min(data["retry_delay_s"] * 2 ** data["retries"], BACKOFF_S_MAX), asked_s)
    return int(wait_s * 1_000)


def orphaned(ask: Ask) -> Data:
    """Count the crash, and keep what is known of it."""
    told = {name: value for name, value in ask.payload.items() if value}
    return {**ask.data, "crashes": ask.data["crashes"] + 1, "lost": told}


def lost(ask: Ask) -> Data:
    """Keep why; what was lost too often is not recovered again, whatever its effect had hoped."""
    after, known = failed(ask), ask.data.get("lost") or {}
    last = known.get("reason") or "nothing was heard of it any more"
    told = {
        "reason": f"its agent was lost {ask.data['crashes']} times; the last time: {last}",
        "why": TransitionReason.ABORTED.value,
        "abort": known.get("abort"),
    }
    failure = {name: value for name, value in {**after["failure"], **told}.items() if value}
    return {**after, "failure": failure, "given_up": True}


def may_crash_again(ask: Ask) -> bool:
    """Whether a lost agent is followed by another."""
    return bool(ask.data["crashes"] <= CRASHES_MAX)


def recovered(ask: Ask) -> Data:
    """Keep what the lost agent left behind as if it had completed it; it is verified as any."""
    summary = f"partial work of a lost agent, saved as {ask.payload['commit']}"
    saved = {"recovered": ask.payload["commit"], "branch": ask.payload.get("branch")}
    return {**ask.data, "summary": summary, **saved}


# --- verification ----------------------------------------------------------------------------


def verified(ask: Ask) -> Data:
    """Keep what the judges found."""
    found = {"verified": True, "checked": ask.payload["results"]}
    return {**ask.data, **found, "commit": ask.payload.get("commit")}


def is_verified(data: Data) -> bool:
    """Whether what is left to do is to merge."""
    return bool(data.get("verified"))


def not_merging(ask: Ask) -> bool:
    """Whether its merge has yet to begin."""
    return not ask.data.get("merging")


def merging(ask: Ask) -> Data:
    """Begin to merge, while it holds the name of its target."""
    return {**ask.data, "merging": True}


def merge_hold(data: Data) -> tuple[str, ...]:
    """Return what only one task of a backlog holds at a time: the target that it merges into."""
    return (f"merge into {data['target']}",) if data.get("merging") else ()


def needs_approval(ask: Ask) -> bool:
    """Whether a person must agree before it is merged: that was asked for, or a judge is not sure."""
    unsure = any(one.get("flagged") for one in ask.payload.get("results", ()))
    return bool((ask.data["needs_approval"] or unsure) and not ask.data.get("approved"))


def approved(ask: Ask) -> Data:
    """A person agreed to the verified work."""
    return {**ask.data, "approved": True}


def merged(ask: Ask) -> Data:
    """Keep which commit the target branch now has."""
    return {**ask.data, "merged": ask.payload.get("commit")}


# --- blocks and subtasks -----------------------------------------------------------------------


def blocked(ask: Ask) -> Data:
    """Keep what it waits for."""
    return {**given_back(ask), "blocked_on": dict(ask.payload)}


def waits_for_person(data: Data) -> bool:
    """Whether a person must settle what blocks it."""
    return bool(data.get("blocked_on", {}).get("kind") != "task")


def all_good(ask: Ask) -> bool:
    """Whether every subtask came to a good end."""
    return all(state in GOOD for state, number in ask.payload["tally"].items() if number)


def waits_for_task(ask: Ask) -> bool:
    """Whether another task's end is what it waits for."""
    return not waits_for_person(ask.data)


def starved(ask: Ask) -> Data:
    """Ask a person: what it waits for can never come."""
    return {**ask.data, "blocked_on": {"kind": "text", "on": ask.payload["reason"]}}


def split(ask: Ask) -> Data:
    """List the parts before they are born, so that no two attempts can disagree."""
    whose = (ask.data.get("claim") or {}).get("agent")
    return {**given_back(ask), "children": ask.payload["subtasks"], "split_by": whose}


def child_cancelled(ask: Ask) -> Data:
    """List a part that its owner gives up; an effect ends it."""
    listed = [*ask.data.get("cancel_children", []), ask.payload["child"]]
    return {**ask.data, "cancel_children": listed[-CHILDREN_MAX:]}


def part(parent: Data, child: Data) -> tuple[Data, int | None]:
    """Return what a subtask is born from: its own work, where and by whom its parent's is done."""
    inherited = {name: parent[name] for name in INHERITED if parent.get(name) is not None}
    # A part is bound by what binds the whole: else to split would be a way around it. What nothing
    # judges is merged only when a person has seen it, where the whole was to be judged.
    unjudged = bool(parent["signals"]) and not child.get("signals")
    asks = parent["needs_approval"] or child.get("needs_approval") or unjudged
    bound: dict[str, Any] = {"needs_approval": bool(asks)}
    if child.get("role", "any") == "any":
        bound["role"] = parent["role"]
    if parent.get("split_by"):
        bound["parent_agent"] = parent["split_by"]
    mine = [one for one in child.get("owned_files", ()) if _below(one, parent["owned_files"])]
    bound["owned_files"] = mine or parent["owned_files"]
    return {**inherited, **child, **bound}, None


def _below(path: str, owned: Sequence[str]) -> bool:
    """Whether a path is among what is owned, or below it; without any, every one is."""
    return not owned or any(path == one or path.startswith(f"{one}/") for one in owned)


def joined(ask: Ask) -> Data:
    """Keep how the subtasks ended; the whole is verified where their work was merged."""
    return {**ask.data, "tally": ask.payload["tally"], "summary": "all subtasks came to their end"}


def mixed(ask: Ask) -> Data:
    """Ask a person what to do about subtasks that failed or were cancelled."""
    tally = ask.payload["tally"]
    bad = ", ".join(f"{n} {state}" for state, n in sorted(tally.items()) if state not in GOOD)
    on = {"kind": "text", "on": f"not every subtask came to a good end: {bad}"}
    return {**ask.data, "tally": tally, "blocked_on": on}


def overdue(ask: Ask) -> Data:
    """Ask a person about subtasks that did not end in time."""
    return {**ask.data, "blocked_on": {"kind": "text", "on": "its subtasks did not end in time"}}


def cancelled(ask: Ask) -> Data:
    """Keep why."""
    return {**ask.data, "reason": ask.payload["reason"]}


def stage_failures(ask: Ask) -> bool:
    """Whether whoever set this up wanted a whole stage to be failed at once."""
    return bool(ask.data.get("stage_failures"))
