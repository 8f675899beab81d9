"""A manifest is complete even if its writer is killed, and later agrees with the log again."""

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

from interlock.systems.jobs.manifest import (
    MANIFEST_FILE,
    manifest_lock,
    manifest_now,
    read_manifest,
    write_manifest,
)
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import InProcessWorker, LostError
from tests.waiting import until

# Kills go on until so many of them hit a writer while its file was incomplete.
KILLS_MAX, TORN_MIN = 1_000, 3
SIZE = 100_000  # so large that it is not written at once
TORN = f"{MANIFEST_FILE}.torn"
# A program that reads numbers. For each it forks a child, which writes long manifests with this and
# the following numbers until it is killed; a manifest repeats its number throughout. Its disk is a
# slow one, so that about half of the kills leave an incomplete file.
WRITERS = """
import itertools, os, sys, time
from pathlib import Path
from interlock.systems.jobs.manifest import manifest_lock, write_manifest
folder, size = Path(sys.argv[1]), int(sys.argv[2])
fsync = os.fsync
os.fsync = lambda file: (time.sleep(0.01), fsync(file))
for first in sys.stdin:
    child = os.fork()
    if child:
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
        continue
    for number in itertools.count(int(first)):
        with manifest_lock(folder):
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


def job(worker: InProcessWorker, folder: Path, job_id: str = "g/a") -> str:
    """Create a job that keeps a manifest, and perform its effects."""
    worker.create_job(job_id, dir=str(folder))
    worker.run_until_idle(job_id)
    return job_id


def right(worker: InProcessWorker, folder: Path, job_id: str = "g/a") -> bool:
    return read_manifest(folder) == manifest_now(worker.client.records, job_id)


def numbers(found: dict[str, Any]) -> list[str]:
    return str(found["summary"]).split()


@pytest.mark.fuzz
def test_a_writer_that_is_killed_leaves_a_complete_manifest_and_no_lock(
    tmp_path: Path, *, is_proof: bool
) -> None:
    kills_min, middle = 100 if is_proof else 16, 0
    with writers(tmp_path, SIZE) as start:
        for kill in range(KILLS_MAX):
            if kill >= kills_min and middle >= TORN_MIN:
                break
            first = kill * 1_000_000
            with start(first):
                # The workload, not a wait: the child is killed in the middle of something.
                time.sleep(random.uniform(0, 0.02))
            found = read_manifest(tmp_path)
            assert found is not None, "it is never torn"
            assert numbers(found) == [str(found["job_id"])] * SIZE
            middle += (tmp_path / TORN).exists()
            with manifest_lock(tmp_path):
                write_manifest(tmp_path, {"job_id": -kill, "summary": ""})
            assert read_manifest(tmp_path) == {"job_id": -kill, "summary": ""}
    assert middle >= TORN_MIN, "too few writers were killed in the middle"


@contextmanager
def writers(folder: Path, size: int) -> Iterator[Callable[[int], AbstractContextManager[None]]]:
    """Return a function that starts a writer at a number; the writer is killed after the block."""
    command = [sys.executable, "-c", WRITERS, str(folder), str(size)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        @contextmanager
        def start(first: int) -> Iterator[None]:
            requests.write(f"{first}\n")
            child = int(answers.readline())
            try:
                until(lambda: begun(folder, first), what="it writes")
                yield
            finally:
                os.kill(child, signal.SIGKILL)
                assert answers.readline() == "gone\n"

        yield start


def begun(folder: Path, first: int) -> bool:
    number = (read_manifest(folder) or {}).get("job_id")
    return isinstance(number, int) and number >= first


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_manifest_effect_that_is_lost_in_the_middle_is_completed_by_the_next(
    worker: InProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    job_id = job(worker, tmp_path)
    worker.graphs.command(job_id, "suspend")
    before = read_manifest(tmp_path)

    def lost(*_: Any) -> None:
        raise LostError

    with monkeypatch.context() as patch:
        patch.setattr(os if step == "fsync" else Path, step, lost)
        with pytest.raises(LostError):
            worker.perform(job_id, "manifest")
    assert read_manifest(tmp_path) == before, "the old one is there until the new one is complete"
    assert not right(worker, tmp_path)
    assert (tmp_path / TORN).exists()

    worker.expire_leases()
    worker.run_until_idle(job_id)
    assert right(worker, tmp_path)
    assert not (tmp_path / TORN).exists()


@pytest.mark.parametrize("name", GARBAGE)
def test_a_damaged_manifest_is_restored_by_the_next_command(
    worker: InProcessWorker, tmp_path: Path, name: str
) -> None:
    job_id = job(worker, tmp_path)
    (tmp_path / MANIFEST_FILE).write_bytes(GARBAGE[name])
    worker.graphs.command(job_id, "run")

    assert read_manifest(tmp_path) is not None
    worker.perform(job_id, "manifest")
    assert right(worker, tmp_path)
    # A command that is refused, so that no effect is due, restores it as well.
    (tmp_path / MANIFEST_FILE).write_bytes(GARBAGE[name])
    with pytest.raises(Exception, match="not allowed"):
        worker.graphs.command(job_id, "unpause")
    assert right(worker, tmp_path)


@pytest.mark.parametrize("name", [*GARBAGE, "gone"])
def test_a_damaged_manifest_is_restored_by_the_next_effect(
    worker: InProcessWorker, tmp_path: Path, name: str
) -> None:
    job_id = job(worker, tmp_path)
    worker.client.fire(job_id, "suspend", {"by": "person"})
    (tmp_path / MANIFEST_FILE).unlink()
    if name != "gone":
        (tmp_path / MANIFEST_FILE).write_bytes(GARBAGE[name])

    worker.perform(job_id, "manifest")
    assert right(worker, tmp_path)


def test_other_processes_that_write_at_the_same_time_damage_nothing(
    worker: InProcessWorker, tmp_path: Path
) -> None:
    job_id = job(worker, tmp_path)
    with writers(tmp_path, 10) as start, start(0):
        for verb in ("suspend", "resume", "suspend", "resume"):
            worker.graphs.command(job_id, verb)
            worker.run_until_idle(job_id)
            assert read_manifest(tmp_path) is not None

    worker.graphs.command(job_id, "suspend")
    worker.run_until_idle(job_id)
    assert right(worker, tmp_path)
