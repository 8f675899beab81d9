"""Every machine the kernel runs. A new one needs its module here and its golden table in tests."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.machine import Machine
from kernel.machines.jobs.graph.table import GRAPH
from kernel.machines.jobs.job.table import JOB
from kernel.machines.loops.loop.table import LOOP
from kernel.machines.runs.codon.table import CODON
from kernel.machines.runs.run.table import RUN
from kernel.machines.runs.workspace.table import WORKSPACE
from kernel.machines.tasks.agent.table import AGENT
from kernel.machines.tasks.identity.table import IDENTITY
from kernel.machines.tasks.task.table import TASK
from kernel.machines.tasks.turn.table import TURN
from kernel.machines.threads.thread.table import THREAD

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
