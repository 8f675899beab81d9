"""The guards and updates of a task's rows. Pure functions of data, payload and facts."""

from __future__ import annotations

from collections.abc import Mapping

from interlock import Ask, validated
from interlock.system.tables import Record, TransitionReason, root_of
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.task import choice, limits, lost
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.task.payloads import NewTask
from interlock.systems.tasks.machines.trust import MINIMUM_TRUST, Trust, refusal

REJECTED = "rejected"  # the code of a failure by a person's rejection
# The states in which a task satisfies those that wait for it to be merged, and to be done. It is
# done before its work is verified, and closed once that is merged.
MERGED, DONE = (State.CLOSED,), (State.DONE, State.CLOSED)
# The fields of a claim that the task keeps while the claim lasts.
CLAIM_FIELDS = ("agent", "sandbox", "deadline_s", "deadline_reasons")
# What the verification of the work left behind, and what followed from it.
VERIFIED_FIELDS = (
    "verified",
    "approved",
    "asks",
    "checked",
    "changes",
    "commit",
    "merging",
    "rewritten",
)
# The fields that a claim leaves behind, and that the next claim must not find.
CLEARED_FIELDS = (
    *VERIFIED_FIELDS,
    "claim",
    "summary",
    "failure",
    "blocked_on",
    "branch",
    "worktree",
    "took_s",
    "recovered",
    "merged",
    "lost",
)


def initial_data(payload: Data) -> Data:
    """Check what a producer hands in and return the first data of the task.

    `claims` and `crashes` count the claims and the lost agents since the last retry. `claimed`
    counts all claims, and so numbers them.
    """
    data = validated(NewTask, "the task", payload)
    return {**data, "retries": 0, "crashes": 0, "claims": 0, "claimed": 0}


def initial_state(data: TaskData) -> State:
    """Return the state that a task begins in: planned where a plan must be approved first."""
    return State.PLANNED if data.get("plan") else State.OPEN


def bounds(data: TaskData) -> Mapping[str, int | None]:
    """Return what all tries of the task together may spend."""
    one_try: int | None = data.get("budget_micro")
    if one_try is None:
        return {"spent": None}
    return {"spent": min(one_try * (int(data["max_retries"]) + 1), limits.SPENT_MICRO_MAX)}


def claimable(ask: Ask[TaskData]) -> bool:
    """Whether the task may be claimed now by this owner."""
    return not (
        unmet(ask.data, ask.facts) or choice.refused(ask.data, ask.payload) or _mismatch(ask)
    )


def why_not_claimable(ask: Ask[TaskData]) -> str:
    """Return why a claim is refused."""
    return choice.refused(ask.data, ask.payload) or (
        "it waits for another task, it is too early, or its role or tenant is another's; "
        "`interlock task list` says which"
    )


def awaited(data: TaskData) -> dict[str, tuple[State, ...]]:
    """Return the names of the tasks that it waits for, each with the states that satisfy it."""
    merged = dict.fromkeys(data.get("depends_on", ()), MERGED)
    return merged | dict.fromkeys(data.get("depends_on_done", ()), DONE)


def unmet(data: TaskData, facts: Data) -> tuple[str, ...]:
    """Return the names of the tasks that it still waits for.

    `facts` has their states by id. A task that has no facts does not exist, and is waited for.
    """
    found = {record_id.partition("/")[2]: fact["state"] for record_id, fact in facts.items()}
    return tuple(name for name, states in awaited(data).items() if found.get(name) not in states)


def fact_sources(record: Record[TaskData]) -> tuple[str, ...]:
    """Return the records that its rows ask about: the identity that claimed it, or dependencies."""
    claim = record.data.get("claim")
    if claim:
        same_backlog = root_of(claim["identity"]) == record.root
        return (claim["identity"],) if same_backlog else ()
    return tuple(f"{record.root}/{name}" for name in awaited(record.data))


def trust_refusal(trigger: str, data: TaskData, facts: Data) -> str:
    """Say why an owner's identity is not trusted enough to fire this, or nothing."""
    if trigger not in MINIMUM_TRUST:
        return ""
    fact = facts.get(str(data.get("claim", {}).get("identity")))
    state = fact["state"] if fact else Trust.UNTRUSTED
    # An identity that was retired meanwhile may still finish its task, as an untrusted one.
    return refusal(Trust(state) if state in set(Trust) else Trust.UNTRUSTED, trigger)


