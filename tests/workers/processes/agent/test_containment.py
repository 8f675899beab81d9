"""All processes of an agent are found, and no other process is signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from unittest.mock import Mock
from uuid import uuid4

import pytest

from interlock.workers.processes.agent import containment
from interlock.workers.processes.agent.cgroup import Cgroup
from interlock.workers.processes.agent.containment import (
    CGROUP,
    LABEL_VARIABLE,
    AgentGroup,
    ProcessTree,
    kill_labelled,
)
from interlock.workers.processes.agent.process_table import (
    ProcessInfo,
    newest_processes,
    read_process,
)
from tests.processes import PROC
from tests.waiting import until
from tests.workers.processes.stubborn_agents import cgroups_for, python

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
SLEEP = python("import time; time.sleep(600)")


def test_the_number_of_an_emptied_group_is_not_signalled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = subprocess.Popen(SLEEP, start_new_session=True)
    group = AgentGroup(child.pid)
    assert group.any_left()
    assert group.pids() == [child.pid]
    group.kill()
    child.wait()
    assert not group.any_left()

    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda _, number: sent.append(number))
    group.terminate()
    group.kill()

    assert (group.any_left(), sent) == (False, [])


def test_a_process_is_asked_to_end_before_those_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = "sleep 600 & echo $!; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        both = [shell.pid, int(shell.stdout.readline())]
        sent: list[int] = []
        monkeypatch.setattr(
            containment,
            "send_signals",
            lambda each, *signals: sent.extend([each.pid][: len(signals)]),
        )
        ProcessTree(-1, cgroup=Mock(members=lambda: {*both})).terminate()
        for process_id in both:
            os.kill(process_id, signal.SIGKILL)

    assert sent == both


def test_a_tree_is_all_below_its_root_but_the_excluded() -> None:
    # Among the children of the test's own process are the servers that other tests share.
    before = [each for each in newest_processes() if each.parent == os.getpid()]
    excluded = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"])
    found = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
    one = read_process(excluded.pid)
    assert one is not None
    everyone, tree = (ProcessTree(os.getpid(), excluded=[*before, *more]) for more in ([], [one]))
    try:
        until(lambda: below(excluded.pid) and below(found.pid), what="both have a child")
        assert set(tree.pids()) == {found.pid, *below(found.pid)}
        assert {excluded.pid, *below(excluded.pid)} <= set(everyone.pids())
        assert os.getpid() not in everyone.pids()
        reused = ProcessTree(
            os.getpid(),
            excluded=[*before, ProcessInfo(one.pid, one.started - 1, one.parent, one.state)],
        )
        assert excluded.pid in reused.pids()
    finally:
        for root in (excluded, found):
            ProcessTree(root.pid).kill()
            root.kill()
            root.wait()


def below(pid: int) -> list[int]:
    return ProcessTree(pid).pids()


def test_processes_are_stopped_before_the_kill_even_if_the_time_for_it_is_over() -> None:
    family = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"])
    try:
        until(lambda: below(family.pid), what="its child is there")
        [child] = below(family.pid)

        ProcessTree(family.pid).freeze(until=time.monotonic() - 1)

        until(lambda: is_stopped(child), what="the child is stopped")
    finally:
        ProcessTree(family.pid).kill()
        family.kill()
        family.wait()


def is_stopped(pid: int) -> bool:
    found = read_process(pid)
    return found is not None and found.is_halted


def test_a_label_ends_its_processes_with_their_descendants_and_no_other() -> None:
    label = uuid4().hex
    unlabelled = {name: value for name, value in os.environ.items() if name != LABEL_VARIABLE}
    bystander = subprocess.Popen(SLEEP, env={**unlabelled, LABEL_VARIABLE: label[:-1]})
    script = ["/bin/sh", "-c", "env -u " + LABEL_VARIABLE + " sleep 600 & wait"]
    labelled = subprocess.Popen(script, env={**unlabelled, LABEL_VARIABLE: label})
    try:
        until(lambda: len(below(labelled.pid)) == 1, what="its child is there")
        child = read_process(below(labelled.pid)[0])
        assert child is not None
        # A zombie that this test has to reap counts as gone.
        assert kill_labelled(label, within_s=180)
        assert labelled.wait() == -signal.SIGKILL
        until(
            lambda: (now := read_process(child.pid)) is None or now.has_ended,
            what="its child is dead",
        )
        assert bystander.poll() is None
    finally:
        for process in (bystander, labelled):
            process.kill()
            process.wait()


def test_a_cgroup_is_killed_with_all_cgroups_below_it() -> None:
    with cgroups_for(CGROUP) as parent:
        assert parent is not None
        cgroup = Cgroup.make(parent / "one")
        assert cgroup is not None
        assert Cgroup.make(cgroup.folder) is None
        assert cgroup.folder.exists(), "an existing cgroup is neither used nor removed"
        inner = cgroup.folder / "inner" / "most"
        inner.mkdir(parents=True)
        child = subprocess.Popen(SLEEP)
        (inner / "cgroup.procs").write_text(str(child.pid))
        assert cgroup.populated()
        assert cgroup.members() == {child.pid}
        assert ProcessTree(-1, cgroup=cgroup).pids() == [child.pid]
        cgroup.kill()
        assert child.wait() == -signal.SIGKILL
        assert not cgroup.populated()
        cgroup.remove()
        assert not cgroup.folder.exists()
        assert not cgroup.populated()
