"""Says where the output of a task's agent is, and on which computer it worked."""

from __future__ import annotations

from pathlib import Path

from interlock import Client
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.tasks.claim_names import agent_of
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.work_folders import work_folder_below_home


def output_place(
    client: Client, record: Record[TaskData], number: int | None
) -> tuple[str, Path, int] | None:
    """Return where the output is of the agent that has or had a claim of a task.

    `number` is that of the claim, by default of the last one. None if there is no such output: no
    agent of Interlock has claimed the task, or it has not started.
    """
    chosen = number or int(record.data.get("claimed", 0))
    if not chosen or not record.data.get("agent"):
        return None
    host = host_of_claim(client.records, record, chosen)
    return (host, work_folder_below_home(agent_of(record, chosen)), chosen) if host else None


def host_of_claim(records: Records, record: Record[TaskData], number: int) -> str:
    """Return the computer on which the agent of a claim worked, or '' if that is not known."""
    agent = agent_of(record, number)
    found: Record[AgentData] | None = records.views.records(
        [agent], readable_by=records.machines
    ).get(agent)
    host = found.data.get("host") if found else None
    if not host and number == record.data.get("claimed"):
        host = record.data.get("host")
    return str(host or "")
