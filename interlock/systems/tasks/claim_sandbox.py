"""The sandbox of who has a claim: its level, which the claim keeps, and that of the checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.git.worktree import own_sandbox
from interlock.system.agents import Sandbox


def check_sandbox(sandbox: Sandbox | None, repo: str, folder: Path) -> Sandbox | None:
    """Return the sandbox of commands that check a worktree: its repository can only be read.

    Raises RefusedError for a worktree that is a link.
    """
    return sandbox and own_sandbox(sandbox, folder).with_more(read_only=[Path(repo)])


def level_text(claim: Mapping[str, Any] | None) -> str:
    """Return the level of the sandbox of who has a claim, for people; '' if it is not known."""
    level = str((claim or {}).get("sandbox", ""))
    return (
        f"{level}: a person's approval does not hold against it" if level == Sandbox.NONE else level
    )
