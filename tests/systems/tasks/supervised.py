"""Supervisors of agents at work, which run no process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from interlock.kernel.store.leases import Lease
from interlock.systems.tasks.launch_spec import PreparedClaim, TaskLaunchSpec
from interlock.systems.tasks.supervisor import TaskSupervisor
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work import EffectWork
from interlock.workers.processes.clock import clock
from tests.systems.tasks.claims import Claimed


def held(client: Client, lease: Lease) -> EffectWork:
    return EffectWork(client.dispatch, Resources(client.settings), lease, asked_at=clock())


def supervised(client: Client, claim: Claimed, folder: Path, **fields: Any) -> TaskSupervisor:
    """Return the supervisor of a claim's agent, which is at work."""
    prepared = PreparedClaim(
        claim.task.key, claim.task.token, claim.names.turn, "/nowhere", str(folder), "b", "base"
    )
    spec = TaskLaunchSpec(
        key=claim.agent.key,
        token=claim.agent.token,
        work_folder=str(folder),
        command="true",
        stream="plain",
        session=False,
        claim=prepared,
    )
    supervisor = TaskSupervisor(replace(spec, **fields), client.records)
    supervisor.alive = True
    assert supervisor.task is not None
    supervisor.task.report_started()
    return supervisor


def reports(supervisor: TaskSupervisor, *lines: Mapping[str, Any]) -> Mock:
    """Let the agent report; return its process, which got what the supervisor sent."""
    process = Mock(began=0.0, progress=0.0)
    process.reports.return_value = [json.dumps(line).encode() for line in lines]
    supervisor._read_reports(process)
    return process
