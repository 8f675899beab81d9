"""Removes the worktree of a stopped long-lived agent. Its branch keeps its work."""

from __future__ import annotations

from pathlib import Path

from interlock import EffectWork
from interlock.git.errors import RefusedError
from interlock.git.repository import Repository
from interlock.git.saved_work import commit_work
from interlock.git.worktree import remove_worktree, worktrees
from interlock.system.agents import Sandbox, kill_leftovers
from interlock.systems.loops.machines.loop.data import Life, LoopData
from interlock.systems.loops.paths import AgentPaths


def agent_cleanup(work: EffectWork[LoopData]) -> None:
    """Commit the uncommitted changes of a stopped agent and remove its worktree.

    This effect waits until the last session's effect is settled, so no session runs any more.
    """
    records = work.records
    record: Life = records.views.record(work.record.id)
    paths, data = AgentPaths(record.id, records.settings), record.data
    for attempt in (data["attempt"] - 1, data["attempt"]):
        kill_leftovers(paths.session(attempt), owner=record.id)
    if records.views.holds(paths.name):
        return  # the next life of this name works in the same worktree already
    try:
        repository = Repository.open(Path(data["repo"]), sandbox=Sandbox.open(paths.settings))
    except RefusedError:
        return  # the repository is gone, and its worktrees with it
    found = next((tree for tree in worktrees(repository) if tree.branch == paths.branch), None)
    if found is None:
        return
    message = f"What {paths.name} had not committed when it stopped\n"
    try:
        commit_work(repository, found, message=message, identity=paths.identity)
        remove_worktree(repository, found.folder, force=True)
    except RefusedError as refusal:
        # The changes exist only in this worktree, so it stays. The next life works on in it.
        work.audit("worktree_kept", {"worktree": str(found.folder), "reason": str(refusal)})
