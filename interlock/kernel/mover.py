"""Moves records that an older version of their table has left to the present one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.kernel.errors import ConflictError, HeldError, NewerSchemaError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.moving import Move, is_older, move_of
from interlock.kernel.record import Record, record_id
from interlock.kernel.store.commands import NO_WARRANT, Warrant
from interlock.kernel.store.redis import Store
from interlock.kernel.store.views import Views
from interlock.kernel.taking_back import taken_back

CONFLICTS_MAX = 50
Find = Callable[[Machine, Record], Move | None]
BY_ITSELF = Cause("move")  # of a record that is acted on, or that a sweep finds


class Mover:
    """The moves of one process, by its tables."""

    def __init__(self, store: Store, machines: Mapping[str, Machine]) -> None:
        self.store, self.machines = store, machines

    def present(self, record: Record, warrant: Warrant) -> Record:
        """Return a record that was read; moved, where an older table left it. Raises as `move`."""
        machine = self.machines.get(record.machine)
        if machine is None or not is_older(machine, record):
            return record
        return self.move(record.id, warrant=warrant)

    def move(
        self, target: str, *, cause: Cause = BY_ITSELF, warrant: Warrant = NO_WARRANT
    ) -> Record:
        """Move a record if it is not there yet, and return it. A repeat changes nothing.

        Raises HeldError while the effect of its state is at work under another token than that of
        the `warrant`, TableFunctionError if its data cannot be made newer, UnknownStateError.
        """
        token = warrant.proof[1] if warrant.kind == "token" else ""
        return self._commit(target, move_of, token=token, cause=cause)

    def take_back(self, target: str, outline: Mapping[str, Any], *, cause: Cause) -> Record:
        """Take a record back to an older table. Raises as `move`, and CannotBeTakenBackError."""
        views = Views(self.store.client, self.store.keys)

        def find(machine: Machine, record: Record) -> Move | None:
            latest = views.events([(record.id, record.version)])
            return taken_back(machine, outline, record, latest[0] if latest else None)

        return self._commit(target, find, token="", cause=cause)

    def _commit(self, target: str, find: Find, *, token: str, cause: Cause) -> Record:
        for _ in range(CONFLICTS_MAX):
            record = self.store.load(record_id(target)).record
            machine = self.machines[record.machine]
            if record.schema > machine.schema:
                raise NewerSchemaError(record.id, record.schema, machine.schema)
            move = find(machine, record)
            if move is None:
                return record
            answer = self.store.move(machine, move, token=token, cause=cause)
            match answer.status:
                case "moved":
                    return self.store.load(record.id).record
                case "missing":
                    raise UnknownRecordError(target)
                case "busy":
                    why = f"{answer.detail} is at work by an older version of the table"
                    raise HeldError(target, f"{why}; try again when that has ended")
        raise ConflictError(f"{target} lost {CONFLICTS_MAX} races in a row; try again")
