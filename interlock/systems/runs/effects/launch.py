"""Launches the supervisor of a run on the workspace's computer, which takes over the lease."""

from __future__ import annotations

from pathlib import Path

from interlock import EffectWork, Outcome
from interlock.system.agents import hand_over
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import Trigger
from interlock.systems.runs.paths import RunPaths


def launch_run_supervisor(work: EffectWork[RunData]) -> Outcome | None:
    """Launch the supervisor, which then holds the run's lease and fires how the run ends."""
    record = work.record
    folder = Path(record.data["folder"])
    if not folder.is_dir():
        return Outcome(Trigger.FAIL, {"reason": f"the workspace {folder} is not a folder any more"})
    work_folder = RunPaths(record.id, work.records.settings).work_folder
    try:
        hand_over(work, "interlock.systems.runs.supervisor", work_folder)
    except OSError as refusal:
        return Outcome(Trigger.FAIL, {"reason": f"its supervisor could not be started: {refusal}"})
    return None
