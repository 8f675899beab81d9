"""Knows which tables the workers have applied, for callers with other ones, and for messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from interlock.kernel.effect import Effect
from interlock.kernel.errors import AnotherTableError
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES, effect_queue
from interlock.kernel.store.tables import Applied, Tables
from interlock.workers.engine.kept import Kept

CALLER_KEPT_S = 5.0  # so long a caller believes which tables are applied
ELSEWHERE_KEPT_S = 1.0  # so long a worker believes what the tables of others have
STATES_KEPT_S = 5.0  # so long the states of all tables are used, of which a new one has more


class CallerTables:
    """Knows which tables are applied, as of at most some seconds ago. Safe in threads.

    Guards, choices and questions of a call are decided in the process of the caller. Machines of
    Interlock itself are not asked about: their tables fit to those of the version before.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._read: tuple[float, dict[str, Applied]] | None = None

    def check(self, machine: Machine) -> None:
        """Raise AnotherTableError if the workers work by another table of this machine."""
        if MACHINES.is_ours(machine.name):
            return
        read, now_s = self._read, time.monotonic()
        if read is None or now_s - read[0] > CALLER_KEPT_S or _differs(machine, read[1]):
            read = self._read = (now_s, self._tables.applied())
        if found := _differs(machine, read[1]):
            raise AnotherTableError(machine.name, machine.digest, found.digest, found.by)


def _differs(machine: Machine, applied: dict[str, Applied]) -> Applied | None:
    """Return the table that is applied, if it is another one."""
    found = applied.get(machine.name)
    return found if found and found.digest != machine.digest else None


class TablesElsewhere:
    """The tables that other processes have applied, as of some seconds ago. Safe in threads."""

    def __init__(self, tables: Tables, machines: Mapping[str, Machine]) -> None:
        self._tables, self._machines = tables, machines
        self._outlines = Kept(self._read, ELSEWHERE_KEPT_S)
        self._states = Kept(tables.states, STATES_KEPT_S)

    def has(self, machine: str) -> bool:
        """Whether another table of a machine is applied than the one of this process."""
        return machine in self._outlines.value()

    def queue(self, machine: str, effect: str) -> str | None:
        """Return the queue of an effect by such a table, without the namespace; None: unknown."""
        effects = self._outlines.value().get(machine, {}).get("effects", {})
        if effect not in effects:
            return None
        return effect_queue(machine, Effect(effect, queue=effects[effect]["queue"]))

    def states(self) -> dict[str, set[str]]:
        """Return the states that other tables of each machine have had, and that ours lacks."""
        return {
            name: found
            for name, states in self._states.value().items()
            if name in self._machines
            and (found := states - {str(stage.state) for stage in self._machines[name].stages})
        }

    def _read(self) -> dict[str, Mapping[str, Any]]:
        return {
            name: self._tables.outline(name, applied.digest) or {}
            for name, applied in self._tables.applied().items()
            if name in self._machines and self._machines[name].digest != applied.digest
        }
