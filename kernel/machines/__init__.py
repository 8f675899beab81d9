"""Every machine the kernel runs. A new one needs its module here and its golden table in tests."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.machine import Machine
from interlock.kernel.machines.jobs.graph.table import GRAPH
from interlock.kernel.machines.jobs.job.table import JOB
from interlock.kernel.machines.loops.loop.table import LOOP
from interlock.kernel.machines.runs.codon.table import CODON
from interlock.kernel.machines.runs.run.table import RUN
from interlock.kernel.machines.runs.workspace.table import WORKSPACE
from interlock.kernel.machines.tasks.agent.table import AGENT
from interlock.kernel.machines.tasks.identity.table import IDENTITY
from interlock.kernel.machines.tasks.task.table import TASK
from interlock.kernel.machines.tasks.turn.table import TURN
from interlock.kernel.machines.threads.thread.table import THREAD

MACHINES: Mapping[str, Machine] = {
    machine.name: machine
    for machine in (
        THREAD,
        TASK,
        AGENT,
        TURN,
        IDENTITY,
        JOB,
        GRAPH,
        LOOP,
        WORKSPACE,
        RUN,
        CODON,
    )
}
