"""The machines of this process by name. Whoever starts the process adds those of its systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from interlock.kernel.effect import OF_ANY_MACHINE, Effect

if TYPE_CHECKING:  # the command line lists its commands without tables
    from interlock.kernel.machine import Machine


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """One machine. `table` returns its table, which is imported and checked at its first call.

    `is_listed`: its records are in lists, counts, cards, events and webhooks; the records of other
    machines are found by their ids alone. `is_ours`: the machine is a part of Interlock.
    """

    table: Callable[[], Machine]
    is_listed: bool = True
    is_ours: bool = False


class Machines(Mapping[str, "Machine"]):
    """The machines by name."""

    def __init__(self) -> None:
        self.entries: dict[str, MachineEntry] = {}

    def add(
        self,
        name: str,
        table: Callable[[], Machine],
        *,
        is_listed: bool = True,
        is_ours: bool = False,
    ) -> None:
        """Add a machine. Raises ValueError if there is one of this name already."""
        if name in self.entries:
            raise ValueError(f"there is a machine called {name} already")
        self.entries[name] = MachineEntry(cache(table), is_listed, is_ours)

    def is_listed(self, name: str) -> bool:
        """Whether the records of a machine are in lists."""
        return name in self.entries and self.entries[name].is_listed

    def is_ours(self, name: str) -> bool:
        """Whether a machine is a part of Interlock, and none that another project has added."""
        return name in self.entries and self.entries[name].is_ours

    def __getitem__(self, name: str) -> Machine:
        return self.entries[name].table()

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class ListedMachines(Mapping[str, "Machine"]):
    """The machines whose records are in lists."""

    def __getitem__(self, name: str) -> Machine:
        if name not in self:
            raise KeyError(name)
        return MACHINES[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and MACHINES.is_listed(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in MACHINES if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def effect_queue(machine: str, effect: Effect) -> str:
    """Return the name of the queue that has the messages of an effect of this machine.

    Our machines share the queue of an effect that several of them owe. An effect of another
    project's machine has a queue of its own, unless the effect says which.
    """
    shares = MACHINES.is_ours(machine) or effect.name in OF_ANY_MACHINE
    return effect.queue or (effect.name if shares else f"{machine}.{effect.name}")


MACHINES = Machines()
LISTED = ListedMachines()
