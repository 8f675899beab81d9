"""The launch spec of the supervisor of one session of a long-lived agent."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.system.agents import LaunchSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLaunchSpec(LaunchSpec):
    """One attempt to run a session: the worktree, the command and the stored prompt."""

    worktree: str
    command: str
    prompt: str
    digest: str
    session_seq: int
