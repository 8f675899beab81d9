"""An agent outlives no dead or frozen supervisor, and a supervisor notices a dead watchdog."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from interlock.workers.processes.agent import cgroup, watchdog, watchdog_client
from interlock.workers.processes.agent.containment import (
    CGROUP,
    FREEZE_S,
    LABEL_VARIABLE,
    SUBREAPER,
    kill_labelled,
)
from interlock.workers.processes.agent.process import KILL_BY_PASSED, WATCHDOG_LOST, SpawnError
from interlock.workers.processes.agent.process_table import newest_processes
from interlock.workers.processes.agent.watchdog import WatchdogSpec
from tests.processes import PROC, is_alive
from tests.waiting import until
from tests.workers.processes.stubborn_agents import (
    ENVIRONMENT,
    FAMILY,
    MEMBERS,
    STAY,
    alive,
    cgroups_for,
    ended,
    ids,
    python,
    running,
)

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
ARM_S = 1.5
# A supervisor: moves the deadline as long as it runs, and writes down how its agent ended.
SUPERVISOR = """
import dataclasses, json, os, sys, time
from pathlib import Path
from interlock.workers.processes.agent import cgroup, watchdog, watchdog_client
from interlock.workers.processes.agent.process import AgentProcess, LogFiles
from interlock.workers.processes.clock import clock

folder, kind, arm_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[5])

def write(name, value):
    (folder / (name + ".part")).write_text(json.dumps(value))
    os.rename(folder / (name + ".part"), folder / name)

cgroup.own_folder = lambda: Path(sys.argv[4]) if sys.argv[4] else None
agent = AgentProcess.start(
    [sys.executable, "-c", sys.argv[3]], folder=folder, environment=os.environ, prompt="",
    more_follows=False, reads_output=False, logs=LogFiles(folder / "out", folder / "err", 10_000),
    label=str(folder), kill_by=clock() + arm_s, kinds=[kind],
)
write("watchdog", agent._watchdog._process.pid)
{then}
while (exit := agent.wait(0.05)) is None:
    if not (folder / "last").exists():
        last = (folder / "enough").exists()
        kill_by = clock() + (float(sys.argv[6]) if last else arm_s)
        agent.arm(kill_by)
        if last:
            write("last", kill_by)
