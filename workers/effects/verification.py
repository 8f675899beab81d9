"""Judges finished work by its completion signals and its owned files; it merges nothing."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from kernel.reason import TransitionReason
from kernel.record import Record
from workers.claimed_work import judged, outside, repository_of, worktree_of
from workers.gateways.git.branch import head
from workers.gateways.git.changes import changed_files
from workers.gateways.git.errors import RefusedError
from workers.work import Outcome, Work
from workers.workplace import workplace_of

RESULTS_MAX = 100


async def verification(work: Work) -> Outcome:
    """Look at the work of a claim in its own worktree. What is not there cannot be accepted."""
    record = work.record
    if not record.data.get("repo"):
        # A parent of subtasks, or a task that others did elsewhere: its word and its parts count.
        return Outcome("verified", {})
    try:
        return await _judged(work, record)
    except RefusedError as refusal:
        return Outcome("verification_rejected", {"reason": str(refusal), "final": True})


async def _judged(work: Work, record: Record) -> Outcome:
    repository = await asyncio.to_thread(repository_of, record)
    tree = await asyncio.to_thread(worktree_of, repository, record, work.dispatch.settings)
    if tree is None:
        return Outcome("verification_rejected", {"reason": "its worktree is gone"})
    changed = await asyncio.to_thread(changed_files, repository, tree, base=tree.base)
    beyond = outside(changed, record.data["owned_files"])
    if beyond:
        return Outcome(
            "verification_rejected",
            {
                "reason": f"it changed files that it does not own: {', '.join(beyond[:5])}",
                "why": TransitionReason.PERMISSION_DENIED,
                "paths": list(beyond[:RESULTS_MAX]),
                "final": True,
            },
        )
    verdict = await judged(record, tree.folder)
    results = [asdict(one) for one in verdict.results][:RESULTS_MAX]
    if not verdict.passed:
        first = next(one for one in verdict.results if not one.passed)
        reason = f"not what it asks for: {first.type} {first.value}: {first.detail}"[:2_000]
        return Outcome("verification_rejected", {"reason": reason, "results": results})
    branch = workplace_of(record).branch
    return Outcome("verified", {"results": results, "commit": head(repository, branch)})
