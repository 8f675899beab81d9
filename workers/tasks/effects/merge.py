"""Merges verified work into its target branch, and pushes that where the task names a remote.

A conflict is a failure with the paths named. What a remote refuses is merged here all the same.
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
from interlock.workers.tasks.claims import cancelled_above
from interlock.workers.tasks.ownership import IDENTITY
from interlock.workers.tasks.verification.work import repository_of
from interlock.workers.tasks.workplace import workplace_of

TRIES = 20
PATHS_MAX = 100
REASON_MAX = 2_000
PASSING = (Refusal.DIRTY, Refusal.CHECKOUT_BUSY)


def merge(work: Work) -> Outcome:
    """Merge a claim's branch. Who moves the target meanwhile is no conflict: it is tried again."""
    record = work.record
    if not record.data.get("repo") or "claim" not in record.data:
        # Others did it elsewhere, or its parts are merged already.
        return Outcome("merged", {})
    if not record.data.get("merging"):
        return Outcome("merge_begun")
    if above := cancelled_above(work.dispatch, record):
        told = {"reason": f"{above}, which it is a part of, was cancelled", "final": True}
        return Outcome("verification_rejected", told)
    work.note("activity", {"word": "merging"})
    try:
        return _merged(work, record)
    except RefusedError as refusal:
        if refusal.refusal in PASSING:
            # The user is at work in the target: that ends, and the work is good. Again later.
            raise
        return Outcome("verification_rejected", {"reason": str(refusal)})


def _merged(work: Work, record: Record) -> Outcome:
    repository, target = repository_of(record), str(record.data["target"])
    branch = workplace_of(record).branch
    if head(repository, branch) != record.data["commit"]:
        reason = "its branch has moved since it was verified"
        return Outcome("verification_rejected", {"reason": reason})
    message = f"Merge {record.data['title']}\n\nTask: {record.id}\n"
    for _ in range(TRIES):
        work.raise_if_stopped()
        done = merge_branch(
            repository,
            branch=branch,
            target=target,
            message=message,
            identity=IDENTITY,
        )
        match done:
            case BranchMerged() | AlreadyMerged():
                refused = _pushed(work, repository, target)
                return refused or Outcome("merged", {"commit": done.commit})
            case MergeConflict():
                named = ", ".join(done.paths[:5])
                reason = f"it conflicts with what {target} has now: {named}"
                paths = list(done.paths[:PATHS_MAX])
                return Outcome("verification_rejected", {"reason": reason, "paths": paths})
            case TargetMoved():
                continue
    raise RuntimeError(f"{target} moved {TRIES} times while it was merged into")


def _pushed(work: Work, repository: Repository, target: str) -> Outcome | None:
    """Push the target where the task asks for it. An answer is a failure that no repeat mends."""
    remote = work.record.data.get("push")
    if not remote:
        return None
    work.raise_if_stopped()
    work.note("activity", {"word": "pushing"})
    try:
        done = push(repository, branch=target, remote=str(remote))
    except GitError as failure:
        if not isinstance(failure, RefusedError) and work.attempt < work.entry.attempts_max:
            # A remote that is away comes back; the next attempt finds the merge done.
            raise
        # An agent that did the work anew would find it there, and change nothing.
        reason = f"it is merged into {target} here, but {remote} does not have it: {failure}"
        return Outcome("verification_rejected", {"reason": reason[:REASON_MAX], "final": True})
    work.audit("pushed", {"remote": done.remote, "branch": done.branch, "commit": done.commit})
    return None