def _mismatch(ask: Ask[TaskData]) -> bool:
    data, claim = ask.data, ask.payload
    early = claim["at_ms"] < data["not_before"]
    role = claim.get("role") not in (None, data["role"])
    tenant = claim.get("tenant") not in (None, data["tenant"])
    return early or role or tenant


def claimed(ask: Ask[TaskData]) -> Data:
    """Keep who owns the task. Each claim has its own number, and so a branch and a worktree."""
    number = ask.data["claimed"] + 1
    owner = {"owner": ask.payload["owner"], "identity": ask.payload["identity"], "number": number}
    counts = {"claims": ask.data["claims"] + 1, "claimed": number}
    owner |= {name: ask.payload[name] for name in CLAIM_FIELDS if ask.payload.get(name)}
    where = {"host": ask.payload["host"]} if ask.payload.get("host") else {}
    return {**unclaimed(ask), **counts, **where, "claim": owner}


def host(data: TaskData) -> str:
    """Return the computer that the last claim was worked on, where its branch is, or ''."""
    return str(data.get("host") or "")


def claims_left(ask: Ask[TaskData]) -> bool:
    """Whether another claim may follow one that was released."""
    return bool(ask.data["claims"] < limits.CLAIMS_SINCE_RETRY_MAX)


def unclaimed(ask: Ask[TaskData]) -> Data:
    """Forget the claim and what it left behind, and remember only who had it."""
    kept = {name: value for name, value in ask.data.items() if name not in CLEARED_FIELDS}
    claim = ask.data.get("claim")
    return {**kept, "had_by": choice.known_by(claim)} if claim else kept


def requeued(ask: Ask[TaskData]) -> Data:
    """Forget the claim, and keep who may have the task next. A later requeue replaces that."""
    after = {name: value for name, value in unclaimed(ask).items() if name not in choice.FIELDS}
    return {**after, **choice.chosen(after.get("had_by"), ask.payload)}


def completed(ask: Ask[TaskData]) -> Data:
    """Keep what was done, and the branch and commit that hold it."""
    return {**ask.data, **ask.payload}


def failed(ask: Ask[TaskData]) -> Data:
    """Keep why the task failed, and whether another try may help."""
    failure = {name: value for name, value in ask.payload.items() if value and name != "results"}
    final = bool(failure.pop("final", False)) or ask.data["retries"] >= ask.data["max_retries"]
    # After the last agent that may be lost, a failure of what it left is not tried again either.
    return {**ask.data, "failure": failure, "given_up": final or not lost.may_be_followed(ask)}


def verification_rejected(ask: Ask[TaskData]) -> Data:
    """Keep why the work is not accepted, and the results of its completion signals."""
    return {**failed(ask), "checked": ask.payload.get("results", [])}


def rejected(ask: Ask[TaskData]) -> Data:
    """Keep that a person rejected the work, and tell the agents of the next tries why."""
    after, reason = failed(ask), ask.payload["reason"] or "no reason was given"
    said = f"a person rejected its work: {reason}"
    failure = {**after["failure"], "reason": said, "code": REJECTED}
    rejections = [*ask.data.get("rejections", []), reason][-limits.REJECTIONS_MAX :]
    return {**after, "failure": failure, "rejections": rejections}


def given_up(data: TaskData) -> bool:
    """Whether a failed task is tried again only when a person says so."""
    return bool(data.get("given_up", False))


def backoff_ms(data: TaskData) -> int | None:
    """Return the wait before the next try: it doubles, up to five minutes.

    It is longer where a provider asked for that; None where no try follows by itself.
    """
    if given_up(data):
        return None
    asked_s = (data.get("failure") or {}).get("retry_after_s", 0)
    wait_s = max(min(data["retry_delay_s"] * 2 ** data["retries"], limits.BACKOFF_S_MAX), asked_s)
    return int(wait_s * 1_000)


def lost_too_often(ask: Ask[TaskData]) -> Data:
    """Give the task up because too many of its agents were lost, and keep why."""
    after, crash = failed(ask), ask.data.get("lost") or {}
    last = crash.get("reason") or "nothing was heard of it any more"
    crashes = ask.data["crashes"]
    times = f" {crashes} times; the last time" if crashes > 1 else ", and no other may follow it"
    found = f"; {detail}" if (detail := after["failure"].get("detail")) else ""
    reasons = {
        "reason": f"its agent was lost{times}: {last}{found}",
        "why": TransitionReason.LOST.value,
        "abort": crash.get("abort"),
    }
    failure = {name: value for name, value in {**after["failure"], **reasons}.items() if value}
    return {**after, "failure": failure, "given_up": True}


