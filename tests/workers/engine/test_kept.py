"""A kept value is read once for all who ask, until it is too old or could not be read."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import pytest

from interlock.workers.engine.kept import Kept
from tests.waiting import until


@pytest.mark.parametrize(("kept_s", "values"), [(3_600, [0, 0, 0]), (-1.0, [0, 1, 2])])
def test_a_value_is_read_anew_only_when_it_is_too_old(kept_s: float, values: list[int]) -> None:
    kept = Kept(count().__next__, kept_s)

    assert [kept.value() for _ in range(3)] == values


def test_a_value_that_could_not_be_read_is_not_kept() -> None:
    values = iter([1])

    kept = Kept(lambda: next(values), -1.0)

    assert kept.value() == 1
    for _ in range(2):
        with pytest.raises(StopIteration):
            kept.value()


def test_who_waited_for_a_reading_that_failed_gets_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock: list[float] = []

    def now_s() -> float:
        clock.append(time.monotonic())
        return clock[-1]

    def read() -> int:
        if not readings:
            asked = len(clock)
            waiting.append(pool.submit(kept.value))
            until(lambda: len(clock) > asked, what="the other caller waits")
        readings.append(len(readings))
        raise ValueError(f"reading {readings[-1]}")

    monkeypatch.setattr("interlock.workers.engine.kept.time", SimpleNamespace(monotonic=now_s))
    readings: list[int] = []
    waiting: list[Future[int]] = []
    kept = Kept(read)
    with ThreadPoolExecutor() as pool:
        with pytest.raises(ValueError, match="reading 0"):
            kept.value()
        with pytest.raises(ValueError, match="reading 0"):
            waiting[0].result()
    with pytest.raises(ValueError, match="reading 1"):
        kept.value()


def test_nobody_waits_for_a_value_that_is_read_anew_behind() -> None:
    numbers, gate = count(), threading.Event()

    def read() -> int:
        number = next(numbers)
        if number:
            gate.wait()
        return number

    kept = Kept(read, -1.0, behind_s=3_600)

    assert [kept.value() for _ in range(3)] == [0, 0, 0]
    gate.set()
    until(lambda: kept.value() > 0, what="the value is read anew")
