"""The questions that a task's cards ask."""

from __future__ import annotations

import shlex

from interlock.system.tables import RecordData as Data
from interlock.system.tables import as_sentence
from interlock.systems.tasks.machines.task.changes import awaited, backoff_ms, is_verified
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.subtasks import waits_for_subtasks

# The other answer to whether a failed task shall be tried again.
ELSE = "If you cancel it instead, what depends on it never starts."
NO_SANDBOX = (
    "Its agent ran in no sandbox, as the user of its worker, so it could have answered this itself."
)
# What a task does next that is blocked on its subtasks.
GOES_ON = (
    "It goes on by itself once all have ended well. "
    "Shall it be offered as a whole to another agent instead?"
)
NEVER_GOES_ON = (
    "It does not go on by itself, as a cancelled subtask never ends well. "
    "Shall it be offered as a whole to another agent?"
)


def approve_plan(data: TaskData) -> str:
    """Ask whether a planned task shall be worked on."""
    names = awaited(data)
    before = f", after {', '.join(names)}" if names else ""
    return f"It is planned in {data['plan']}{before}. Shall it be worked on?"


def approve_merge(data: TaskData) -> str:
    """Ask whether verified work shall be merged."""
    changes = data.get("changes")
    found = f" ({counts_text(changes)}, on the branch {data['branch']})" if changes else ""
    was = "was verified"
    if data.get("rewritten"):
        was = f"was put on top of {data['target']}, which was reset or rebased, and verified again"
    why = f"; {data['asks']}" if data.get("asks") else ""
    warning = f" {NO_SANDBOX}" if is_unconfined(data) else ""
    return f"Its work {was}{found}{why}.{warning} Shall it be merged into {data['target']}?"


def is_unconfined(data: TaskData) -> bool:
    """Whether the agent that does a task, or has done it, runs in no sandbox."""
    return data.get("claim", {}).get("sandbox") == "none"


def counts_text(changes: Data) -> str:
    """Return how many files and lines some work changes."""
    files = f"{changes['files']} file{'' if changes['files'] == 1 else 's'}"
    binary = f", {changes['binary']} of them binary" if changes["binary"] else ""
    return f"{files}{binary}, +{changes['added']} -{changes['removed']}"


def diff_command(data: TaskData) -> str:
    """Return the command that shows what would be merged; where there is no branch, nothing."""
    if not data.get("changes"):
        return ""
    between = f"{data['target']}...{data['branch']}"
    return shlex.join(("git", "-C", data["repo"], "diff", between))


def next_step(data: TaskData) -> str:
    """Say what follows when an agent has delivered its work: verification, merge, then a push."""
    if not is_verified(data):
        return "Its work is verified next."
    if data.get("merged"):
        return f"Its work is merged into {data['target']}; that is pushed to {data['push']} next."
    how = "approved" if data.get("approved") else "verified"
    into = f"; it is merged into {data['target']} next" if data.get("repo") else ""
    return f"Its work is {how}{into}."


def next_try(data: TaskData) -> str:
    """Say when a failed task is tried again by itself; where it is not, nothing."""
    wait_ms = backoff_ms(data)
    if wait_ms is None:
        return ""
    left = data["max_retries"] - data["retries"]
    tries = f"{left} {'try is' if left == 1 else 'tries are'} left"
    return f"It is tried again {wait_ms // 1_000} s after it failed; {tries}. Cancel it to end it."


def try_again(data: TaskData) -> str:
    """Ask whether a failed task shall be tried again."""
    left = data["retries"] < data["max_retries"]
    how = "is not tried again by itself" if left else "has no retries left"
    failure = data.get("failure", {})
    why = failure.get("reason") or failure.get("detail") or "no reason was given"
    return f"It failed and {how}: {as_sentence(why)} Try it again? {ELSE}"


def is_still_blocked(data: TaskData) -> str:
    """Ask whether a blocked task has to wait any longer."""
    if waits_for_subtasks(data):
        blocked_on = data["blocked_on"]
        onward = NEVER_GOES_ON if blocked_on.get("cancelled") else GOES_ON
        return f"It waits for {blocked_on['on']}. {onward} Its subtasks go on too."
    return f"It waits for this: {as_sentence(data['blocked_on']['on'])} Is it resolved?"
