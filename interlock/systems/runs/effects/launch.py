"""Launches the supervisor of a run on the workspace's computer, which takes over the lease."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from interlock import EffectWork, Outcome
from interlock.system.agents import LaunchSpec, SupervisorError, launch
from interlock.systems.runs.paths import RunPaths


def launch_run_supervisor(work: EffectWork) -> Outcome | None:
    """Launch the supervisor, which then holds the run's lease and fires how the run ends."""
    record, lease, dispatch = work.record, work.lease, work.dispatch
    folder = Path(str(record.data["folder"]))
    if not folder.is_dir():
        return Outcome("fail", {"reason": f"the workspace {folder} is not a folder any more"})
    work_folder = RunPaths(record.id, dispatch.settings).work_folder
    spec = LaunchSpec(key=lease.key, token=lease.token, work_folder=str(work_folder))
    lease_ms = work.held.lease_ms
    renew = partial(dispatch.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    try:
        launch("interlock.systems.runs.supervisor", spec.write(), renew, every_s=lease_ms / 3_000)
    except (SupervisorError, OSError) as refusal:
        return Outcome("fail", {"reason": f"its supervisor could not be started: {refusal}"})
    work.handed_over.set()
    return None
