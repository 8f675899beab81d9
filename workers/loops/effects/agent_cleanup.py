"""Clears away what a stopped long-lived agent leaves on its machine; its work is on its branch."""

from __future__ import annotations

from pathlib import Path

from interlock.workers.engine.work import Work
from interlock.workers.gateways.git.changes import commit_all
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import remove_worktree, worktrees
from interlock.workers.loops.paths import Home
from interlock.workers.supervision.launch import process_label
from interlock.workers.supervision.leftovers import kill_leftovers


def retirement(work: Work) -> None:
    """Commit what is not committed, and remove the worktree. Its last session is gone by now.

    It waits behind that session as one that shares its place.
    """
    record = work.dispatch.views.record(work.record.id)
    home, data = Home(record.id, work.dispatch.settings), record.data
    for attempt in (int(data["attempt"]) - 1, int(data["attempt"])):
        kill_leftovers(process_label(home.session(attempt)), of=record.id)
    if work.dispatch.views.holds(home.name):
        return  # its next life goes on in the same worktree
    try:
        repository = Repository.open(Path(str(data["repo"])))
    except RefusedError:
        return  # the repository is gone, and its worktrees with it
    found = next((tree for tree in worktrees(repository) if tree.branch == home.branch), None)
    if found is None or not found.present:
        return
    message = f"What {home.name} had not committed when it stopped\n"
    try:
        commit_all(repository, found, message=message, identity=home.identity)
    except RefusedError as refusal:
        # Its work is nowhere else: whoever looks for it finds it, and its next life goes on there.
        work.audit("worktree_kept", {"worktree": str(found.folder), "reason": str(refusal)})
        return
    remove_worktree(repository, found.folder, force=True)
