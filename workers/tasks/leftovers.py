"""Ends the processes that a dead agent of a task left running on this machine."""

from __future__ import annotations

from interlock.kernel.errors import UnknownRecordError
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.supervision.launch import process_label
from interlock.workers.supervision.leftovers import kill_leftovers
from interlock.workers.tasks.workplace import work_folder_of


def kill_leftovers_of(dispatch: Dispatch, agent: str) -> None:
    """Kill what still runs here of an agent that is dead. Raises RemainsError if some stays.

    To be called once the grace of its keeper is over. One that lives is let be.
    """
    try:
        dead = dispatch.views.record(agent).state == "dead"
    except UnknownRecordError:
        return
    kill_leftovers(
        process_label(work_folder_of(agent, dispatch.settings)) if dead else None, owner=agent
    )
