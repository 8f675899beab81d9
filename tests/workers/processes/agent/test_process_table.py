"""A number alone is never a process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess

import pytest

from interlock.workers.processes.agent.process_table import Seen, carries, look, newest_first, send
from tests.processes import PROC
from tests.waiting import until
from tests.workers.processes.stubborn_agents import python

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")


def refuse(_: int) -> int:
    raise OSError(errno.ENOSYS, "this system is too old")


def seen(pid: int) -> Seen:
    found = look(pid)
    assert found is not None
    return found


@pytest.mark.parametrize("old", [False, True])
def test_a_signal_reaches_the_very_process_that_was_seen_and_no_later_one(
    monkeypatch: pytest.MonkeyPatch, *, old: bool
) -> None:
    if old:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    child = subprocess.Popen(python("import time; time.sleep(600)"))
    try:
        one = seen(child.pid)
        assert one.parent == os.getpid()
        send(one._replace(started=one.started - 1), signal.SIGKILL)
        send(one, signal.SIGTERM)

        assert child.wait() == -signal.SIGTERM
        send(one, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()


def test_the_dead_and_the_stopped_are_told_apart_from_the_running() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "kill -STOP $$; exit 0"])
    try:
        until(lambda: seen(child.pid).state == "T", what="it has stopped")
        stopped = seen(child.pid)
        child.send_signal(signal.SIGCONT)
        until(lambda: seen(child.pid).dead, what="it has ended")
        dead = seen(child.pid)
    finally:
        child.kill()
        child.wait()

    assert (stopped.halted, stopped.dead) == (True, False)
    assert dead.halted
    assert dead.same(stopped)
    assert not dead.same(None)
    assert look(child.pid) is None


def test_a_command_may_have_any_name() -> None:
    script = "printf 'a) Z 1 (' > /proc/$$/comm; echo; read x"
    child = subprocess.Popen(
        ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    one = seen(child.pid)
    child.communicate()

    assert (one.parent, one.dead) == (os.getpid(), False)


def test_the_youngest_come_first_and_everyone_comes() -> None:
    pids = [one.pid for one in newest_first()]

    assert pids == sorted(pids, reverse=True)
    assert {1, os.getpid(), os.getppid()} <= set(pids)


def test_an_entry_of_the_environment_is_compared_whole() -> None:
    child = subprocess.Popen(python("import time; time.sleep(600)"), env={"MARKED": "one"})
    try:
        # Between its start and its exec's end it has none to show.
        until(lambda: carries(child.pid, b"MARKED=one"), what="its environment is there")
        assert not carries(child.pid, b"MARKED=on")
        assert not carries(child.pid, b"ARKED=one")
    finally:
        child.kill()
        child.wait()
    assert not carries(child.pid, b"MARKED=one")
