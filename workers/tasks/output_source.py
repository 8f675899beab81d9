"""Says where the output of a task's agent is."""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.kernel.store.outputs import OutputSource
from interlock.workers.client import Client
from interlock.workers.engine.printed_output import NoOutputError
from interlock.workers.tasks.claim_names import agent_of
from interlock.workers.tasks.work_folders import work_folder_below_home


def output_source(client: Client, record: Record, number: int | None = None) -> OutputSource | None:
    """Return where the output is of the agent that has or had a claim of a task.

    `number` is that of the claim, by default of the last one. None if there is no such output: no
    agent of Interlock has claimed the task, or it has not started. Raises NoOutputError if there
    was no such claim.
    """
    last = int(record.data.get("claimed", 0))
    chosen = last if number is None else number
    if number is not None and not 0 < number <= last:
        raise NoOutputError(f"{record.id} has no claim {number}; it was claimed {last} times")
    if not chosen or not record.data.get("agent"):
        return None
    agent = agent_of(record, chosen)
    found = client.dispatch.views.records([agent]).get(agent)
    host = found.data.get("host") if found else None
    if not host and chosen == last:
        host = record.data.get("host")
    folder = work_folder_below_home(agent).as_posix()
    return OutputSource(str(host), folder, chosen) if host else None