def recovered(ask: Ask[TaskData]) -> Data:
    """Keep the commit of a lost agent's work; it is verified as if the agent had completed it."""
    summary = f"partial work of a lost agent, saved as {ask.payload['commit']}"
    saved = {"recovered": ask.payload["commit"], "branch": ask.payload.get("branch")}
    return {**ask.data, "summary": summary, **saved}


def verified(ask: Ask[TaskData]) -> Data:
    """Keep the results of the completion signals, and what would be merged."""
    found = {"verified": True, "checked": ask.payload["results"]}
    work = {
        name: ask.payload[name] for name in ("branch", "changes", "asks") if ask.payload.get(name)
    }
    return {**ask.data, **found, **work, "commit": ask.payload.get("commit")}


def is_verified(data: TaskData) -> bool:
    """Whether the work is verified, so that only the merge is left to do."""
    return bool(data.get("verified"))


def changed_nothing(data: TaskData) -> bool:
    """Whether the verified work of an agent is the same as what it began from."""
    return bool(data.get("changes")) and data["changes"]["files"] == 0


def is_merging(ask: Ask[TaskData]) -> bool:
    """Whether the task holds the target of its merge."""
    return bool(ask.data.get("merging"))


def not_merging(ask: Ask[TaskData]) -> bool:
    """Whether the task does not hold the target of its merge."""
    return not is_merging(ask)


def merging(ask: Ask[TaskData]) -> Data:
    """Note that the merge has begun; from now on the task holds the name of its target."""
    return {**ask.data, "merging": True}


def target_freed(ask: Ask[TaskData]) -> Data:
    """Give the target back, and keep the commit of the merge if only its push is left to do."""
    after = {name: value for name, value in ask.data.items() if name != "merging"}
    commit = ask.payload.get("commit")
    return {**after, "merged": commit} if commit else after


def target_rewritten(ask: Ask[TaskData]) -> Data:
    """Forget what was verified and approved: it began at a commit that the target has no more."""
    kept = {name: value for name, value in ask.data.items() if name not in VERIFIED_FIELDS}
    return {**kept, "rewritten": True}


def merge_target(data: TaskData) -> str:
    """Return the name that only one task of a backlog holds at a time: the target of its merge.

    The same path is another repository on another computer.
    """
    where = f" on {host(data)}" if host(data) else ""
    return f"merge into {data['target']} of '{data['repo']}'{where}"


def merge_hold(data: TaskData) -> tuple[str, ...]:
    """Return the names that a task holds while its work is verified or merged."""
    return (merge_target(data),) if data.get("merging") else ()


def needs_approval(ask: Ask[TaskData]) -> bool:
    """Whether a person must agree to the merge.

    A producer asked for it, a model is unsure, or the agent is not trusted with so many files.
    """
    unsure = any(result.get("flagged") for result in ask.payload.get("results", ()))
    asks = ask.data["needs_approval"] or unsure or ask.payload.get("asks")
    return bool(asks and not ask.data.get("approved"))


def approved(ask: Ask[TaskData]) -> Data:
    """Note that a person agreed to the verified work."""
    return {**ask.data, "approved": True}


def merged(ask: Ask[TaskData]) -> Data:
    """Keep the commit that the target branch now has."""
    return {**ask.data, "merged": ask.payload.get("commit")}


def blocked(ask: Ask[TaskData]) -> Data:
    """Keep what the task waits for."""
    return {**unclaimed(ask), "blocked_on": dict(ask.payload)}


def waits_for_person(data: TaskData) -> bool:
    """Whether a person must resolve what blocks the task."""
    return bool(data.get("blocked_on", {}).get("kind") != "task")


def waits_for_tasks(data: TaskData) -> bool:
    """Whether the task waits for another task or for its subtasks, and not for a person only."""
    return data.get("blocked_on", {}).get("kind") in ("task", "subtasks")


def waits_for_task(ask: Ask[TaskData]) -> bool:
    """Whether the task waits for the end of another task."""
    return not waits_for_person(ask.data)


def starved(ask: Ask[TaskData]) -> Data:
    """Ask a person: what the task waits for can never come."""
    return {**ask.data, "blocked_on": {"kind": "text", "on": ask.payload["reason"]}}


def cancelled(ask: Ask[TaskData]) -> Data:
    """Keep why the task was cancelled."""
    return {**ask.data, "reason": ask.payload["reason"]}


def fails_by_stage(ask: Ask[TaskData]) -> bool:
    """Whether the task may be failed together with others of its plan or role."""
    return bool(ask.data.get("stage_failures"))