write("exit", dataclasses.asdict(exit))
"""
FORK = "if not os.fork():\n    time.sleep(600)"


class ContainmentIn(NamedTuple):
    """A kind of containment, and the folder for its cgroups."""

    kind: str
    parent: Path | None = None


IN_SUBREAPER = ContainmentIn(SUBREAPER)


@pytest.fixture(params=[CGROUP, SUBREAPER])
def containment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ContainmentIn]:
    """Return each kind that finds all processes."""
    with cgroups_for(request.param) as parent:
        monkeypatch.setattr(cgroup, "own_folder", lambda: parent)
        yield ContainmentIn(request.param, parent)


@contextmanager
def supervised(
    program: str, folder: Path, containment: ContainmentIn, *, arm_s: float = 100.0, then: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    arguments = folder, containment.kind, program, containment.parent or "", arm_s, ARM_S
    supervisor = subprocess.Popen(
        [*python(SUPERVISOR.replace("{then}", then)), *map(str, arguments)],
        env=ENVIRONMENT,
        start_new_session=True,
    )
    try:
        yield supervisor
    finally:
        with suppress(ProcessLookupError):
            os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.wait()


def written(folder: Path, name: str) -> Any:
    until((folder / name).exists, what=f"the supervisor wrote {name}")
    return json.loads((folder / name).read_text())


def test_a_frozen_supervisors_agent_is_dead_after_the_deadline(
    tmp_path: Path, containment: ContainmentIn
) -> None:
    with supervised(FAMILY, tmp_path, containment) as supervisor:
        family = ids(tmp_path, *MEMBERS)
        (tmp_path / "enough").touch()
        written(tmp_path, "last")
        supervisor.send_signal(signal.SIGSTOP)
        until(lambda: not alive(family), what="everything is dead")
        supervisor.send_signal(signal.SIGCONT)
        exit_ = written(tmp_path, "exit")

    assert (exit_["code"], exit_["reason_by_us"]) == (-signal.SIGKILL, KILL_BY_PASSED)


def test_a_watchdog_begins_to_kill_so_early_that_all_can_be_dead_by_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, killed_at = [0.0], list[float]()

    def listen(_: int, wait_s: float) -> list[list[str]]:
        now_s[0] += wait_s
        return []

    def kill(*_: Any, **__: Any) -> bool:
        killed_at.append(now_s[0])
        return True

    reaper = SimpleNamespace(code=None, reap_all=lambda: bool(killed_at), cpu_s=0, max_rss_bytes=0)
    monkeypatch.setattr(watchdog, "clock", lambda: now_s[0])
    monkeypatch.setattr(watchdog, "kill_everything", kill)
    monkeypatch.setattr(watchdog, "Reaper", lambda _: reaper)
    monkeypatch.setattr(watchdog, "_report", lambda *_: None)
    processes: Any = SimpleNamespace(any_left=lambda: False, cgroup=None)
    orders: Any = SimpleNamespace(read_orders=listen, closed=False)

    watchdog.Watchdog(1, processes, orders=orders, woken=0, deadline=9.75).guard()

    assert killed_at == [9.75 - watchdog.MARGIN_S]
    assert watchdog.MARGIN_S > FREEZE_S


def test_a_deadline_that_is_moved_in_time_kills_no_process(tmp_path: Path) -> None:
    # A slow computer may move the deadline too late. With a longer one it moves it in time.
    assert any(outlives_deadlines(tmp_path / f"{arm_s}", arm_s) for arm_s in (ARM_S, 12.0, 75.0))


def outlives_deadlines(folder: Path, arm_s: float) -> bool:
    """Whether an agent is alive when its first deadline, which is moved all the time, is past."""
    folder.mkdir()
    with supervised(FAMILY, folder, IN_SUBREAPER, arm_s=arm_s) as supervisor:

        def is_over() -> bool:
            return (folder / "exit").exists() or supervisor.poll() is not None

        files = [folder / name for name in MEMBERS]
        until(lambda: is_over() or all(file.exists() for file in files), what="all are up")
        if is_over():
            return False
        family, later = ids(folder, *MEMBERS), time.monotonic() + 2 * arm_s
        long = "the first deadline is long past"
        until(lambda: is_over() or time.monotonic() > later, what=long, within_s=3 * arm_s + 60)
        outlives = alive(family) == family
        supervisor.kill()
        until(lambda: not alive(family), what="everything is dead")
    return outlives


def test_an_agent_is_killed_when_its_supervisors_whole_group_is(
    tmp_path: Path, containment: ContainmentIn
) -> None:
    with supervised(FAMILY, tmp_path, containment) as supervisor:
        family = ids(tmp_path, *MEMBERS)
        watchdog = written(tmp_path, "watchdog")
        os.killpg(supervisor.pid, signal.SIGKILL)
        until(lambda: not alive(family), what="everything is dead")
        until(lambda: not is_alive(watchdog), what="the watchdog is gone")


def test_a_closed_pipe_is_a_dead_supervisor(tmp_path: Path) -> None:
    with running(python(FAMILY), tmp_path) as agent:
        family = ids(tmp_path, *MEMBERS)
        agent._watchdog._orders.close()
        exit_ = ended(agent)

        assert not alive(family)
    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, WATCHDOG_LOST)


def test_a_child_that_the_supervisor_forked_keeps_no_agent_alive(tmp_path: Path) -> None:
    with supervised(FAMILY, tmp_path, IN_SUBREAPER, then=FORK) as supervisor:
        family = ids(tmp_path, *MEMBERS)
        # The fork comes before the first renewal, so it is there when the supervisor is killed.
        written(tmp_path, "watchdog")
        until(lambda: _children(supervisor.pid) > 1, what="the supervisor has forked")
        supervisor.kill()
        until(lambda: not alive(family), what="everything is dead")


def test_the_supervisor_ends_everything_when_its_watchdog_is_killed(
    tmp_path: Path, containment: ContainmentIn
) -> None:
    bystander = subprocess.Popen(python("import time; time.sleep(600)"))
    try:
        with running(python(FAMILY), tmp_path, kinds=[containment.kind]) as agent:
            family = ids(tmp_path, *MEMBERS)
            agent._watchdog._process.kill()
            exit_ = ended(agent)

            assert not alive(family)
        assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, WATCHDOG_LOST)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_an_agent_that_forks_while_it_is_killed_is_killed_as_well(tmp_path: Path) -> None:
    program = f"""{STAY}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(50):
    if os.fork():
        os._exit(0)
    os.setsid()
    with open("forks", "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(0.005)
time.sleep(600)
"""
    forks = tmp_path / "forks"
    with running(python(program), tmp_path, kinds=[SUBREAPER]) as agent:
        until(forks.exists, what="the forks are running")
        agent._watchdog._process.kill()
        ended(agent)

        assert not alive([int(line) for line in forks.read_text().split()])


def test_a_frozen_watchdog_is_replaced_when_the_agent_has_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog_client, "SILENCE_S_MAX", 0.2)
    with running(python(FAMILY), tmp_path) as agent:
        family = ids(tmp_path, *MEMBERS)
        agent._watchdog._process.send_signal(signal.SIGSTOP)
        agent.end("timeout", grace_s=0.1)
        exit_ = ended(agent)

        assert not alive(family)
    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, "timeout")


@pytest.mark.parametrize("report", ["zz", r"\0377", "left one", "exited 0 0 itself nan"])
def test_an_agent_that_writes_to_its_watchdogs_pipe_is_ended(tmp_path: Path, report: str) -> None:
    # It waits until the start is reported.
    script = f"read x; printf '%b\\n' '{report}' > /proc/$PPID/fd/1; exec sleep 600"
    with running(["sh", "-c", script], tmp_path, more_follows=True) as agent:
        agent.send("\n", last=True)
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, WATCHDOG_LOST)


@pytest.mark.parametrize("misuse", ["exec 9> {pipe}", "echo gone 0 0 > {pipe}"])
def test_an_agent_cannot_hide_that_it_killed_its_watchdog(tmp_path: Path, misuse: str) -> None:
    misuse = misuse.format(pipe="/proc/$PPID/fd/1")
    script = f"read x; {misuse}; kill -KILL $PPID; exec sleep 600"
    with running(["sh", "-c", script], tmp_path, more_follows=True) as agent:
        agent.send("\n", last=True)
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, WATCHDOG_LOST)


def test_a_line_without_an_end_in_a_watchdogs_pipe_is_not_kept(tmp_path: Path) -> None:
    script = "read x; exec cat /dev/zero > /proc/$PPID/fd/1"
    with running(["sh", "-c", script], tmp_path, more_follows=True) as agent:
        agent.send("\n", last=True)
        exit_ = ended(agent)

    assert exit_.reason_by_us == WATCHDOG_LOST


def test_a_value_that_no_watchdog_can_be_sent_starts_none_and_leaves_no_pipe(
    tmp_path: Path,
) -> None:
    class Colour(StrEnum):
        RED = "red"

    before = sorted(Path("/proc/self/fd").iterdir()), _children(os.getpid())
    environment = {**ENVIRONMENT, "COLOUR": Colour.RED}
    with (
        pytest.raises(SpawnError, match="not of a built-in type"),
        running(["true"], tmp_path, environment=environment),
    ):
        pass

    assert (sorted(Path("/proc/self/fd").iterdir()), _children(os.getpid())) == before


def test_an_agent_of_a_watchdog_that_died_before_its_report_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = "echo $$ > part; mv part orphan; exec sleep 600"
    script = f"setsid sh -c '{orphan}' > part & until [ -e orphan ]; do :; done; kill -9 $$"

    def start(_: WatchdogSpec) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=tmp_path,
        )

    monkeypatch.setattr(watchdog_client, "start_watchdog", start)
    with pytest.raises(SpawnError, match="watchdog was lost"), running(["true"], tmp_path):
        pass

    assert not alive(ids(tmp_path, "orphan"))


def test_only_sigkill_ends_a_watchdog(tmp_path: Path) -> None:
    script = "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; read x; exit 3"
    with running(["bash", "-c", script], tmp_path, more_follows=True) as agent:
        agent.send("\n", last=True)

        exit_ = ended(agent)
    assert (exit_.code, exit_.reason_by_us) == (3, None)


def test_the_label_finds_leftovers_when_supervisor_and_watchdog_are_killed(tmp_path: Path) -> None:
    labelled = [name for name in MEMBERS if name != "stranger"]
    with supervised(FAMILY, tmp_path, IN_SUBREAPER) as supervisor:
        family = ids(tmp_path, *MEMBERS)
        os.kill(supervisor.pid, signal.SIGSTOP)
        os.kill(written(tmp_path, "watchdog"), signal.SIGKILL)
        os.kill(supervisor.pid, signal.SIGKILL)
        try:
            assert alive(family) == family
            assert kill_labelled(str(tmp_path), within_s=180)
            assert alive(family) == ids(tmp_path, *set(MEMBERS) - set(labelled))
        finally:
            for process_id in alive(family):
                os.kill(process_id, signal.SIGKILL)


def test_a_cgroup_that_cannot_be_joined_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cgroups_for(CGROUP) as parent:
        assert parent is not None
        # Beside a threaded cgroup one can be made and killed, but not joined.
        sibling = parent / "threaded"
        sibling.mkdir()
        (sibling / "cgroup.type").write_text("threaded")
        monkeypatch.setattr(cgroup, "own_folder", lambda: parent)
        with running(python(FAMILY), tmp_path) as agent:
            assert agent.containment == SUBREAPER
            family = ids(tmp_path, *MEMBERS)
        assert not alive(family)
        sibling.rmdir()


def test_a_folder_outside_the_cgroup_filesystem_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.setattr(cgroup, "own_folder", lambda: tmp_path / "plain")
    with running(["true"], tmp_path) as agent:
        assert agent.containment == SUBREAPER
    assert not list((tmp_path / "plain").iterdir())


def test_the_agent_has_its_label(tmp_path: Path) -> None:
    with running(["sleep", "600"], tmp_path) as agent:
        environment = Path(f"/proc/{agent.pid}/environ").read_bytes().split(b"\0")

    assert any(entry.startswith(f"{LABEL_VARIABLE}=".encode()) for entry in environment)


def _children(pid: int) -> int:
    return sum(each.parent == pid for each in newest_processes())
