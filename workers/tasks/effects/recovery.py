"""Saves what a lost agent left behind, and judges it; it merges nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from interlock.kernel.reason import TransitionReason
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.git.branch import head
from interlock.workers.gateways.git.changes import commit_all
from interlock.workers.gateways.git.diff import paths_between
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.tasks.leftovers import kill_leftovers_of
from interlock.workers.tasks.ownership import IDENTITY, SCOPE_VIOLATION, outside
from interlock.workers.tasks.verification.checkout import checked_out
from interlock.workers.tasks.verification.evidence import changes_shown
from interlock.workers.tasks.verification.judges import Judges
from interlock.workers.tasks.verification.work import judged, repository_of, worktree_of
from interlock.workers.tasks.workplace import workplace_of

AGAIN = {"reason": "its agent was lost", "why": TransitionReason.ORPHAN_RECOVERED}


async def recovery(work: Work) -> Outcome:
    """Save partial work in a commit of its branch; only what its signals accept goes on."""
    if not work.record.data.get("repo"):
        return Outcome("requeued", AGAIN)
    async with Judges(work) as judges:
        try:
            outcome = await _recovered(judges)
        except GitError as refusal:
            outcome = Outcome("requeued", {**AGAIN, "detail": str(refusal)})
    return replace(outcome, deltas=judges.deltas)


async def _recovered(judges: Judges) -> Outcome:
    work, record = judges.work, judges.work.record
    repository = await asyncio.to_thread(repository_of, record)
    tree = await asyncio.to_thread(worktree_of, repository, record, work.dispatch.settings)
    if tree is None:
        return Outcome("requeued", {**AGAIN, "detail": "its worktree is gone"})
    if agent := record.data["claim"].get("agent"):
        # Nothing of it may write while this commits, judges and lets another begin.
        await asyncio.to_thread(kill_leftovers_of, work.dispatch, str(agent))
    message = f"Partial work of a lost agent: {record.data['title']}\n\nTask: {record.id}\n"
    await asyncio.to_thread(commit_all, repository, tree, message=message, identity=IDENTITY)
    place, settings = workplace_of(record), work.dispatch.settings
    commit = str(await asyncio.to_thread(head, repository, place.branch))
    changed = await asyncio.to_thread(paths_between, repository, base=tree.base, commit=commit)
    if beyond := outside(changed, record.data["owned_files"]):
        named = ", ".join(beyond[:5])
        told = {"reason": f"a lost agent changed files that it does not own: {named}"}
        why = TransitionReason.PERMISSION_DENIED
        codes = {"code": SCOPE_VIOLATION, "why": why, "final": True}
        return Outcome("unrecoverable", {**told, **codes})
    if changed and record.data["signals"]:
        changes = partial(changes_shown, repository, base=tree.base, commit=commit)
        async with checked_out(repository, place, commit, settings) as folder:
            if (await judged(judges, folder, changes)).passed:
                return Outcome("recovered", {"commit": commit, "branch": place.branch})
    return Outcome("requeued", AGAIN)
