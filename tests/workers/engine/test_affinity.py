"""A worker's threads share one processor, handlers that are not quick may use all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from celery import Celery
from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.solo import TaskPool as Solo
from celery.concurrency.thread import TaskPool as Threads
from celery.signals import task_prerun, worker_ready

from interlock.workers.engine.affinity import Affinity, tune_when_ready
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from tests.waiting import until
from tests.workers.engine.running import Running, settings_for

SHOW = "import os; print(sorted(os.sched_getaffinity(0)))"
EVERY = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}

QUICK_S = 0.05  # long enough for a busy computer
WATCHING: list[Affinity] = []

pytestmark = pytest.mark.skipif(len(EVERY) < 2, reason="one processor leaves no choice")


class Sender:
    """Stands in for the worker that Celery reports as ready; only its pool matters here."""

    def __init__(self, pool: object) -> None:
        self.pool = pool


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    for affinity in WATCHING:
        affinity.stop()
    WATCHING.clear()
    until_none_watches()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), EVERY)


def affinity() -> Affinity:
    made = Affinity(enabled=True)
    made.choose()
    return made


def watched(monkeypatch: pytest.MonkeyPatch) -> Affinity:
    """Return one that stays with its first choice, and knows the handler `check` as a quick one."""
    monkeypatch.setattr("interlock.workers.engine.affinity.PERIOD_S", 600)
    monkeypatch.setattr("interlock.workers.engine.affinity.QUICK_S", QUICK_S)
    made = Affinity(enabled=True)
    WATCHING.append(made)
    made.watch()
    until(lambda: made.chosen is not made.all_processors, what="it has chosen")
    made.narrow()
    with made.handler("check"):
        pass
    return made


def until_none_watches() -> None:
    until(
        lambda: all(thread.name != "affinity" for thread in threading.enumerate()),
        what="it has ended",
    )


def processors() -> set[int]:
    return os.sched_getaffinity(0)


def work() -> None:
    ends = time.thread_time() + 2 * QUICK_S
    while time.thread_time() < ends:
        pass


def test_a_handler_has_every_processor_until_it_is_known_as_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.engine.affinity.QUICK_S", QUICK_S)
    made = affinity()
    made.narrow()
    seen: list[set[int]] = []

    for does in (work, int, int, work, int):
        with made.handler("check"):
            seen.append(processors())
            does()
        assert processors() == made.chosen

    with made.handler("another"):
        assert processors() == EVERY
    assert len(made.chosen) == 1
    assert seen == [EVERY, EVERY, made.chosen, made.chosen, EVERY]


def test_a_quick_handler_that_goes_on_gets_every_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    made = watched(monkeypatch)
    monkeypatch.setattr("interlock.workers.engine.affinity.LATE_S", 0.3)

    with made.handler("check"):
        assert processors() == made.chosen
        until(lambda: processors() == EVERY, what="it has every processor")

    assert processors() == made.chosen


def show() -> str:
    return subprocess.check_output([sys.executable, "-c", SHOW], text=True).strip()


def show_of_a_thread() -> str:
    with ThreadPoolExecutor() as threads:
        return str(sorted(threads.submit(processors).result()))


told = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python tells of no thread")


@pytest.mark.parametrize("started", [show, pytest.param(show_of_a_thread, marks=told)])
def test_what_a_quick_handler_starts_has_every_processor(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[], str]
) -> None:
    made = watched(monkeypatch)
    monkeypatch.setattr("interlock.workers.engine.affinity.LATE_S", 600)

    with made.handler("check"):
        assert processors() == made.chosen
        assert started() == str(sorted(EVERY))


def test_a_module_that_a_quick_handler_loads_finds_every_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = watched(monkeypatch)
    monkeypatch.setattr("interlock.workers.engine.affinity.LATE_S", 600)
    (tmp_path / "counts_processors.py").write_text("import os\nSEEN = os.sched_getaffinity(0)\n")
    monkeypatch.syspath_prepend(tmp_path)

    with made.handler("check"):
        found = __import__("counts_processors")

    assert found.SEEN == EVERY


def test_a_new_choice_counts_from_the_next_call_on() -> None:
    made = affinity()
    made.narrow()
    made.chosen = frozenset(EVERY - made.chosen)

    made.narrow()

    assert os.sched_getaffinity(0) == made.chosen


def test_no_thread_is_moved_before_a_choice() -> None:
    made = Affinity(enabled=True)
    os.sched_setaffinity(0, {min(EVERY)})

    made.narrow()
    made.widen()

    assert os.sched_getaffinity(0) == {min(EVERY)}


def test_a_disabled_affinity_chooses_none() -> None:
    made = Affinity(enabled=False)

    made.watch()

    assert all(thread.name != "affinity" for thread in threading.enumerate())


def test_a_processor_that_was_taken_away_is_no_failure() -> None:
    made = affinity()
    made.chosen = frozenset({100_000})

    made.narrow()

    assert os.sched_getaffinity(0)


def test_a_handler_and_its_children_have_every_processor(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(settings_for(server.url, prefix))
    running.approved()
    running.runner.affinity.choose()
    running.runner.affinity.narrow()
    shown: list[str] = []

    def work(_: EffectWork) -> Outcome:
        shown.append(str(sorted(os.sched_getaffinity(0))))
        shown.append(subprocess.check_output([sys.executable, "-c", SHOW], text=True).strip())
        return Outcome("execution_done", {"result": "well"})

    running.perform("one", work)

    assert shown == [str(sorted(EVERY))] * 2
    assert os.sched_getaffinity(0) == running.runner.affinity.chosen


def test_an_asynchronous_handler_has_every_processor(server: EmbeddedServer, prefix: str) -> None:
    running = Running(settings_for(server.url, prefix))
    running.runner.affinity.choose()
    running.runner.affinity.narrow()
    running.approved()
    seen: list[set[int]] = []

    async def work(_: EffectWork) -> Outcome:
        seen.append(os.sched_getaffinity(0))
        return Outcome("execution_done", {"result": "well"})

    running.perform("one", work)

    assert seen == [EVERY]


@pytest.mark.parametrize(("pool", "watched"), [(Threads, True), (Prefork, False), (Solo, False)])
def test_only_a_pool_of_threads_is_tuned(
    monkeypatch: pytest.MonkeyPatch, pool: type, *, watched: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(
        "interlock.workers.engine.affinity.gc.freeze", lambda: calls.append("frozen")
    )
    made = Affinity(enabled=True)
    monkeypatch.setattr(made, "watch", lambda: calls.append("watched"))

    with connected(made):
        worker_ready.send(sender=Sender(object.__new__(pool)))

    assert calls == (["frozen", "watched"] if watched else [])


def test_every_task_begins_on_the_chosen_processor() -> None:
    made = affinity()
    app = Celery("one", set_as_current=False)
    seen: list[set[int]] = []

    def read_processors() -> None:
        seen.append(os.sched_getaffinity(0))

    task = app.task(read_processors, name="look")

    with connected(made):
        task.apply()

    assert seen == [made.chosen]


def test_it_chooses_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.workers.engine.affinity.PERIOD_S", 0.001)
    monkeypatch.setattr("interlock.workers.engine.affinity.CHOICE_S", 0.001)
    made = Affinity(enabled=True)
    made.watch()
    first = until(
        lambda: made.chosen is not made.all_processors and made.chosen, what="it has chosen"
    )
    until(lambda: made.chosen is not first, what="it chooses again")

    made.stop()

    until_none_watches()


@contextmanager
def connected(made: Affinity) -> Iterator[None]:
    """Tune the worker within the block only."""
    signals = (worker_ready, task_prerun)
    before = [list(signal.receivers or []) for signal in signals]
    tune_when_ready(made)
    try:
        yield
    finally:
        for signal, receivers in zip(signals, before, strict=True):
            signal.receivers = receivers
            signal.sender_receivers_cache.clear()
