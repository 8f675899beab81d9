"""Starts a worker as a process of its own, in a project that is not this checkout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from interlock.workers.processes.bound_process import end_bound, start_bound
from tests.waiting import until

READY_S = 180.0


@contextmanager
def fresh_worker(
    python: Path, folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[Path]:
    """Run a worker with the packages that this Python finds in the folder; return its log."""
    command = [str(python), "-m", "celery", "-A", "interlock.workers.main", "worker"]
    quiet = ["-P", "threads", "-c", "2", "--without-mingle", "--without-gossip", "--loglevel=INFO"]
    with log.open("wb") as output:
        process = start_bound(
            [*command, *quiet], folder=folder, output=output, grace_s=20, environment=environment
        )
    try:
        until(lambda: b" ready." in log.read_bytes(), what="the worker is ready", within_s=READY_S)
        yield log
    finally:
        assert process.stdin is not None
        process.stdin.close()
        end_bound(process, patience_s=60)
