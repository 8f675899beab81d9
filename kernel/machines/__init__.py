"""Every machine the kernel runs. A new one needs its name here and its golden table in tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from interlock.kernel.machine import Machine

# Machine `job` of system `jobs` is the constant JOB of the module jobs/job/table.py.
BY_SYSTEM: Mapping[str, tuple[str, ...]] = {
    "threads": ("thread",),
    "tasks": ("task", "agent", "turn", "identity"),
    "jobs": ("job", "graph"),
    "loops": ("loop",),
    "runs": ("workspace", "run", "codon"),
}
_SYSTEM_OF = {machine: system for system, machines in BY_SYSTEM.items() for machine in machines}


class Machines(Mapping[str, Machine]):
    """The machines by name. A table is imported, and checked, when it is first asked for."""

    def __getitem__(self, name: str) -> Machine:
        return _machine(_SYSTEM_OF[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(_SYSTEM_OF)

    def __len__(self) -> int:
        return len(_SYSTEM_OF)


@cache
def _machine(system: str, name: str) -> Machine:
    table = import_module(f"{__name__}.{system}.{name}.table")
    machine: Machine = getattr(table, name.upper())
    return machine


MACHINES = Machines()
