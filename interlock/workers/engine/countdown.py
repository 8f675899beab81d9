"""The countdown of a record: the other records whose ends it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.record import Record
from interlock.kernel.store.subscriptions import MISSING, PLACEHOLDER, Subscriber
from interlock.kernel.table import Terminal
from interlock.workers.engine.dispatch import Dispatch


@dataclass(frozen=True, slots=True)
class Countdown:
    """A countdown of a record, as a row with `spawns` begins one.

    Records are counted in it, and each is taken out at its end. When the last one has left, the
    advance trigger of the machine's `prerequisites` is fired. `name` is that of the countdown with
    the version of the record at which it began: dependencies:7. Every call may be repeated.
    """

    dispatch: Dispatch
    record: Record[Any]
    name: str

    @property
    def _subscriber(self) -> Subscriber:
        return Subscriber.of(self.record, self.name)

    def join(self, ids: Sequence[str]) -> bool:
        """Count records in it. Returns False where it has ended already.

        Until the effect that fills it has ended, its end is not reached.
        """
        return self.dispatch.subscriptions.join(self._subscriber, ids)

    def subscribe(self, record_id: str) -> str:
        """Let the end of a record take that record out. Returns its state if it has ended already.

        Then `leave` takes it out. The state is `missing` if the record does not exist, and '' while
        it goes on.
        """
        return self.dispatch.subscriptions.subscribe(record_id, self._subscriber)

    def left(self) -> set[str]:
        """Return the records that are still counted in it."""
        return self._members() - {PLACEHOLDER}

    def is_filled(self) -> bool:
        """Whether no more records join it: the effect that fills it has ended."""
        return PLACEHOLDER not in self._members()

    def is_over(self) -> bool:
        """Whether all records have left it, and no more join it."""
        return not self._members()

    def leave(self, record_id: str, state: str) -> None:
        """Take out a record, as having ended in this state."""
        self.dispatch.lifecycle.leave_countdown(self._subscriber, record_id, state)

    def tally(self) -> dict[str, int]:
        """Return how many records have left it, by the states in which they ended."""
        return self.dispatch.views.tally(self.record.id, self.name)

    def end_state(self, record_id: str) -> str:
        """Return the state in which a record has ended, as `subscribe` does, without waiting."""
        try:
            record = self.dispatch.views.record(record_id)
        except UnknownRecordError:
            return MISSING
        stage = self.dispatch.lifecycle.machine(record.machine).stage(record.state)
        return record.state if isinstance(stage, Terminal) else ""

    def _members(self) -> set[str]:
        return self.dispatch.views.counted(self.record.id, self.name)
