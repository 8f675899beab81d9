"""Accepts plain messages of producers that ask for a coding task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.workers.client import Client, Submitted
from interlock.workers.tasks.client import Tasks


def accept(client: Client, task: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Create a task. Raises CallError where it can never be accepted.

    Its repository is looked at only if it is on this machine.
    """
    repo = payload.get("repo")
    local = isinstance(repo, str) and Path(repo).is_dir()
    checked = Tasks(client).checked(task, payload, here=local)
    return client.submit(checked, id=task, machine="task", priority=priority)
