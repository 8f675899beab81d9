"""Verifies finished work by its completion signals and its owned files. Merges nothing."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from functools import partial

from interlock import EffectWork, Outcome
from interlock.git.branch import commit_of, head
from interlock.git.diff import lines_between, paths_between
from interlock.git.errors import RefusedError
from interlock.git.merge import MergeConflict
from interlock.git.replay import WorkReplayed, base_of_work, replay
from interlock.git.repository import COMMITTER, Repository
from interlock.system.errors import UnknownRecordError
from interlock.system.tables import Record, TransitionReason
from interlock.systems.tasks.claim_names import ClaimNames, claim_names
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.ownership import SCOPE_VIOLATION, outside
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import Trigger
from interlock.systems.tasks.machines.trust import Trust, too_many_files
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.tasks.verification.evidence import changes_text, parts_text
from interlock.systems.tasks.verification.model_inquiries import ModelInquiries
from interlock.systems.tasks.verification.review_checkout import review_checkout
from interlock.systems.tasks.verification.signals import CompletionVerdict
from interlock.systems.tasks.verification.task_check import (
    check_task,
    rejection,
    repository_of,
    results_of,
    worktree_and_commit,
)

PATHS_MAX = 100  # files that are at fault, as they are named
AGENT_POLL_S = 0.1  # between two looks whether the agent has ended
# Longer than the lease of an agent: its supervisor may be lost just after it reported the end.
AGENT_POLLS_MAX = 900


async def verification(work: EffectWork[TaskData]) -> Outcome:
    """Verify the branch of a claim in a review checkout, or what the subtasks of a task merged.

    Work whose worktree or branch is gone is rejected. The work of a task without a repository is
    accepted, since there is nothing to check.
    """
    if not work.record.data.get("repo"):
        return Outcome(Trigger.VERIFIED, {})
    await _wait_for_agent(work)
    verify_record = _verify_claim if "claim" in work.record.data else _verify_subtasks
    try:
        return await verify_record(ModelInquiries(work))
    except RefusedError as refusal:
        return Outcome(Trigger.VERIFICATION_REJECTED, {"reason": str(refusal), "final": True})


class AgentAtWorkError(RuntimeError):
    """The agent still runs in the worktree that is to be verified. Try again later."""


async def _wait_for_agent(work: EffectWork[TaskData]) -> None:
    """Wait until the agent that reported the task done has ended. Raises AgentAtWorkError."""
    agent = work.record.data.get("claim", {}).get("agent")
    for _ in range(AGENT_POLLS_MAX):
        if not agent or not await asyncio.to_thread(_is_at_work, work, agent):
            return
        await asyncio.sleep(AGENT_POLL_S)
    raise AgentAtWorkError(f"{agent} is still at work on it")


def _is_at_work(work: EffectWork[TaskData], agent: str) -> bool:
    try:
        found: Record[AgentData] = work.records.views.record(agent)
    except UnknownRecordError:
        return False
    on_this_task = found.data["task"] == work.record.id
    return on_this_task and found.state in (AgentState.STARTING, AgentState.WORKING)


async def _verify_subtasks(inquiries: ModelInquiries) -> Outcome:
    """Verify what the subtasks of a task merged, in a checkout of the target as it is now."""
    work, record = inquiries.work, inquiries.work.record
    if not record.data["signals"]:
        return Outcome(Trigger.VERIFIED, {})
    repository = await asyncio.to_thread(repository_of, record, work.records.settings)
    commit = await asyncio.to_thread(commit_of, repository, str(record.data["target"]))
    names = ClaimNames(record.id, 0)  # Claims count from 1, so these names are free.
    async with review_checkout(repository, names, commit, work.records.settings) as folder:
        changes = partial(parts_text, repository, record, work.records)
        return _outcome(await check_task(inquiries, folder, changes), commit)


async def _verify_claim(inquiries: ModelInquiries) -> Outcome:
    work, record = inquiries.work, inquiries.work.record
    repository = await asyncio.to_thread(repository_of, record, work.records.settings)
    tree, commit = await asyncio.to_thread(worktree_and_commit, repository, record)
    if tree is None:
        return Outcome(Trigger.VERIFICATION_REJECTED, {"reason": "its worktree is gone"})
    if commit is None:
        return Outcome(Trigger.VERIFICATION_REJECTED, {"reason": "its branch is gone"})
    replayed = await asyncio.to_thread(_replay, work, repository)
    if isinstance(replayed, Outcome):
        return replayed
    if replayed is not None:
        base, commit = replayed.base, replayed.commit
    else:
        began = {"base": tree.base, "target": str(record.data["target"])}
        base = await asyncio.to_thread(base_of_work, repository, **began, commit=commit)
    changed = await asyncio.to_thread(paths_between, repository, base=base, commit=commit)
    not_owned = outside(changed, record.data["owned_files"])
    if not_owned:
        return Outcome(
            Trigger.VERIFICATION_REJECTED,
            {
                "reason": f"it changed files that it does not own: {', '.join(not_owned[:5])}",
                "code": SCOPE_VIOLATION,
                "why": TransitionReason.PERMISSION_DENIED,
                "paths": list(not_owned[:PATHS_MAX]),
                "final": True,
            },
        )
    changes = partial(changes_text, repository, base=base, commit=commit)
    names, settings = claim_names(record), work.records.settings
    async with review_checkout(repository, names, commit, settings) as folder:
        outcome = _outcome(await check_task(inquiries, folder, changes), commit)
    if outcome.trigger != Trigger.VERIFIED:
        return outcome
    counts = await asyncio.to_thread(lines_between, repository, base=base, commit=commit)
    asks = await asyncio.to_thread(_why_asked, work, counts.files)
    merged = {"branch": names.branch, "changes": asdict(counts), "asks": asks}
    return replace(outcome, payload={**outcome.payload, **merged})


def _replay(work: EffectWork[TaskData], repository: Repository) -> WorkReplayed | Outcome | None:
    """Put the work on top of its target, if that was reset or rebased since the work began.

    Return an outcome if that is not possible. Where the target is gone, the merge says so.
    """
    record, target = work.record, str(work.record.data["target"])
    if head(repository, target) is None:
        return None
    branch = claim_names(record).branch
    done = replay(repository, branch=branch, target=target, identity=COMMITTER)
    match done:
        case MergeConflict(paths):
            conflict = f"it conflicts with what {target} has now: {', '.join(paths[:5])}"
            reason = f"{target} was reset or rebased since its agent began, and {conflict}"
            codes = {"why": TransitionReason.MERGE_FAILED, "paths": list(paths[:PATHS_MAX])}
            return Outcome(Trigger.VERIFICATION_REJECTED, {"reason": reason, **codes})
        case WorkReplayed():
            work.audit("replayed", {"onto": target, **asdict(done)})
    return done


def _why_asked(work: EffectWork[TaskData], files: int) -> str:
    """Say why a person must agree to work on so many files, by the trust in its agent, or ''."""
    identity = work.record.data["claim"]["identity"]
    limits = work.records.settings.of(TaskSettings).files_by_trust
    if not limits:
        return ""
    found = work.records.views.records([identity]).get(identity)
    level = found.state if found and found.state in set(Trust) else Trust.UNTRUSTED
    return too_many_files(Trust(level), files, limits)


def _outcome(verdict: CompletionVerdict, commit: str | None) -> Outcome:
    if rejected := rejection(verdict):
        return Outcome(Trigger.VERIFICATION_REJECTED, rejected)
    return Outcome(Trigger.VERIFIED, {"results": results_of(verdict), "commit": commit})
