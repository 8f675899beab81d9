"""The questions that a task's cards ask."""

from __future__ import annotations

import shlex

from interlock.kernel.machines.tasks.task.changes import awaited
from interlock.kernel.question import as_sentence, failure_reason
from interlock.kernel.table import Data


def approve_plan(data: Data) -> str:
    """Ask whether a planned task shall be worked on."""
    names = awaited(data)
    before = f", after {', '.join(names)}" if names else ""
    return f"It is planned in {data['plan']}{before}. Shall it be worked on?"


def approve_merge(data: Data) -> str:
    """Ask whether verified work shall be merged."""
    changes = data.get("changes")
    found = f" ({_counts(changes)}, on the branch {data['branch']})" if changes else ""
    return f"Its work was verified{found}. Shall it be merged into {data['target']}?"


def _counts(changes: Data) -> str:
    files = f"{changes['files']} file{'' if changes['files'] == 1 else 's'}"
    binary = f", {changes['binary']} of them binary" if changes["binary"] else ""
    return f"{files}{binary}, +{changes['added']} -{changes['removed']}"


def diff_command(data: Data) -> str:
    """Return the command that shows what would be merged; where there is no branch, nothing."""
    if not data.get("changes"):
        return ""
    between = f"{data['target']}...{data['branch']}"
    return shlex.join(("git", "-C", data["repo"], "diff", between))


def try_again(data: Data) -> str:
    """Ask whether a failed task shall be tried again."""
    return f"It failed and has no retries left: {failure_reason(data)} Try it again?"


def is_settled(data: Data) -> str:
    """Ask whether what blocks a task is settled."""
    return f"It waits for this: {as_sentence(data['blocked_on']['on'])} Is it settled?"
