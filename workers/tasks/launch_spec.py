"""What the supervisor of a task's agent is started with."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.workers.supervision.launch import LaunchSpec


@dataclass(frozen=True, slots=True)
class ClaimPaths:
    """A claimed task with its lease, its turn, and the worktree in which it is worked on."""

    task_key: str
    task_token: str
    turn: str
    repo: str
    worktree: str
    branch: str
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLaunchSpec(LaunchSpec):
    """A new agent: its lease, its command, and the paths of its first task."""

    command: str
    stream: str
    session: bool
    place: ClaimPaths
