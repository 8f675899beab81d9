"""Every machine the kernel runs. A new one needs its module here and its golden table in tests."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.machine import Machine
from kernel.machines.thread.table import THREAD

MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in (THREAD,)}
