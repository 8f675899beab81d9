"""Every machine the kernel runs. A new one needs its module here and its golden table in tests."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.machine import Machine
from kernel.machines.agent.table import AGENT
from kernel.machines.codon.table import CODON
from kernel.machines.graph.table import GRAPH
from kernel.machines.identity.table import IDENTITY
from kernel.machines.job.table import JOB
from kernel.machines.loop.table import LOOP
from kernel.machines.run.table import RUN
from kernel.machines.task.table import TASK
from kernel.machines.thread.table import THREAD
from kernel.machines.turn.table import TURN
from kernel.machines.workspace.table import WORKSPACE

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
