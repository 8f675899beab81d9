"""Who is found belongs to the agent; who does not is never touched."""

from __future__ import annotations

import os
import signal
import subprocess
from uuid import uuid4

import pytest

from interlock.workers.processes.agent.cgroup import Cgroup
from interlock.workers.processes.agent.containment import MARK, Containment, Group, Tree, end_marked
from interlock.workers.processes.agent.process_table import look, newest_first
from tests.processes import PROC
from tests.waiting import until
from tests.workers.processes.stubborn_agents import place_for, python

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
SLEEP = python("import time; time.sleep(600)")


def test_an_emptied_groups_number_is_never_signalled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(SLEEP, start_new_session=True)
    group = Group(child.pid)
    assert group.left()
    assert group.pids() == [child.pid]
    group.kill()
    child.wait()
    assert not group.left()

    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda _, number: sent.append(number))
    group.ask()
    group.kill()

    assert (group.left(), sent) == (False, [])


def test_a_tree_is_all_below_its_root_but_whom_it_spares() -> None:
    # Among the children of the test's own process are the servers that other tests share.
    before = [one for one in newest_first() if one.parent == os.getpid()]
    spared = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"])
    found = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
    one = look(spared.pid)
    assert one is not None
    everyone, tree = (Tree(os.getpid(), spared=[*before, *more]) for more in ([], [one]))
    try:
        until(lambda: below(spared.pid) and below(found.pid), what="both have a child")
        assert set(tree.pids()) == {found.pid, *below(found.pid)}
        assert {spared.pid, *below(spared.pid)} <= set(everyone.pids())
        assert os.getpid() not in everyone.pids()
        reused = Tree(os.getpid(), spared=[*before, one._replace(started=one.started - 1)])
        assert spared.pid in reused.pids()
    finally:
        for root in (spared, found):
            Tree(root.pid).kill()
            root.kill()
            root.wait()


def below(pid: int) -> list[int]:
    return Tree(pid).pids()


def test_a_mark_ends_whom_it_names_with_all_below_and_nobody_else() -> None:
    mark = uuid4().hex
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    bystander = subprocess.Popen(SLEEP, env={**unmarked, MARK: mark[:-1]})
    script = ["/bin/sh", "-c", "env -u " + MARK + " sleep 600 & wait"]
    marked = subprocess.Popen(script, env={**unmarked, MARK: mark})
    try:
        until(lambda: len(below(marked.pid)) == 1, what="its child is there")
        child = look(below(marked.pid)[0])
        assert child is not None
        # A zombie of ours counts as gone: it is ours to reap.
        assert end_marked(mark, within_s=20)
        assert marked.wait() == -signal.SIGKILL
        until(lambda: (now := look(child.pid)) is None or now.dead, what="its child is dead")
        assert bystander.poll() is None
    finally:
        for process in (bystander, marked):
            process.kill()
            process.wait()


def test_a_cgroup_is_killed_with_all_that_was_made_below_it() -> None:
    with place_for(Containment.CGROUP) as place:
        assert place is not None
        cgroup = Cgroup.make(place / "one")
        assert cgroup is not None
        assert Cgroup.make(cgroup.folder) is None
        assert cgroup.folder.exists(), "one that was there is not ours to take or to remove"
        inner = cgroup.folder / "inner" / "most"
        inner.mkdir(parents=True)
        child = subprocess.Popen(SLEEP)
        (inner / "cgroup.procs").write_text(str(child.pid))
        assert cgroup.populated()
        assert cgroup.members() == {child.pid}
        assert Tree(-1, cgroup=cgroup).pids() == [child.pid]
        cgroup.kill()
        assert child.wait() == -signal.SIGKILL
        assert not cgroup.populated()
        cgroup.remove()
        assert not cgroup.folder.exists()
        assert not cgroup.populated()
