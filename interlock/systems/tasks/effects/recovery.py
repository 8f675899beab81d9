"""Commits the work that a lost agent left, and checks the task's completion signals."""

from __future__ import annotations

import asyncio
from functools import partial

from interlock import EffectWork, Outcome
from interlock.git.branch import head
from interlock.git.changes import commit_all
from interlock.git.diff import paths_between
from interlock.git.errors import GitError, RefusedError
from interlock.git.replay import base_of_work
from interlock.git.repository import COMMITTER
from interlock.system.tables import TransitionReason
from interlock.systems.tasks.claim_names import claim_names
from interlock.systems.tasks.left_work import save_uncommitted
from interlock.systems.tasks.machines.ownership import SCOPE_VIOLATION, outside
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import Trigger
from interlock.systems.tasks.verification.evidence import changes_text
from interlock.systems.tasks.verification.model_inquiries import ModelInquiries
from interlock.systems.tasks.verification.review_checkout import review_checkout
from interlock.systems.tasks.verification.task_check import (
    check_task,
    repository_of,
    results_of,
    worktree_and_commit,
)
from interlock.systems.tasks.work_folders import kill_leftovers_of

AGENT_LOST = {"reason": "its agent was lost", "why": TransitionReason.ORPHAN_RECOVERED}


async def recovery(work: EffectWork[TaskData]) -> Outcome:
    """Commit partial work to its branch. If its completion signals pass, the task is `done`.

    Then it is verified and merged like any other. Work in files that the task does not own fails
    the task, and a person is asked. In every other case it is opened again, unless as many agents
    have been lost as the task may lose; then it fails and a person is asked.
    """
    if not work.record.data.get("repo"):
        return Outcome(Trigger.REQUEUED, AGENT_LOST)
    try:
        return await _recover(ModelInquiries(work))
    except GitError as refusal:
        return Outcome(Trigger.REQUEUED, {**AGENT_LOST, "detail": str(refusal)})


async def _recover(inquiries: ModelInquiries) -> Outcome:
    work, record = inquiries.work, inquiries.work.record
    repository = await asyncio.to_thread(repository_of, record, work.records.settings)
    tree, _ = await asyncio.to_thread(worktree_and_commit, repository, record)
    if tree is None:
        return Outcome(Trigger.REQUEUED, {**AGENT_LOST, "detail": "its worktree is gone"})
    if agent := record.data["claim"].get("agent"):
        # No process of the agent may write during the commit, the verification or the next claim.
        await asyncio.to_thread(kill_leftovers_of, work.records, str(agent))
    message = f"Partial work of a lost agent: {record.data['title']}\n\nTask: {record.id}\n"
    try:
        await asyncio.to_thread(commit_all, repository, tree, message=message, identity=COMMITTER)
    except RefusedError as refusal:
        save = partial(save_uncommitted, repository, tree, refusal, message=message)
        return Outcome(Trigger.REQUEUED, {**AGENT_LOST, "detail": await asyncio.to_thread(save)})
    names, settings = claim_names(record), work.records.settings
    commit = str(await asyncio.to_thread(head, repository, names.branch))
    began = {"base": tree.base, "target": str(record.data["target"])}
    base = await asyncio.to_thread(base_of_work, repository, **began, commit=commit)
    changed = await asyncio.to_thread(paths_between, repository, base=base, commit=commit)
    if not_owned := outside(changed, record.data["owned_files"]):
        shown = ", ".join(not_owned[:5])
        reason = {"reason": f"a lost agent changed files that it does not own: {shown}"}
        why = TransitionReason.PERMISSION_DENIED
        codes = {"code": SCOPE_VIOLATION, "why": why, "final": True}
        return Outcome(Trigger.UNRECOVERABLE, {**reason, **codes})
    if changed and record.data["signals"]:
        changes = partial(changes_text, repository, base=base, commit=commit)
        async with review_checkout(repository, names, commit, settings) as folder:
            verdict = await check_task(inquiries, folder, changes)
        if verdict.passed:
            return Outcome(Trigger.RECOVERED, {"commit": commit, "branch": names.branch})
        return Outcome(Trigger.REQUEUED, {**AGENT_LOST, "results": results_of(verdict)})
    return Outcome(Trigger.REQUEUED, AGENT_LOST)
