"""An effect whose worker died is tried alone, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.record import partition_of
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.saved_results import SavedResults
from interlock.workers.config import read_settings
from interlock.workers.engine import isolation
from interlock.workers.engine.isolation import how_it_ended
from interlock.workers.engine.sweeps import orphans
from interlock.workers.gateways.server import EmbeddedServer
from tests.processes import is_alive
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.running import THREAD, Running, settings_for


@pytest.fixture
def running(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Running:
    """Return a runner whose settings another process finds in its environment."""
    settings = settings_for(server.url, prefix)
    variables = {
        "INTERLOCK_STORE_URL": server.url,
        "INTERLOCK_PREFIX": prefix,
        "INTERLOCK_NAMESPACE": prefix,
        "INTERLOCK_CAPABILITIES": str(settings.capabilities),
        "INTERLOCK_MODEL": "local",
        "INTERLOCK_MODEL_PRICES": "local=0/0",
        "INTERLOCK_MODEL_BASE_URL": "http://127.0.0.1:9/v1",
        "INTERLOCK_LEASE_S": "1.5",
        "DEPLOYMENT_FOLDER": str(tmp_path),
        "PYTHONPATH": str(Path.cwd()),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Running(read_settings())


def calls(folder: Path) -> list[dict[str, Any]]:
    file = folder / "recorded.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def lose(running: Running, record_id: str) -> None:
    """Lose the holder of an effect, and find that."""
    entry = running.entry(record_id)
    effect = running.dispatch.effect(THREAD.name, entry.name)
    key = entry.key(record_id)
    running.dispatch.leases.claim(key, effect, nonce="gone", holder="gone", schema=THREAD.schema)

    def lapsed() -> bool:
        orphans.run(sweeping(running.dispatch), partition_of(record_id))
        return running.entry(record_id).state == "lapsed"

    until(lapsed, what="its lease lapses")


def test_an_effect_is_tried_alone_once_its_worker_was_lost(
    running: Running, tmp_path: Path
) -> None:
    for name, is_lost in (("fresh", False), ("lost", True)):
        running.approved("jot", name)
        if is_lost:
            lose(running, name)
        assert running.perform(name) == "execution_done -> done"

    here = {call["record"]: call["pid"] == os.getpid() for call in calls(tmp_path)}
    assert here == {"fresh": True, "lost": False}
    assert running.client.show("lost").entries == running.client.show("fresh").entries


def test_an_effect_of_a_table_with_more_attempts_is_not_taken_for_one_that_lost_its_worker(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.approved("jot", "older")
    effect = running.dispatch.effect
    monkeypatch.setattr(
        running.dispatch, "effect", lambda *names: replace(effect(*names), attempts_max=2)
    )
    assert running.entry("older").attempts_max > 2

    assert running.perform("older") == "execution_done -> done"

    assert {call["pid"] == os.getpid() for call in calls(tmp_path)} == {True}


def test_a_process_that_dies_is_a_failed_attempt_that_says_how(
    running: Running, tmp_path: Path
) -> None:
    running.approved("always_deadly", "poison")
    lose(running, "poison")

    line = running.perform("poison")

    killed = "its worker died, so it was tried alone, in a process of its own; that process was "
    assert killed + "killed by SIGKILL, as the system does when memory runs out" in line
    assert line.startswith("retry: tried again in ")
    assert [call["pid"] == os.getpid() for call in calls(tmp_path)] == [False]
    entry = running.entry("poison")
    assert (entry.state, entry.attempts, entry.attempts_max) == ("owed", 2, 4)


@pytest.mark.usefixtures("running")
def test_a_supervisor_goes_on_that_an_effect_has_launched_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_CAPABILITIES", "tests.workers.engine.launching")
    launcher = Running(read_settings())
    spec = tmp_path / "supervisor" / "spec.json"
    spec.parent.mkdir()
    spec.write_text("{}")
    launcher.approved("launching", "one", spec=str(spec))
    lose(launcher, "one")

    assert launcher.perform("one") == "execution_done -> done"

    supervisor = json.loads(spec.with_name("seen.json").read_text())["pid"]
    goes_on = is_alive(supervisor)
    with suppress(ProcessLookupError):
        os.kill(supervisor, signal.SIGKILL)
    assert goes_on


def test_an_effect_is_tried_alone_once_an_attempt_hung(running: Running, tmp_path: Path) -> None:
    running.approved("jot", "hung")
    entry = running.entry("hung")
    effect, key = running.dispatch.effect(THREAD.name, entry.name), entry.key("hung")
    lease = running.dispatch.leases.claim(
        key, effect, nonce="hangs", holder="hangs", schema=THREAD.schema
    )
    assert isinstance(lease, Lease)
    SavedResults(running.dispatch.client, running.dispatch.keys).mark_hung(lease)
    running.dispatch.leases.release(lease, counted=True)

    assert running.perform("hung") == "execution_done -> done"

    assert {call["pid"] == os.getpid() for call in calls(tmp_path)} == {False}


@pytest.mark.usefixtures("running")
def test_a_process_that_does_not_end_itself_is_killed_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_CAPABILITIES", "tests.workers.engine.freezing")
    worker = Running(read_settings())
    worker.approved("freezing", "long")
    lose(worker, "long")
    effects = worker.dispatch.effect
    monkeypatch.setattr(
        worker.dispatch, "effect", lambda *names: replace(effects(*names), timeout_ms=100)
    )
    begun = threading.Event()
    monkeypatch.setattr(isolation, "ISOLATED_END_S", 0.1)
    monkeypatch.setattr(isolation, "clock", lambda: 1e9 if begun.is_set() else 0.0)
    lines = list[str]()
    thread = threading.Thread(target=lambda: lines.append(worker.perform("long")))
    thread.start()
    until(lambda: bool(calls(tmp_path)), what="it is at work")

    begun.set()

    thread.join(60)
    assert lines
    assert lines[0].endswith("it took longer than 0.1 s")
    assert lines[0].startswith("retry: tried again in")
    assert not is_alive(calls(tmp_path)[0]["pid"])


def test_an_effect_that_is_tried_alone_is_given_back_when_its_worker_ends(
    running: Running, tmp_path: Path
) -> None:
    running.approved("endless", "long")
    lose(running, "long")
    lines = list[str]()
    thread = threading.Thread(target=lambda: lines.append(running.perform("long")))
    thread.start()
    until(lambda: bool(calls(tmp_path)), what="it is at work")

    running.runner.shut_down()

    thread.join(60)
    assert lines
    assert lines[0].startswith("retry: released at shutdown")
    assert running.entry("long").state == "owed"


@pytest.mark.usefixtures("running")
def test_no_more_are_tried_alone_at_a_time_than_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "PROCESSES_MAX", 0)
    full = Running(read_settings())
    full.approved("jot", "waits")
    lose(full, "waits")
    lines = list[str]()
    thread = threading.Thread(target=lambda: lines.append(full.perform("waits")))
    thread.start()
    until(lambda: full.entry("waits").state == "leased", what="it is claimed")

    full.runner.shut_down()

    thread.join(60)
    assert lines == ["retry: released at shutdown: owed"]
    assert calls(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (139, "was killed by SIGSEGV, as after a fault in native code"),
        (-9, "was killed by SIGKILL, as the system does when memory runs out"),
        (143, "was killed by SIGTERM"),
        (1, "ended with exit code 1"),
        (0, "ended with exit code 0"),
        (255, "ended with exit code 255"),
    ],
)
def test_the_end_of_a_process_is_told_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == f"that process {words}"
