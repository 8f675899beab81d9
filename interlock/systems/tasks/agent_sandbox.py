"""The sandbox of the agent of a task: what it sees of its worktree and of its work folder."""

from __future__ import annotations

from pathlib import Path

from interlock.git.private_copy import sandbox_of
from interlock.system.agents import Sandbox
from interlock.systems.tasks.current_task import CurrentTask

TASK_FILE = "task.md"


def agent_sandbox(task: CurrentTask, work_folder: Path, *, is_session: bool) -> Sandbox | None:
    """Return the sandbox of an agent that starts with a task. Raises GitError, OSError.

    A session sees the worktrees of all its tasks. It can only read what git keeps, because its
    sandbox is made before these worktrees are.
    """
    if task.sandbox is None:
        return None
    if is_session:
        worktrees = Path(task.claim.worktree).parent
        # Its folder is in a hidden one. It is an empty one in the sandbox.
        return task.sandbox.with_more(hidden=[work_folder], writable=[worktrees])
    file, confined = work_folder / TASK_FILE, sandbox_of(task.repository(), task.tree())
    return confined and confined.with_more(shown=[(file, file)])
