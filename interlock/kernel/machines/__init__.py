"""Every machine the kernel runs. A new one of ours needs its name here, and its golden table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module

from interlock.kernel.effect import OF_ANY_MACHINE, Effect
from interlock.kernel.machine import Machine

# Machine `job` of system `jobs` is the constant JOB of the module jobs/job/table.py.
BY_SYSTEM: Mapping[str, tuple[str, ...]] = {
    "threads": ("thread", "canary"),
    "tasks": ("task", "agent", "turn", "identity"),
    "jobs": ("job", "graph"),
    "loops": ("loop",),
    "runs": ("workspace", "run", "codon"),
    "webhooks": ("delivery",),
}
# Interlock submits their records itself, to see that work gets through.
UNLISTED = frozenset({"canary"})
_SYSTEM_OF = {machine: system for system, machines in BY_SYSTEM.items() for machine in machines}


class Machines(Mapping[str, Machine]):
    """The machines by name. A table is imported, and checked, when it is first asked for."""

    def __init__(self) -> None:
        self._added: dict[str, Callable[[], Machine]] = {}

    def add(self, name: str, table: Callable[[], Machine]) -> None:
        """Add a machine of others. `table` returns it, when it is first asked for."""
        if name in self:
            raise ValueError(f"there is a machine called {name} already")
        self._added[name] = cache(table)

    def __getitem__(self, name: str) -> Machine:
        added = self._added.get(name)
        return added() if added else _machine(_SYSTEM_OF[name], name)

    def __contains__(self, name: object) -> bool:
        return name in _SYSTEM_OF or name in self._added

    def __iter__(self) -> Iterator[str]:
        yield from _SYSTEM_OF
        yield from self._added

    def __len__(self) -> int:
        return len(_SYSTEM_OF) + len(self._added)


@cache
def _machine(system: str, name: str) -> Machine:
    table = import_module(f"{__name__}.{system}.{name}.table")
    machine: Machine = getattr(table, name.upper())
    return machine


class ListedMachines(Mapping[str, Machine]):
    """The machines whose records are in lists, counts, cards, events and webhooks.

    The others' records are found by their ids alone, and counted under their own machine's name.
    """

    def __getitem__(self, name: str) -> Machine:
        if name in UNLISTED:
            raise KeyError(name)
        return MACHINES[name]

    def __contains__(self, name: object) -> bool:
        return name in MACHINES and name not in UNLISTED

    def __iter__(self) -> Iterator[str]:
        return (name for name in MACHINES if name not in UNLISTED)

    def __len__(self) -> int:
        return len(MACHINES) - len(UNLISTED)


def effect_queue(machine: str, effect: Effect) -> str:
    """Return the name of the queue that has the messages of an effect of this machine.

    Our machines share the queue of an effect that several of them owe. An effect of another
    project's machine has a queue of its own, unless the effect says which.
    """
    shares = machine in _SYSTEM_OF or effect.name in OF_ANY_MACHINE
    return effect.queue or (effect.name if shares else f"{machine}.{effect.name}")


MACHINES = Machines()
LISTED = ListedMachines()
