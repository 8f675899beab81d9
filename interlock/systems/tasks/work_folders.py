"""The folders in which supervisors of agents keep launch specs, logs and output.

An agent's processes are labelled by its folder, so they are found when their supervisor is lost.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from interlock import Settings
from interlock.system.agents import kill_leftovers
from interlock.system.errors import InvalidPayloadError, UnknownRecordError
from interlock.system.records import Records
from interlock.systems.tasks.machines.agent.table import State as AgentState

FOLDER = "supervisors"


def work_folder_of(agent: str, settings: Settings) -> Path:
    """Return the folder of an agent's supervisor on this computer."""
    return settings.home.absolute() / work_folder_below_home(agent)


def work_folder_below_home(agent: str) -> Path:
    """Return the folder of an agent's supervisor, relative to the home of its computer."""
    root, _, name = agent.partition("/agent~")
    folder = Path(FOLDER, root, name)
    if folder.is_absolute() or ".." in folder.parts:
        raise InvalidPayloadError(f"the agent {agent!r}", ["its id leads out of the folder"])
    return folder


def kill_leftovers_of(records: Records, agent: str) -> None:
    """Kill the processes of an agent, if its record is dead. Raises LeftoversError if one stays.

    Call it only after the grace period of the agent's supervisor.
    """
    try:
        dead = records.views.record(agent).state == AgentState.DEAD
    except UnknownRecordError:
        return
    if dead:
        kill_leftovers(work_folder_of(agent, records.settings), owner=agent)


def delete_old_work_folders(settings: Settings) -> int:
    """Delete the folders that are older than records are kept; return how many."""
    before = time.time() - settings.prune_after_s
    folders = (settings.home.absolute() / FOLDER).glob("*/*")
    old = [folder for folder in folders if _last_written(folder) < before]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return len(old)


def _last_written(work_folder: Path) -> float:
    """Return when a file in the folder was last written. A running agent writes to its log."""
    return max(file.stat().st_mtime for file in (work_folder, *work_folder.iterdir()))
