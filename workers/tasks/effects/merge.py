"""Merges verified work into its target branch, and pushes that where the task names a remote.

If others have merged since the task began, the merge is verified before the target has it: two
tasks that pass alone can fail together. A conflict is a failure that names the paths. If a remote
refuses the push, the merge remains.
"""

from __future__ import annotations

import asyncio
from typing import Any

from interlock.kernel.reason import TransitionReason
from interlock.workers.engine.work import ObstacleError, Outcome, Work
from interlock.workers.gateways.git.errors import GitError, Refusal, RefusedError
from interlock.workers.gateways.git.merge import (
    AlreadyMerged,
    BranchMerged,
    BranchMoved,
    MergeConflict,
    MergeUnverified,
    TargetMoved,
)
from interlock.workers.gateways.git.merge import merge as merge_branch
from interlock.workers.gateways.git.remote import push
from interlock.workers.gateways.git.repository import COMMITTER, Repository
from interlock.workers.tasks.claim_names import claim_names
from interlock.workers.tasks.parent_task import cancelled_parent
from interlock.workers.tasks.verification.review_checkout import review_checkout
from interlock.workers.tasks.verification.task_check import (
    check_task_without_models,
    rejection,
    repository_of,
    signals_without_models,
)

ATTEMPTS_MAX = 20
PATHS_MAX = 100
REASON_MAX = 2_000
# The user has changes, or a rebase under way, in the checkout of the target: a card asks the user
# to end that, and the merge is tried again.
OBSTACLES = (Refusal.DIRTY, Refusal.CHECKOUT_BUSY)


async def merge(work: Work) -> Outcome:
    """Merge the branch of a claim. If the target moves meanwhile, the merge is tried again."""
    record = work.record
    if not record.data.get("repo") or "claim" not in record.data:
        # The work was done outside of Interlock, or its subtasks are merged already.
        return Outcome("merged", {})
    if not record.data.get("merging"):
        # This only takes the hold on the target. The state is entered again, so this effect is owed
        # once more; while another task has the hold, this effect waits in line for it.
        return Outcome("merge_begun")
    if parent := await asyncio.to_thread(cancelled_parent, work.dispatch, record):
        reason = f"{parent}, which it is a part of, was cancelled"
        payload = {"reason": reason, "why": TransitionReason.ABORTED, "final": True}
        return Outcome("verification_rejected", payload)
    await asyncio.to_thread(work.note, "activity", {"doing": "merging"})
    try:
        repository = await asyncio.to_thread(repository_of, record)
        return await _merge_branch(work, repository)
    except RefusedError as refusal:
        if refusal.refusal in OBSTACLES:
            raise ObstacleError(str(refusal)) from refusal
        return _refused(str(refusal))


async def _merge_branch(work: Work, repository: Repository) -> Outcome:
    record, target = work.record, str(work.record.data["target"])
    branch, commit = claim_names(record).branch, str(record.data["commit"])
    # Where the target has not moved since the claim, a merge has exactly the files of this commit.
    verified = {commit} if signals_without_models(record) else None
    for _ in range(ATTEMPTS_MAX):
        work.raise_if_stopped()
        done = await asyncio.to_thread(
            merge_branch,
            repository,
            branch=branch,
            target=target,
            message=f"Merge {record.data['title']}\n\nTask: {record.id}\n",
            identity=COMMITTER,
            verified=verified,
            commit=commit,
        )
        match done:
            case BranchMerged() | AlreadyMerged():
                refused = await asyncio.to_thread(_push, work, repository, target)
                return refused or Outcome("merged", {"commit": done.commit})
            case MergeUnverified():
                assert verified is not None, "a merge is unverified only where commits were given"
                if rejected := await _check_merge(work, repository, done.commit):
                    return rejected
                verified.add(done.commit)
            case MergeConflict():
                shown = ", ".join(done.paths[:5])
                reason = f"it conflicts with what {target} has now: {shown}"
                paths = list(done.paths[:PATHS_MAX])
                return _refused(reason, paths=paths)
            case BranchMoved():
                return _refused("its branch has moved since it was verified")
            case TargetMoved():
                continue
    raise RuntimeError(f"{target} moved {ATTEMPTS_MAX} times while it was merged into")


async def _check_merge(work: Work, repository: Repository, commit: str) -> Outcome | None:
    """Check a merge before the target has it. Return an outcome only if a signal fails.

    No model is asked again: it judged the changes of the task, and these are the same.
    """
    record, settings = work.record, work.dispatch.settings
    await asyncio.to_thread(work.note, "activity", {"doing": "verifying the merge"})
    async with review_checkout(repository, claim_names(record), commit, settings) as folder:
        verdict = await check_task_without_models(record, folder, settings)
    rejected = rejection(verdict, merged_into=str(record.data["target"]))
    return Outcome("verification_rejected", rejected) if rejected else None


def _push(work: Work, repository: Repository, target: str) -> Outcome | None:
    """Push the target if the task names a remote. Return an outcome only if the push failed."""
    remote = work.record.data.get("push")
    if not remote:
        return None
    work.raise_if_stopped()
    work.note("activity", {"doing": "pushing"})
    try:
        done = push(repository, branch=target, remote=str(remote))
    except GitError as failure:
        if not isinstance(failure, RefusedError) and work.attempt < work.entry.attempts_max:
            # The remote may be reachable again at the next attempt, which finds the merge done.
            raise
        # Final: an agent that tried the task again would find the work merged, and change nothing.
        reason = f"it is merged into {target} here, but {remote} does not have it: {failure}"
        return _refused(reason, final=True)
    work.audit("pushed", {"remote": done.remote, "branch": done.branch, "commit": done.commit})
    return None


def _refused(reason: str, **more: Any) -> Outcome:
    """Return the outcome of verified work that cannot be brought to its target."""
    why = TransitionReason.MERGE_FAILED
    return Outcome("verification_rejected", {"reason": reason[:REASON_MAX], "why": why, **more})
