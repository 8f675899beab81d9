"""Starts agents that are hard to end, and waits for their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from interlock.workers.processes.agent.cgroup import Cgroup, own_folder
from interlock.workers.processes.agent.containment import CGROUP, KINDS
from interlock.workers.processes.agent.process import AgentProcess, Exit, LogFiles
from interlock.workers.processes.clock import clock
from tests.processes import is_alive
from tests.waiting import until

LOG_BYTES_MAX = 1_000_000
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path.cwd())}

STAY = """
import os, signal, sys, time
def stay(name):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(name + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(name + ".part", name)
    time.sleep(600)
"""
# All ignore SIGTERM. The stranger has kept nothing: no parent, no session, no environment.
FAMILY = f"""{STAY}
def twice():
    os.setsid()
    if os.fork():
        os._exit(0)
if not os.fork():
    stay("child")
if not os.fork():
    os.setsid()
    stay("session")
if not os.fork():
    twice()
    stay("daemon")
if not os.fork():
    twice()
    program = {STAY!r} + "stay('stranger')"
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", program], {{}})
stay("leader")
"""
MEMBERS = ("leader", "child", "session", "daemon", "stranger")


def python(program: str) -> list[str]:
    # -S: the programs need the standard library only, and start in half the time.
    return [sys.executable, "-S", "-c", program]


@contextmanager
def running(
    command: Sequence[str],
    folder: Path,
    *,
    prompt: str = "",
    more_follows: bool = False,
    reads_output: bool = False,
    environment: Mapping[str, str] = ENVIRONMENT,
    kinds: Sequence[str] = KINDS,
) -> Iterator[AgentProcess]:
    with AgentProcess.start(
        command,
        folder=folder,
        environment=environment,
        prompt=prompt,
        more_follows=more_follows,
        reads_output=reads_output,
        logs=LogFiles(folder / "output", folder / "errors", LOG_BYTES_MAX),
        label=uuid4().hex,
        kill_by=clock() + 100,
        kinds=kinds,
    ) as agent:
        yield agent


def ended(agent: AgentProcess) -> Exit:
    exit_ = agent.wait(180)
    assert exit_ is not None, f"still there: {agent.survivors}"
    return exit_


def run(command: Sequence[str], folder: Path, prompt: str = "") -> Exit:
    with running(command, folder, prompt=prompt) as agent:
        return ended(agent)


def ids(folder: Path, *names: str) -> list[int]:
    """Wait until all of these processes are up, and return their ids."""
    files = [folder / name for name in names]
    until(lambda: all(file.exists() for file in files), what=f"{names} are up")
    return [int(file.read_text()) for file in files]


def alive(process_ids: Sequence[int]) -> list[int]:
    return [process_id for process_id in process_ids if is_alive(process_id)]


@contextmanager
def cgroups_for(kind: str) -> Iterator[Path | None]:
    """Yield a cgroup to make cgroups in, and check that none is left; skip if none can be made."""
    if kind != CGROUP:
        yield None
        return
    own = own_folder()
    parent = None if own is None else Cgroup.make(own / f"interlock-test-{uuid4().hex}")
    if parent is None:
        pytest.skip("no cgroup can be made here")
    try:
        yield parent.folder
        left = [path.name for path in parent.folder.iterdir() if path.is_dir()]
        assert not left
    finally:
        parent.kill()
        parent.remove()
