"""Work of tasks that is delivered, and the effects that verify and merge it, without workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.git.changes import commit_all
from interlock.git.repository import Repository
from interlock.git.worktree import add_worktree
from interlock.kernel.machines import MACHINES
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.systems import handlers
from tests.git.scene import AGENT, write
from tests.systems.tasks.claims import Claimed, claimed
from tests.workers.engine import running


def delivered(
    client: Client,
    repository: Repository,
    file: str,
    command: str,
    *,
    add: Callable[[Path], object] = lambda _: None,
    **fields: Any,
) -> Claimed:
    """Bring a task to its verification by a command; its agent has committed a file.

    `add` adds more to the worktree before the commit.
    """
    signals = [{"type": "test_passes", "value": command}]
    where: dict[str, Any] = {"repo": str(repository.root), "signals": signals}
    claim = claimed(client, f"b/{file}", **where, **fields).alive()
    names = claim.names
    folder = names.worktree(client.settings)
    tree = add_worktree(repository, branch=names.branch, folder=folder, base="main")
    write(folder, **{file: "x\n"})
    add(folder)
    assert commit_all(repository, tree, message=file, identity=AGENT)
    return claim.delivered()


def perform(client: Client, task_id: str, name: str) -> str:
    """Perform an effect that a task owes, and return the state of the task."""
    runner = Runner(client.dispatch, Resources(client.settings))
    (entry,) = [entry for entry in client.show(task_id).entries if entry.name == name]
    running.perform(runner, MACHINES["task"], name, handlers()[f"task.{name}"], entry.key(task_id))
    return client.show(task_id).state
