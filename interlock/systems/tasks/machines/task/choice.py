"""The agent that a person has chosen for a task: one by name, or any but the last one. Pure."""

from __future__ import annotations

from typing import Any, Literal

from interlock import Ask
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.task.data import ClaimantData, ClaimData, TaskData

# The fields of a task that keep the choice: the owner who alone may claim it; the last claim, whose
# agent does not get it again. Both stay until the next requeue.
FIELDS = ("kept_for", "kept_from")
# The fields of a claim by which its agent is recognised. Each process of a command is an agent of
# its own; agents that claim by a name have no process here.
KNOWN_BY: tuple[Literal["owner", "identity", "agent"], ...] = ("owner", "identity", "agent")


def known_by(claim: ClaimData) -> Data:
    """Return the fields of a claim by which its agent is recognised."""
    return {name: claim[name] for name in KNOWN_BY if claim.get(name)}


def refused(data: TaskData, claim: Data) -> str:
    """Return why the choice refuses a claim, or an empty text."""
    last = data.get("kept_from")
    same = last and all(claim.get(name) == last.get(name) for name in KNOWN_BY)
    other = data.get("kept_for") not in (None, claim.get("owner"))
    return in_words(data) if same or other else ""


def in_words(data: TaskData) -> str:
    """Return whom the choice lets claim the task; where any agent may, an empty text."""
    if data.get("kept_for"):
        return f"it is kept for the agent {data['kept_for']}"
    last = data.get("kept_from")
    return f"it is kept for another agent than {last.get('agent') or last['owner']}" if last else ""


def chosen(had_by: ClaimantData | None, requeue: Data) -> Data:
    """Return the fields of a task that a requeue sets. Its last claim was that of `had_by`."""
    fields: dict[str, Any] = {
        name: requeue[name] for name in ("agent", "agent_name") if requeue.get(name)
    }
    if requeue.get("to"):
        fields["kept_for"] = requeue["to"]
    if requeue.get("not_same"):
        fields["kept_from"] = had_by
    return fields


def is_possible(ask: Ask[TaskData]) -> bool:
    """Whether the task can go to the agent that a requeue chooses."""
    return not why_not(ask)


def why_not(ask: Ask[TaskData]) -> str:
    """Return why the task cannot go to the agent that a requeue chooses, or an empty text."""
    data, requeue = ask.data, ask.payload
    if requeue.get("to") and data.get("agent"):
        return "its agent is the command that it names: choose the command of another agent"
    if requeue.get("agent") and not data.get("agent"):
        return "it names no command: choose an agent that claims it, by its name"
    if requeue.get("not_same") and not (data.get("claim") or data.get("had_by")):
        return "no agent has had it yet"
    return ""
