"""The questions that a task's cards ask."""

from __future__ import annotations

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
    return f"Its work was verified. Shall it be merged into {data['target']}?"


def try_again(data: Data) -> str:
    """Ask whether a failed task shall be tried again."""
    return f"It failed and has no retries left: {failure_reason(data)} Try it again?"


def is_settled(data: Data) -> str:
    """Ask whether what blocks a task is settled."""
    return f"It waits for this: {as_sentence(data['blocked_on']['on'])} Is it settled?"
