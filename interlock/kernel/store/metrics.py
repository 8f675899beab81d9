"""Reads what is counted for metrics: since the store is new, or since this was added."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all

# The upper bounds of the buckets, as part/metrics.lua has them; what is longer is in the last one.
BOUNDS_MS = (100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
SUM, END = "sum", "end "
_BUCKETS = {str(at + 1): at for at in range(len(BOUNDS_MS) + 1)}


@dataclass(slots=True)
class Durations:
    """How many durations were in each bucket, the last one without a bound, and their sum."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    sum_ms: int = 0


@dataclass(slots=True)
class Metrics:
    """Everything that is counted. The names are those of machines, states and effects."""

    transitions: dict[tuple[str, str, str], int]  # by machine, from ('-': created), to
    refused: dict[tuple[str, str], int]  # by machine and status of the commit
    attempts: dict[tuple[str, str], int]  # by effect; `first` or `again`
    unclaimed: dict[tuple[str, str], int]  # claims that were refused, by effect and status
    runs: dict[tuple[str, str], int]  # that ended, by effect and what came of it
    late: dict[str, int]  # renewals of leases that had run out, by effect
    ends: dict[str, int]  # when a record of a machine ended last, in ms
    over: dict[str, int]  # reservations that a cap refused, by effect
    sums: dict[tuple[str, str], int]  # by machine and counter
    sweeps: dict[tuple[str, str], int]  # items of sweeps, by sweep and status
    dwell: dict[tuple[str, str], Durations]  # by machine and state that was left
    lag: dict[str, Durations]  # from the entry into a state to the first claim, by effect
    calls: dict[str, Durations]  # of the store, by kind; their bounds are CALL_BOUNDS_MS


class MetricsReader:
    """The counts of all partitions, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def read(self) -> Metrics:
        """Return the sums over all partitions, in one round trip. Damaged counts are left out."""
        commands = [("HGETALL", self.keys.metrics(at)) for at in range(PARTITIONS)]
        *counts, sweeps = read_all(self.client, [*commands, ("HGETALL", self.keys.sweep_results())])
        totals: dict[str, int] = defaultdict(int)
        for found in counts:
            for name, value in _readable(dict(found)):
                # All but the last time of an end is a count, and each partition has its own.
                is_time, total = name.startswith(END), totals[name]
                totals[name] = max(total, value) if is_time else total + value
        metrics = metrics_of(totals)
        for name, value in _readable(dict(sweeps)):
            sweep, _, status = name.partition(":")
            metrics.sweeps[sweep, status] = value
        return metrics


def metrics_of(totals: Mapping[str, int]) -> Metrics:
    """Return the counts by what they count."""
    dwell: dict[tuple[str, str], Durations] = defaultdict(Durations)
    lag: dict[str, Durations] = defaultdict(Durations)
    calls: dict[str, Durations] = defaultdict(Durations)
    found = Metrics({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, dwell, lag, calls)
    by_one = {"over": found.over, "late": found.late, "end": found.ends}
    by_two = {
        "refused": found.refused,
        "attempt": found.attempts,
        "unclaimed": found.unclaimed,
        "run": found.runs,
        "sum": found.sums,
    }
    for name, value in totals.items():
        match name.split(" "):
            case ["transition", machine, source, target]:
                found.transitions[machine, source, target] = value
            case ["dwell", machine, state, bucket]:
                _add(found.dwell[machine, state], bucket, value)
            case ["lag", effect, bucket]:
                _add(found.lag[effect], bucket, value)
            case ["store", kind, bucket]:
                _add(found.calls[kind], bucket, value)
            case [kind, one] if kind in by_one:
                by_one[kind][one] = value
            case [kind, one, other] if kind in by_two:
                by_two[kind][one, other] = value
    return found


def _readable(found: Mapping[bytes, bytes]) -> Iterator[tuple[str, int]]:
    """Yield the counts of a hash. A damaged one must not hide the others."""
    for name, value in found.items():
        try:
            count = name.decode(), int(value)
        except ValueError:
            continue
        yield count


def _add(durations: Durations, bucket: str, value: int) -> None:
    if bucket == SUM:
        durations.sum_ms = value
    elif bucket in _BUCKETS:
        durations.buckets[_BUCKETS[bucket]] = value
