"""How a task is split into parts, and what each part has of the whole. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock import Ask
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.ownership import outside
from interlock.systems.tasks.machines.task import limits
from interlock.systems.tasks.machines.task.changes import unclaimed
from interlock.systems.tasks.machines.task.data import TaskData

# The fields of a task that its subtasks have as well.
INHERITED = (
    "repo",
    "target",
    "push",
    "agent",
    "agent_name",
    "session",
    "idle_limit_s",
    "stream",
    "tenant",
    "remind_s",
    "stop_hooks",
    "max_lost",
    "budget_micro",
    "subtasks_s",
    "tool_failures_max",
    "abort_policy",
    "stage_failures",
)


def split(ask: Ask[TaskData]) -> Data:
    """List the subtasks. Raises InvalidPayloadError for a part with files that the whole lacks."""
    agent = ask.data.get("claim", {}).get("agent")
    parts = ask.payload["subtasks"]
    after = {**unclaimed(ask), "children": parts, "split_by": agent}
    for number, part in enumerate(parts, start=1):
        _refuse_files_outside(number, part.get("owned_files", ()), after["owned_files"])
    return after


def _refuse_files_outside(number: int, paths: Sequence[str], owned: Sequence[str]) -> None:
    if found := outside(paths, owned):
        problem = f"part {number} owns {', '.join(found)}: the whole owns only {', '.join(owned)}"
        raise InvalidPayloadError("split", [problem])


def child_cancelled(ask: Ask[TaskData]) -> Data:
    """List a subtask that the owner gives up; an effect ends it. The newest are kept."""
    listed = dict.fromkeys([*ask.data.get("cancel_children", []), ask.payload["child"]])
    return {**ask.data, "cancel_children": [*listed][-limits.SUBTASKS_MAX :]}


def child_payload(
    parent: Data, child: Data, siblings: Sequence[str]
) -> tuple[Data, Mapping[str, int | None]]:
    """Return the payload of a subtask, which has no bounds of its own.

    It has its own work, and its parent's repository, agent and limits. `siblings` are the ids of
    all parts in their order; the subtask waits for those that its `after` numbers.
    """
    inherited = {name: parent[name] for name in INHERITED if parent.get(name) is not None}
    # What binds a task binds its subtasks, or a split would be a way around it. Where the task has
    # signals, and a subtask has none or those that its agent chose, a person must see its work.
    unchecked = parent["signals"] and (parent.get("split_by") or not child.get("signals"))
    asks = parent["needs_approval"] or child.get("needs_approval") or unchecked
    bound: dict[str, Any] = {"needs_approval": bool(asks)}
    if "max_retries" in child:
        bound["max_retries"] = min(child["max_retries"], parent["max_retries"])
    if child.get("role", "any") == "any":
        bound["role"] = parent["role"]
    if parent.get("split_by"):
        bound["parent_agent"] = parent["split_by"]
    bound["owned_files"] = child.get("owned_files") or parent["owned_files"]
    if earlier := child.get("after"):
        bound["depends_on"] = [siblings[number - 1].partition("/")[2] for number in earlier]
    own = {name: value for name, value in child.items() if name != "after"}
    return {**inherited, **own, **bound}, {}
