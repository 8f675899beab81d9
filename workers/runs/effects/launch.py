"""Starts the conductor of a run on the workspace's machine, and hands its lease over."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from interlock.workers.engine.work import Outcome, Work
from interlock.workers.runs.paths import RunPlace
from interlock.workers.supervision.launch import LaunchSpec, SupervisorError, launch


def conductor(work: Work) -> Outcome | None:
    """Start it. From then on it holds the lease, and tells what becomes of the run."""
    record, lease, dispatch = work.record, work.lease, work.dispatch
    folder = Path(str(record.data["folder"]))
    if not folder.is_dir():
        return Outcome("fail", {"reason": f"the workspace {folder} is no folder any more"})
    place = RunPlace(record.id, dispatch.settings)
    spec = LaunchSpec(key=lease.key, token=lease.token, work_folder=str(place.work_folder))
    lease_ms = work.held.lease_ms
    renew = partial(dispatch.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    try:
        launch("interlock.workers.runs.supervisor", spec.write(), renew, every_s=lease_ms / 3_000)
    except (SupervisorError, OSError) as refusal:
        return Outcome("fail", {"reason": f"its conductor does not start: {refusal}"})
    return None
