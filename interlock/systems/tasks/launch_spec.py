"""The launch spec of the supervisor of a task's agent."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.system.agents import LaunchSpec


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claimed task, ready for an agent: its lease, its turn and its worktree."""

    task_key: str
    task_token: str
    turn: str
    repo: str
    worktree: str
    branch: str
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLaunchSpec(LaunchSpec):
    """A new agent: its lease, its command, and the claim of its first task."""

    command: str
    stream: str
    session: bool
    claim: PreparedClaim
