"""Counts how long calls of the store take, so that metrics show it for all processes.

No script can see how long its caller waits. So each process counts for itself, and adds its counts
every few seconds to those that the scripts keep. A process that ends loses what it has not added.
Its totals since it began, which only it has, stay in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from threading import Lock
from time import perf_counter

# The upper bounds of the buckets: as many as part/metrics.lua has for other durations.
CALL_BOUNDS_MS = (0.5, 1.0, 5.0, 25.0, 100.0, 1_000.0, 5_000.0)
ADD_S = 10.0  # how often a process adds its counts
READ, BATCH, SCRIPT = "read", "batch", "script"
NAMED_SCRIPTS = ("create", "commit", "claim")  # the others are counted together
_SUM = len(CALL_BOUNDS_MS) + 1


class CallTimes:
    """Counts the calls of one client to the store, and how long each took. Safe in threads."""

    def __init__(self, key: str) -> None:
        self._key, self._lock, self._due_s = key, Lock(), perf_counter() + ADD_S
        # By kind: how many calls are in each bucket, and last the sum of their times in ms.
        self._counts: defaultdict[str, list[float]] = defaultdict(lambda: [0] * (_SUM + 1))
        self._added: dict[str, int] = {}  # what the store's counts have of them, by its names

    def count(self, kind: str, began_s: float, ended_s: float) -> bool:
        """Count a call, whether or not the store answered it. The times are of `perf_counter`.

        Return whether the counts should be added to the store's now.
        """
        taken_ms = (ended_s - began_s) * 1_000
        bucket = bisect_left(CALL_BOUNDS_MS, taken_ms)
        with self._lock:
            counts = self._counts[kind]
            counts[bucket] += 1
            counts[_SUM] += taken_ms
        return ended_s >= self._due_s

    def taken(self) -> list[tuple[str, str, str, int]]:
        """Return the commands that add to the store's counts what they do not have yet."""
        with self._lock:
            self._due_s = perf_counter() + ADD_S
            found = {
                f"store {kind} {'sum' if at == _SUM else at + 1}": round(count)
                for kind, counts in self._counts.items()
                for at, count in enumerate(counts)
            }
            added, self._added = self._added, found
        more = {name: count - added.get(name, 0) for name, count in found.items()}
        return [("HINCRBY", self._key, name, count) for name, count in more.items() if count]

    def keep(self, refused: Iterable[tuple[str, str, str, int]]) -> None:
        """Keep for the next time what the store refused to add, by its commands.

        It must not be given commands without an answer: the store may have added their counts.
        """
        with self._lock:
            for _, _, name, count in refused:
                self._added[name] -= count

    def totals(self) -> dict[str, tuple[list[int], float]]:
        """Return for each kind how many calls are in each bucket, and the sum of their ms."""
        with self._lock:
            found = {kind: [*counts] for kind, counts in self._counts.items()}
        return {kind: ([*map(int, counts[:_SUM])], counts[_SUM]) for kind, counts in found.items()}
