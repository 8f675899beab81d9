"""Refuses new records where a deployment has as many as it may have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Lock

from interlock.kernel.errors import QuotaError
from interlock.kernel.machine import Machine
from interlock.kernel.record import record_id
from interlock.kernel.store.views import Views
from interlock.kernel.table import Terminal
from interlock.workers.engine.kept import Kept

KEPT_S = 1.0  # so long a count of the store is used


class RecordQuota:
    """How many records that have not ended a deployment may have; None: any number.

    The store is counted once a second. What this process creates in between is added, what others
    create is not: so the maximum can be exceeded by what they create in a second. Safe in threads.
    """

    def __init__(self, views: Views, machines: Mapping[str, Machine], maximum: int | None) -> None:
        self._views, self._machines, self._maximum = views, machines, maximum
        self._counted = Kept(self._count, KEPT_S)
        self._admitted = 0  # new records since the count
        self._lock = Lock()

    def admit(self, ids: Collection[str], *, unnamed: int = 0) -> None:
        """Count new records with these ids, and so many without one; the caller creates them next.

        An id that exists is not counted, so that a repeated submission is answered as the first.
        Raises QuotaError if there is no room for all of them, and InvalidIdError.
        """
        checked = [record_id(one) for one in ids]
        if self._maximum is None:
            return
        known = self._views.creation_digests(checked)
        wanted = len(set(ids) - known.keys()) + unnamed
        with self._lock:
            live = self._counted.value() + self._admitted
            if wanted and live + wanted > self._maximum:
                raise QuotaError(live, wanted, self._maximum)
            self._admitted += wanted

    def room(self) -> int | None:
        """Return how many more records may be created, at least 0; None: any number."""
        return None if self._maximum is None else max(self._maximum - self._live(), 0)

    def problem(self) -> str:
        """Return a sentence about a quota that is used up, with what to do, or ''."""
        if self._maximum is None or (live := self._live()) < self._maximum:
            return ""
        return f"submissions are refused: {QuotaError(live, 1, self._maximum)}"

    def _live(self) -> int:
        with self._lock:
            return self._counted.value() + self._admitted

    def _count(self) -> int:
        """Count the records that have not ended, with those of parents and of sweeps."""
        self._admitted = 0
        counts = self._views.counts(self._machines.values())
        return sum(
            number
            for name, states in counts.items()
            for state, number in states.items()
            if not isinstance(self._machines[name].stage(state), Terminal)
        )
