"""A process is identified by its id and its start time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess

import pytest

from interlock.workers.processes.agent.process_table import (
    ProcessInfo,
    has_variable,
    newest_processes,
    read_process,
    send_signals,
)
from tests.processes import PROC
from tests.waiting import until
from tests.workers.processes.stubborn_agents import python

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")


def refuse(_: int) -> int:
    raise OSError(errno.ENOSYS, "this system is too old")


def process(pid: int) -> ProcessInfo:
    found = read_process(pid)
    assert found is not None
    return found


@pytest.mark.parametrize("old", [False, True])
def test_a_signal_reaches_the_process_that_was_read_and_no_later_one(
    monkeypatch: pytest.MonkeyPatch, *, old: bool
) -> None:
    if old:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    child = subprocess.Popen(python("import time; time.sleep(600)"))
    try:
        one = process(child.pid)
        assert one.parent == os.getpid()
        send_signals(ProcessInfo(one.pid, one.started - 1, one.parent, one.state), signal.SIGKILL)
        send_signals(one, signal.SIGTERM)

        assert child.wait() == -signal.SIGTERM
        send_signals(one, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()


def test_an_ended_and_a_stopped_process_are_not_taken_for_running() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "kill -STOP $$; exit 0"])
    try:
        until(lambda: process(child.pid).state == "T", what="it has stopped")
        stopped = process(child.pid)
        child.send_signal(signal.SIGCONT)
        until(lambda: process(child.pid).has_ended, what="it has ended")
        ended = process(child.pid)
    finally:
        child.kill()
        child.wait()

    assert (stopped.is_halted, stopped.has_ended) == (True, False)
    assert ended.is_halted
    assert ended.is_same(stopped)
    assert not ended.is_same(None)
    assert read_process(child.pid) is None


def test_a_command_may_have_any_name() -> None:
    script = "printf 'a) Z 1 (' > /proc/$$/comm; echo; read x"
    child = subprocess.Popen(
        ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    one = process(child.pid)
    child.communicate()

    assert (one.parent, one.has_ended) == (os.getpid(), False)


def test_every_process_is_listed_the_newest_first() -> None:
    pids = [each.pid for each in newest_processes()]

    assert pids == sorted(pids, reverse=True)
    assert {1, os.getpid(), os.getppid()} <= set(pids)


def test_an_entry_of_the_environment_is_compared_whole() -> None:
    child = subprocess.Popen(python("import time; time.sleep(600)"), env={"MARKED": "one"})
    try:
        # Until its exec has ended, it shows no environment.
        until(lambda: has_variable(child.pid, b"MARKED=one"), what="its environment is there")
        assert not has_variable(child.pid, b"MARKED=on")
        assert not has_variable(child.pid, b"ARKED=one")
    finally:
        child.kill()
        child.wait()
    assert not has_variable(child.pid, b"MARKED=one")
