"""What the choices of a task's cards say."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.system.tables import ChoiceWords
from interlock.systems.tasks.machines.task.data import TaskData

ENDS = "The task is cancelled for good, and what depends on it never starts."
OF_PLAN = {
    "approve": ChoiceWords("Yes, work on it"),
    "reject": ChoiceWords("No, cancel it", ENDS),
}
OF_FAILURE = {
    "retry": ChoiceWords("Try it again"),
    "cancel": ChoiceWords("Give it up", ENDS),
}
OF_BLOCK = {
    "unblock": ChoiceWords("Go on: it is resolved"),
    "cancel": ChoiceWords("Give it up", ENDS),
}


def of_merge(data: TaskData) -> Mapping[str, ChoiceWords]:
    """Return the words of the choices where verified work waits for its merge."""
    target, push = data["target"], data.get("push")
    final = f"It is pushed to {push}, where others may take it at once." if push else ""
    where = f"into {target}, and push to {push}" if push else f"into {target}"
    return {
        "approve": ChoiceWords(f"Merge it {where}", final),
        "reject": ChoiceWords("Do not merge it: something is wrong"),
        "cancel": ChoiceWords("Cancel the task", f"{ENDS} Its work is not merged."),
    }
