"""Measures one side of the comparison with peers whose work is in a database."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from bench.machine import EFFECTS
from bench.peers.environment import ROOT
from bench.workers import Processes

WARM = 20
POLL_S = 0.1
DRAIN_S_MAX = 120.0
DATABASE = "PEER_DATABASE"
Ask = Callable[..., int]


def drain(python: Path, program: str, database: str, chains: int) -> float:
    """Return chains a second, from when a warm worker gets a full queue to the last body."""
    names = {**os.environ, DATABASE: database, "PYTHONPATH": str(ROOT)}
    environment = {name: value for name, value in names.items() if name != "VIRTUAL_ENV"}
    folder = Path(mkdtemp(prefix="interlock-bench-"))
    workers = Processes([[str(python), "-m", program]], folder, environment)
    with workers:
        producing = [str(python), "-m", "bench.peers.producer", program]
        with _producer(producing, environment) as ask:
            ask("hold", WARM)
            ask("show")
            _until_done(ask, program, WARM)
            ask("hold", chains)
            started_s = time.time()
            ask("show")
            _until_done(ask, program, chains + WARM)
    totals, wanted = workers.totals(), EFFECTS * (chains + WARM)
    if totals.bodies != wanted:
        raise RuntimeError(f"{program}: {totals.bodies} bodies, not {wanted}; see {folder}")
    rmtree(folder)
    return chains / (totals.last_s - started_s)


@contextmanager
def _producer(command: Sequence[str], environment: dict[str, str]) -> Iterator[Ask]:
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as producer:
        lines, answers = producer.stdin, producer.stdout
        assert lines is not None
        assert answers is not None

        def ask(*words: object) -> int:
            lines.write(" ".join(map(str, words)) + "\n")
            return int(answers.readline())

        answers.readline()
        yield ask
        lines.close()


def _until_done(ask: Ask, program: str, chains: int) -> None:
    until = time.monotonic() + DRAIN_S_MAX
    while ask("done") != chains:
        if time.monotonic() > until:
            raise RuntimeError(f"{program}: {chains} chains are not done in {DRAIN_S_MAX:g} s")
        time.sleep(POLL_S)
