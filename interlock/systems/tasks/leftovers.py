"""Kills the processes that a dead agent of a task left running on this computer."""

from __future__ import annotations

from interlock.system.agents import kill_leftovers, process_label
from interlock.system.errors import UnknownRecordError
from interlock.system.records import Records
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.work_folders import work_folder_of


def kill_leftovers_of(records: Records, agent: str) -> None:
    """Kill the processes of an agent, if its record is dead. Raises LeftoversError if one stays.

    Call it only after the grace period of the agent's supervisor.
    """
    try:
        dead = records.views.record(agent).state == AgentState.DEAD
    except UnknownRecordError:
        return
    kill_leftovers(
        process_label(work_folder_of(agent, records.settings)) if dead else None, owner=agent
    )
