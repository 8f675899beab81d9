"""Gives a task to another agent, or to one that a person names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock import CallError, Client
from interlock.system.agents import check_command
from interlock.system.tables import Record, root_of
from interlock.systems.tasks.claims import is_local
from interlock.systems.tasks.machines.identity.table import IdentityData
from interlock.systems.tasks.machines.identity.table import State as IdentityState
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import Trigger


def requeue(
    client: Client, task: str, *, to: str | None, agent: str | None, not_same: bool, reason: str
) -> Record:
    """Open a task that an agent has, or an open task anew, and keep who may have it next.

    `to` is the name of an agent. A task without a command is then kept for the owner of that name;
    one with a command gets the command that an agent of that name had in this backlog, unless
    `agent` gives it. With `not_same` the agent that had the task last does not get it again. The
    choice lasts until the next requeue. Raises CallError where no agent of the name is known,
    CallError where the task's repository is on this computer and the new command cannot be run
    in it, and GuardRefusedError where the task cannot go to the agent.
    """
    payload: dict[str, Any] = {"reason": reason, "not_same": not_same, "to": to, "agent": agent}
    data: TaskData = client.show(task, machine="task").data
    if agent or (to and data.get("agent")):
        command = agent or _command_of(client, task, to)
        payload |= {"to": None, "agent_name": to, "agent": command}
        if is_local(data):
            check_command(command, Path(str(data["repo"])))
    fields = {name: value for name, value in payload.items() if value is not None}
    return client.fire(task, Trigger.REQUEUED, fields, reason=reason)


def _command_of(client: Client, task: str, name: str | None) -> str:
    """Return the command of the agent of this name in the task's backlog."""
    views = client.records.views
    machine = client.records.machine("identity")
    found: Iterator[Record[IdentityData]] = views.each_record(
        views.ids(machine, root=root_of(task))
    )
    known = [
        (record.data["name"], record.data["command"])
        for record in found
        if record.data["command"] and record.state != IdentityState.RETIRED
    ]
    commands = {command for each, command in known if each == name}
    if len(commands) == 1:
        return commands.pop()
    if commands:
        raise CallError(f"several commands are known as {name}: give --agent COMMAND as well")
    names = ", ".join(sorted({each for each, _ in known})) or "none"
    raise CallError(
        f"this task names a command, and no command is known in its backlog as {name}, "
        f"only: {names}; give --agent COMMAND as well"
    )
