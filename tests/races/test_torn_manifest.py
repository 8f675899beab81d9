"""A manifest is whole whoever is killed while writing it, and says what the log says after that."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.jobs.manifest import FILE, alone_at, read_manifest, write_manifest
from interlock.workers.jobs.view import manifest_now
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import InProcessWorker, LostError
from tests.waiting import until

KILLS = 40
SIZE = 200_000  # large enough that most of its time goes into the file
TORN = f"{FILE}.torn"
# For each number that it is told it forks a child, which writes one long manifest after the other
# from there on, each of one number through and through, until it is killed.
WRITERS = """
import itertools, os, sys
from pathlib import Path
from interlock.workers.jobs.manifest import alone_at, write_manifest
folder, size = Path(sys.argv[1]), int(sys.argv[2])
for first in sys.stdin:
    child = os.fork()
    if child:
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
        continue
    for number in itertools.count(int(first)):
        with alone_at(folder):
            write_manifest(folder, {"job_id": number, "summary": f"{number} " * size})
"""
GARBAGE = {
    "empty": b"",
    "cut off": b'{"job_id": "g/a", "status": "PEN',
    "no text": b"\xff\xfe\x00\x80",
    "no object": b"[]",
    "another": b'{"job_id": "g/b", "status": "SUCCESS"}',
    "too deep": b"[" * 200_000,
}


@pytest.fixture
def worker(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> InProcessWorker:
    text.now_us = START_US
    return InProcessWorker(server.url, prefix, tmp_path / "home", text=text)


def job(worker: InProcessWorker, folder: Path, of: str = "g/a") -> str:
    """Create a job that keeps a manifest, and do what is owed."""
    worker.create_job(of, dir=str(folder))
    worker.run_until_idle(of)
    return of


def right(worker: InProcessWorker, folder: Path, of: str = "g/a") -> bool:
    return read_manifest(folder) == manifest_now(worker.dispatch, of)


def numbers(found: dict[str, Any]) -> list[str]:
    return str(found["summary"]).split()


def test_whoever_is_killed_while_it_writes_leaves_a_whole_manifest_and_no_lock(
    tmp_path: Path,
) -> None:
    middle = 0
    with writers(tmp_path, SIZE) as start:
        for kill in range(KILLS):
            first = kill * 1_000_000
            with start(first):
                # The workload, not a wait: somewhere in the middle of whatever it does then.
                time.sleep(random.uniform(0, 0.02))
            found = read_manifest(tmp_path)
            assert found is not None, "it is never torn"
            assert numbers(found) == [str(found["job_id"])] * SIZE
            middle += (tmp_path / TORN).exists()
            with alone_at(tmp_path):
                write_manifest(tmp_path, {"job_id": -kill, "summary": ""})
            assert read_manifest(tmp_path) == {"job_id": -kill, "summary": ""}
    assert middle, "nobody was ever killed in the middle"


@contextmanager
def writers(folder: Path, size: int) -> Iterator[Callable[[int], AbstractContextManager[None]]]:
    """Return what starts a writer from a number on: it has begun, and is killed with its block."""
    command = [sys.executable, "-c", WRITERS, str(folder), str(size)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        tell, hear = process.stdin, process.stdout

        @contextmanager
        def start(first: int) -> Iterator[None]:
            tell.write(f"{first}\n")
            child = int(hear.readline())
            try:
                until(lambda: begun(folder, first), what="it writes")
                yield
            finally:
                os.kill(child, signal.SIGKILL)
                assert hear.readline() == "gone\n"

        yield start


def begun(folder: Path, first: int) -> bool:
    number = (read_manifest(folder) or {}).get("job_id")
    return isinstance(number, int) and number >= first


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_effect_that_is_lost_in_the_middle_is_done_by_the_next(
    worker: InProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    of = job(worker, tmp_path)
    worker.graphs.command(of, "suspend")
    before = read_manifest(tmp_path)

    def lost(*_: Any) -> None:
        raise LostError

    with monkeypatch.context() as patch:
        patch.setattr(os if step == "fsync" else Path, step, lost)
        with pytest.raises(LostError):
            worker.perform(of, "manifest")
    assert read_manifest(tmp_path) == before, "the old one is there until the new one is whole"
    assert not right(worker, tmp_path)
    assert (tmp_path / TORN).exists()

    worker.expire_leases()
    worker.run_until_idle(of)
    assert right(worker, tmp_path)
    assert not (tmp_path / TORN).exists()


@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_no_manifest_any_more_is_whole_after_the_next_command(
    worker: InProcessWorker, tmp_path: Path, name: str
) -> None:
    of = job(worker, tmp_path)
    (tmp_path / FILE).write_bytes(GARBAGE[name])
    worker.graphs.command(of, "run")

    assert read_manifest(tmp_path) is not None
    worker.perform(of, "manifest")
    assert right(worker, tmp_path)
    # Also after a command that is refused, when nothing is owed.
    (tmp_path / FILE).write_bytes(GARBAGE[name])
    with pytest.raises(Exception, match="not allowed"):
        worker.graphs.command(of, "unpause")
    assert right(worker, tmp_path)


@pytest.mark.parametrize("name", [*GARBAGE, "gone"])
def test_what_is_no_manifest_any_more_is_whole_after_the_next_effect(
    worker: InProcessWorker, tmp_path: Path, name: str
) -> None:
    of = job(worker, tmp_path)
    worker.client.fire(of, "suspend", {"by": "person"})
    (tmp_path / FILE).unlink()
    if name != "gone":
        (tmp_path / FILE).write_bytes(GARBAGE[name])

    worker.perform(of, "manifest")
    assert right(worker, tmp_path)


def test_strangers_that_write_at_the_same_time_tear_nothing(
    worker: InProcessWorker, tmp_path: Path
) -> None:
    of = job(worker, tmp_path)
    with writers(tmp_path, 10) as start, start(0):
        for verb in ("suspend", "resume", "suspend", "resume"):
            worker.graphs.command(of, verb)
            worker.run_until_idle(of)
            assert read_manifest(tmp_path) is not None

    worker.graphs.command(of, "suspend")
    worker.run_until_idle(of)
    assert right(worker, tmp_path)
