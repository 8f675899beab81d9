"""What was counted before: a minute ago for a chart, an hour and a day ago to compare."""

from __future__ import annotations

from interlock.kernel.store.metrics import Metrics, metrics_of
from interlock.workers.client import Client
from interlock.workers.console.series import (
    DAY_S,
    HOUR_S,
    Sample,
    Samples,
    flow_between,
    series,
    thinned,
)
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of


def totals(number: int) -> Metrics:
    return metrics_of({"transition thread created done": number})


def sample(minute: float, number: int = 0) -> Sample:
    return Sample(round(minute * 60_000), {}, totals(number))


def test_a_series_has_the_transitions_of_each_minute_and_says_where_nobody_looked() -> None:
    kept = [sample(0, 10), sample(1.01, 13), sample(2, 13), sample(5, 20)]

    assert series(kept, "thread", 6) == [None, 3, 0, None, None, 7]
    assert series(kept, "thread", 2) == [None, 7]
    assert series(kept, "job", 2) == [None, 0]
    assert series([], "thread", 2) == [None, None]


def test_samples_are_kept_for_a_day_and_fewer_of_those_older_than_an_hour() -> None:
    kept: list[Sample] = []
    for minute in range(2_000):
        kept = thinned([*kept, sample(minute)])

    ages = [(kept[-1].at_ms - one.at_ms) / 60_000 for one in kept]
    assert ages[-61:] == list(range(60, -1, -1))
    assert 1_440 <= ages[0] <= 1_460
    assert len(kept) < 210


def test_the_flow_between_two_looks_is_what_was_counted_since() -> None:
    assert flow_between("thread", totals(3), totals(10)) == {("created", "done"): 7}
    assert flow_between("job", totals(3), totals(10)) == {}


def test_a_look_finds_what_is_in_the_store(server: EmbeddedServer, prefix: str) -> None:
    interlock: Client = client_of(server.url, prefix)
    bring(interlock, "paper", "awaiting_confirmation")
    samples = Samples(interlock.dispatch)
    assert samples.before(HOUR_S) is None

    samples.look()
    samples.look()

    first = samples.before(DAY_S)
    assert first is not None
    assert first == samples.kept[0]
    assert first.counts["thread"] == {"awaiting_confirmation": 1}
    assert samples.kept[-1].transitions("thread") > 5
