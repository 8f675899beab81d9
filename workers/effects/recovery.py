"""Saves what a lost agent left behind, and judges it; it merges nothing."""

from __future__ import annotations

import asyncio

from kernel.reason import TransitionReason
from workers.claimed_work import IDENTITY, judged, outside, repository_of, worktree_of
from workers.gateways.git.branch import head
from workers.gateways.git.changes import changed_files, commit_all
from workers.gateways.git.errors import GitError
from workers.work import Outcome, Work
from workers.workplace import workplace_of

AGAIN = {"reason": "its agent was lost", "why": TransitionReason.ORPHAN_RECOVERED}


async def recovery(work: Work) -> Outcome:
    """Save partial work in a commit of its branch; only what its signals accept goes on."""
    record = work.record
    if not record.data.get("repo"):
        return Outcome("requeued", AGAIN)
    try:
        repository = await asyncio.to_thread(repository_of, record)
        tree = await asyncio.to_thread(worktree_of, repository, record, work.dispatch.settings)
        if tree is None:
            return Outcome("requeued", {**AGAIN, "detail": "its worktree is gone"})
        message = f"Partial work of a lost agent: {record.data['title']}\n\nTask: {record.id}\n"
        await asyncio.to_thread(commit_all, repository, tree, message=message, identity=IDENTITY)
        changed = await asyncio.to_thread(changed_files, repository, tree, base=tree.base)
    except GitError as refusal:
        return Outcome("requeued", {**AGAIN, "detail": str(refusal)})
    if changed and record.data["signals"] and not outside(changed, record.data["owned_files"]):
        verdict = await judged(record, tree.folder)
        if verdict.passed:
            branch = workplace_of(record).branch
            commit = await asyncio.to_thread(head, repository, branch)
            return Outcome("recovered", {"commit": str(commit), "branch": branch})
    return Outcome("requeued", AGAIN)
