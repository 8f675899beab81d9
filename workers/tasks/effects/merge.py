"""Merges verified work into its target branch, and pushes that where the task names a remote.

A conflict is a failure that names the paths. If a remote refuses the push, the merge remains.
"""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.git.branch import head
from interlock.workers.gateways.git.errors import GitError, Refusal, RefusedError
from interlock.workers.gateways.git.merge import (
    AlreadyMerged,
    BranchMerged,
    MergeConflict,
    TargetMoved,
)
from interlock.workers.gateways.git.merge import merge as merge_branch
from interlock.workers.gateways.git.remote import push
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.tasks.claim_names import claim_names
from interlock.workers.tasks.claims import cancelled_parent
from interlock.workers.tasks.ownership import COMMITTER
from interlock.workers.tasks.verification.work import repository_of

ATTEMPTS_MAX = 20
PATHS_MAX = 100
REASON_MAX = 2_000
# The user works in the target: the merge is tried again later.
TRANSIENT = (Refusal.DIRTY, Refusal.CHECKOUT_BUSY)


def merge(work: Work) -> Outcome:
    """Merge the branch of a claim. If the target moves meanwhile, the merge is tried again."""
    record = work.record
    if not record.data.get("repo") or "claim" not in record.data:
        # The work was done outside of Interlock, or its subtasks are merged already.
        return Outcome("merged", {})
    if not record.data.get("merging"):
        # This only takes the hold on the target. The state is entered again, so this effect is owed
        # once more; while another task has the hold, the outcome is refused and tried again.
        return Outcome("merge_begun")
    if parent := cancelled_parent(work.dispatch, record):
        payload = {"reason": f"{parent}, which it is a part of, was cancelled", "final": True}
        return Outcome("verification_rejected", payload)
    work.note("activity", {"doing": "merging"})
    try:
        return _merge_branch(work, record)
    except RefusedError as refusal:
        if refusal.refusal in TRANSIENT:
            raise
        return Outcome("verification_rejected", {"reason": str(refusal)})


def _merge_branch(work: Work, record: Record) -> Outcome:
    repository, target = repository_of(record), str(record.data["target"])
    branch = claim_names(record).branch
    if head(repository, branch) != record.data["commit"]:
        reason = "its branch has moved since it was verified"
        return Outcome("verification_rejected", {"reason": reason})
    message = f"Merge {record.data['title']}\n\nTask: {record.id}\n"
    for _ in range(ATTEMPTS_MAX):
        work.raise_if_stopped()
        done = merge_branch(
            repository,
            branch=branch,
            target=target,
            message=message,
            identity=COMMITTER,
        )
        match done:
            case BranchMerged() | AlreadyMerged():
                refused = _push(work, repository, target)
                return refused or Outcome("merged", {"commit": done.commit})
            case MergeConflict():
                shown = ", ".join(done.paths[:5])
                reason = f"it conflicts with what {target} has now: {shown}"
                paths = list(done.paths[:PATHS_MAX])
                return Outcome("verification_rejected", {"reason": reason, "paths": paths})
            case TargetMoved():
                continue
    raise RuntimeError(f"{target} moved {ATTEMPTS_MAX} times while it was merged into")


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
        return Outcome("verification_rejected", {"reason": reason[:REASON_MAX], "final": True})
    work.audit("pushed", {"remote": done.remote, "branch": done.branch, "commit": done.commit})
    return None
