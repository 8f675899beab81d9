"""What the supervisor of a long-lived agent's session is started with."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.workers.supervision.launch import LaunchSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLaunchSpec(LaunchSpec):
    """One attempt to run a session: its lease, its command, its stored prompt, its worktree."""

    worktree: str
    command: str
    prompt: str
    digest: str
    session_seq: int
