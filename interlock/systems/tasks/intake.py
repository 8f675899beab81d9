"""Creates coding tasks from the messages of producers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from interlock import Client, Submitted
from interlock.systems.tasks.client import Tasks


def accept(client: Client, task: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Create a task. Raises CallError if the message can never be accepted.

    The task's repository is only checked if it is on this computer. One that is no absolute path is
    on none, and refused.
    """
    repo = payload.get("repo")
    # Unlike these, a Path refuses texts that are no paths.
    local = isinstance(repo, str) and (os.path.isdir(repo) or not os.path.isabs(repo))  # noqa: PTH112, PTH117
    fields = Tasks(client).check(task, payload, local=local)
    return client.submit(fields, id=task, machine="task", priority=priority)
