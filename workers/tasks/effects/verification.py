"""Judges finished work by its completion signals and its owned files; it merges nothing."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from functools import partial

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.reason import TransitionReason
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.git.branch import commit_of, head
from interlock.workers.gateways.git.diff import paths_between
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.tasks.claim_names import Workplace, workplace_of
from interlock.workers.tasks.ownership import SCOPE_VIOLATION, outside
from interlock.workers.tasks.verification.evidence import changes_shown, parts_shown
from interlock.workers.tasks.verification.judges import Judges
from interlock.workers.tasks.verification.review_checkout import checked_out
from interlock.workers.tasks.verification.signals import Verdict
from interlock.workers.tasks.verification.work import judged, repository_of, worktree_of

RESULTS_MAX = 100
GONE_LOOK_S = 0.1
GONE_LOOKS = 900  # longer than the lease of an agent whose keeper was lost as it told its end


async def verification(work: Work) -> Outcome:
    """Look at the work of a claim in its own worktree. What is not there cannot be accepted."""
    if not work.record.data.get("repo"):
        # A parent of subtasks, or a task that others did elsewhere: its word and its parts count.
        return Outcome("verified", {})
    await _agent_gone(work)
    async with Judges(work) as judges:
        try:
            outcome = await (_judged if "claim" in work.record.data else _joined)(judges)
        except RefusedError as refusal:
            outcome = Outcome("verification_rejected", {"reason": str(refusal), "final": True})
    return replace(outcome, deltas=judges.deltas)


class AtWorkError(RuntimeError):
    """The agent is still there, in the very worktree that is to be judged."""


async def _agent_gone(work: Work) -> None:
    """Wait for who said itself that it is done, and has yet to be ended. Raises AtWorkError."""
    agent = (work.record.data.get("claim") or {}).get("agent")
    for _ in range(GONE_LOOKS):
        if not (agent and await asyncio.to_thread(_at_work, work, str(agent))):
            return
        await asyncio.sleep(GONE_LOOK_S)
    raise AtWorkError(f"{agent} is still at work on it")


def _at_work(work: Work, agent: str) -> bool:
    try:
        found = work.dispatch.views.record(agent)
    except UnknownRecordError:
        return False
    here = found.data["task"] == work.record.id
    return here and found.state in ("starting", "working")


async def _joined(judges: Judges) -> Outcome:
    """Judge what a parent's subtasks merged: the target as it is, in a worktree made for it."""
    work, record = judges.work, judges.work.record
    if not record.data["signals"]:
        return Outcome("verified", {})
    repository = await asyncio.to_thread(repository_of, record)
    commit = await asyncio.to_thread(commit_of, repository, str(record.data["target"]))
    place = Workplace(record.id, 0)  # no claim's: they count from 1
    async with checked_out(repository, place, commit, work.dispatch.settings) as folder:
        changes = partial(parts_shown, repository, record, work.dispatch.views)
        return _told(await judged(judges, folder, changes), commit)


async def _judged(judges: Judges) -> Outcome:
    work, record = judges.work, judges.work.record
    repository = await asyncio.to_thread(repository_of, record)
    tree = await asyncio.to_thread(worktree_of, repository, record, work.dispatch.settings)
    if tree is None:
        return Outcome("verification_rejected", {"reason": "its worktree is gone"})
    branch = workplace_of(record).branch
    commit = await asyncio.to_thread(head, repository, branch)
    if commit is None:
        return Outcome("verification_rejected", {"reason": "its branch is gone"})
    changed = await asyncio.to_thread(paths_between, repository, base=tree.base, commit=commit)
    beyond = outside(changed, record.data["owned_files"])
    if beyond:
        return Outcome(
            "verification_rejected",
            {
                "reason": f"it changed files that it does not own: {', '.join(beyond[:5])}",
                "code": SCOPE_VIOLATION,
                "why": TransitionReason.PERMISSION_DENIED,
                "paths": list(beyond[:RESULTS_MAX]),
                "final": True,
            },
        )
    changes = partial(changes_shown, repository, base=tree.base, commit=commit)
    place, settings = workplace_of(record), work.dispatch.settings
    async with checked_out(repository, place, commit, settings) as folder:
        return _told(await judged(judges, folder, changes), commit)


def _told(verdict: Verdict, commit: str | None) -> Outcome:
    results = [asdict(one) for one in verdict.results][:RESULTS_MAX]
    first = next((one for one in verdict.results if not one.passed), None)
    if first is not None:
        reason = f"not what it asks for: {first.type} {first.value}: {first.detail}"[:2_000]
        return Outcome("verification_rejected", {"reason": reason, "results": results})
    return Outcome("verified", {"results": results, "commit": commit})
