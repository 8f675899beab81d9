"""Merges verified work into its target branch; a conflict is a failure with the paths named."""

from __future__ import annotations

from kernel.record import Record
from workers.claimed_work import IDENTITY, repository_of
from workers.gateways.git.branch import head
from workers.gateways.git.errors import Refusal, RefusedError
from workers.gateways.git.merge import AlreadyMerged, Conflict, Merged, Moved
from workers.gateways.git.merge import merge as merge_branch
from workers.work import Outcome, Work
from workers.workplace import workplace_of

TRIES = 20
PATHS_MAX = 100
PASSING = (Refusal.DIRTY, Refusal.CHECKOUT_BUSY)


def merge(work: Work) -> Outcome:
    """Merge a claim's branch. Who moves the target meanwhile is no conflict: it is tried again."""
    record = work.record
    if not record.data.get("repo") or "claim" not in record.data:
        # Others did it elsewhere, or its parts are merged already.
        return Outcome("merged", {})
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
        work.go_on()
        done = merge_branch(
            repository,
            branch=branch,
            target=target,
            message=message,
            identity=IDENTITY,
        )
        match done:
            case Merged() | AlreadyMerged():
                return Outcome("merged", {"commit": done.commit})
            case Conflict():
                named = ", ".join(done.paths[:5])
                reason = f"it conflicts with what {target} has now: {named}"
                paths = list(done.paths[:PATHS_MAX])
                return Outcome("verification_rejected", {"reason": reason, "paths": paths})
            case Moved():
                continue
    raise RuntimeError(f"{target} moved {TRIES} times while it was merged into")
