"""An agent outlives neither a dead nor a frozen keeper, and a keeper notices a dead watchdog."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.workers.processes.agent import guard, process
from interlock.workers.processes.agent.containment import MARK, Containment, end_marked
from interlock.workers.processes.agent.process import KILL_BY_PASSED, WATCHDOG_LOST, SpawnError
from interlock.workers.processes.agent.process_table import newest_first
from interlock.workers.processes.agent.watchdog import Commission
from tests.processes import PROC, is_alive
from tests.waiting import until
from tests.workers.processes.stubborn_agents import (
    ENVIRONMENT,
    FAMILY,
    MEMBERS,
    STAY,
    alive,
    ended,
    ids,
    place_for,
    python,
    running,
)

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
ARM_S = 1.5
# Moves the time to die as long as it runs, and writes down how its agent ended.
KEEPER = """
import dataclasses, json, os, sys, time
from pathlib import Path
from interlock.workers.processes.agent import process
from interlock.workers.processes.agent.process import AgentProcess, Logs
from interlock.workers.processes.agent.containment import Containment

folder, kind, arm_s = Path(sys.argv[1]), Containment(sys.argv[2]), float(sys.argv[5])

def write(name, value):
    (folder / (name + ".part")).write_text(json.dumps(value))
    os.rename(folder / (name + ".part"), folder / name)

process.own_folder = lambda: Path(sys.argv[4]) if sys.argv[4] else None
agent = AgentProcess.start(
    [sys.executable, "-c", sys.argv[3]], folder=folder, environment=os.environ, prompt="",
    more_follows=False, hears_output=False, logs=Logs(folder / "out", folder / "err", 10_000),
    mark=str(folder), kill_by=time.monotonic() + arm_s, kinds=[kind],
)
write("watchdog", agent._guard._watchdog.pid)
{then}
while (exit := agent.wait(0.05)) is None:
    if not (folder / "last").exists():
        kill_by, last = time.monotonic() + arm_s, (folder / "enough").exists()
        agent.arm(kill_by)
        if last:
            write("last", kill_by)
write("exit", dataclasses.asdict(exit))
"""
FORK = "if not os.fork():\n    time.sleep(600)"


class Held(NamedTuple):
    """A kind of containment, and where its cgroups are made."""

    kind: Containment
    place: Path | None = None


SUBREAPER = Held(Containment.SUBREAPER)


@pytest.fixture(params=[Containment.CGROUP, Containment.SUBREAPER])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Return each kind that finds everyone."""
    wanted = Containment(request.param)
    with place_for(wanted) as place:
        monkeypatch.setattr(process, "own_folder", lambda: place)
        yield Held(wanted, place)


@contextmanager
def keeper_of(
    program: str, folder: Path, held: Held, *, arm_s: float = 100.0, then: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    arguments = folder, held.kind, program, held.place or "", arm_s
    keeper = subprocess.Popen(
        [*python(KEEPER.replace("{then}", then)), *map(str, arguments)],
        env=ENVIRONMENT,
        start_new_session=True,
    )
    try:
        yield keeper
    finally:
        with suppress(ProcessLookupError):
            os.killpg(keeper.pid, signal.SIGKILL)
        keeper.wait()


def written(folder: Path, name: str) -> Any:
    until((folder / name).exists, what=f"the keeper wrote {name}")
    return json.loads((folder / name).read_text())


def test_a_frozen_keepers_agent_is_dead_by_the_deadline(tmp_path: Path, held: Held) -> None:
    with keeper_of(FAMILY, tmp_path, held, arm_s=ARM_S) as keeper:
        family = ids(tmp_path, *MEMBERS)
        (tmp_path / "enough").touch()
        kill_by = written(tmp_path, "last")
        keeper.send_signal(signal.SIGSTOP)
        until(lambda: not alive(family), what="everything is dead", within_s=ARM_S + 10)
        dead_at = time.monotonic()
        keeper.send_signal(signal.SIGCONT)
        exit_ = written(tmp_path, "exit")

    assert dead_at < kill_by
    assert (exit_["code"], exit_["reason_by_us"]) == (-signal.SIGKILL, KILL_BY_PASSED)


def test_a_deadline_that_is_moved_in_time_kills_nobody(tmp_path: Path) -> None:
    with keeper_of(FAMILY, tmp_path, SUBREAPER, arm_s=ARM_S) as keeper:
        family = ids(tmp_path, *MEMBERS)
        later = time.monotonic() + 2 * ARM_S
        until(lambda: time.monotonic() > later, what="the first deadline is long past")

        assert alive(family) == family
        keeper.kill()
        until(lambda: not alive(family), what="everything is dead")


def test_an_agent_is_killed_when_its_keepers_whole_group_is(tmp_path: Path, held: Held) -> None:
    with keeper_of(FAMILY, tmp_path, held) as keeper:
        family = ids(tmp_path, *MEMBERS)
        watchdog = written(tmp_path, "watchdog")
        os.killpg(keeper.pid, signal.SIGKILL)
        until(lambda: not alive(family), what="everything is dead")
        until(lambda: not is_alive(watchdog), what="the watchdog is gone")


def test_a_closed_pipe_is_a_dead_keeper(tmp_path: Path) -> None:
    with running(python(FAMILY), tmp_path) as agent:
        family = ids(tmp_path, *MEMBERS)
        agent._guard._orders.close()
        exit_ = ended(agent)

        assert not alive(family)
    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, WATCHDOG_LOST)


def test_a_child_that_the_keeper_forked_keeps_no_agent_alive(tmp_path: Path) -> None:
    with keeper_of(FAMILY, tmp_path, SUBREAPER, then=FORK) as keeper:
        family = ids(tmp_path, *MEMBERS)
        # The fork comes before the first renewal, so that it is there when the keeper is killed.
        written(tmp_path, "watchdog")
        until(lambda: _children(keeper.pid) > 1, what="the keeper has forked")
        keeper.kill()
        until(lambda: not alive(family), what="everything is dead")


def test_the_keeper_ends_everything_when_its_watchdog_is_killed(tmp_path: Path, held: Held) -> None:
    bystander = subprocess.Popen(python("import time; time.sleep(600)"))
    try:
        with running(python(FAMILY), tmp_path, kinds=[held.kind]) as agent:
            family = ids(tmp_path, *MEMBERS)
            agent._guard._watchdog.kill()
            exit_ = ended(agent)

            assert not alive(family)
            assert not agent.heartbeat
        assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, WATCHDOG_LOST)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_who_forks_while_a_keeper_kills_it_is_killed_as_well(tmp_path: Path) -> None:
    program = f"""{STAY}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(50):
    if os.fork():
        os._exit(0)
    os.setsid()
    with open("births", "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(0.005)
time.sleep(600)
"""
    births = tmp_path / "births"
    with running(python(program), tmp_path, kinds=[Containment.SUBREAPER]) as agent:
        until(births.exists, what="the storm is on")
        agent._guard._watchdog.kill()
        ended(agent)

        assert not alive([int(line) for line in births.read_text().split()])


def test_a_frozen_watchdog_is_replaced_when_the_agent_has_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SILENCE_S_MAX", 0.2)
    with running(python(FAMILY), tmp_path) as agent:
        family = ids(tmp_path, *MEMBERS)
        agent._guard._watchdog.send_signal(signal.SIGSTOP)
        agent.end("timeout", grace_s=0.1)
        exit_ = ended(agent)

        assert not alive(family)
    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, "timeout")


def test_what_a_watchdog_started_before_it_died_unheard_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = "echo $$ > part; mv part orphan; exec sleep 600"
    script = f"setsid sh -c '{orphan}' > part & until [ -e orphan ]; do :; done; kill -9 $$"

    def start(_: Commission) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=tmp_path,
        )

    monkeypatch.setattr(guard, "start_watchdog", start)
    with pytest.raises(SpawnError, match="watchdog was lost"), running(["true"], tmp_path):
        pass

    assert not alive(ids(tmp_path, "orphan"))


def test_only_sigkill_ends_a_watchdog(tmp_path: Path) -> None:
    script = "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; read x; exit 3"
    with running(["bash", "-c", script], tmp_path, more_follows=True) as agent:
        agent.send("\n", last=True)

        exit_ = ended(agent)
    assert (exit_.code, exit_.reason_by_us) == (3, None)


def test_the_mark_finds_who_is_left_when_keeper_and_watchdog_are_killed(tmp_path: Path) -> None:
    marked = [name for name in MEMBERS if name != "stranger"]
    with keeper_of(FAMILY, tmp_path, SUBREAPER) as keeper:
        family = ids(tmp_path, *MEMBERS)
        os.kill(keeper.pid, signal.SIGSTOP)
        os.kill(written(tmp_path, "watchdog"), signal.SIGKILL)
        os.kill(keeper.pid, signal.SIGKILL)
        try:
            assert alive(family) == family
            assert end_marked(str(tmp_path), within_s=20)
            assert alive(family) == ids(tmp_path, *set(MEMBERS) - set(marked))
        finally:
            for number in alive(family):
                os.kill(number, signal.SIGKILL)


def test_a_cgroup_that_cannot_be_joined_is_not_taken_for_one_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place_for(Containment.CGROUP) as place:
        assert place is not None
        # Beside a threaded cgroup one can be made and killed, but not joined.
        sibling = place / "threaded"
        sibling.mkdir()
        (sibling / "cgroup.type").write_text("threaded")
        monkeypatch.setattr(process, "own_folder", lambda: place)
        with running(python(FAMILY), tmp_path) as agent:
            assert agent.containment is Containment.SUBREAPER
            family = ids(tmp_path, *MEMBERS)
        assert not alive(family)
        sibling.rmdir()


def test_a_folder_that_is_no_cgroup_filesystem_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.setattr(process, "own_folder", lambda: tmp_path / "plain")
    with running(["true"], tmp_path) as agent:
        assert agent.containment is Containment.SUBREAPER
    assert not list((tmp_path / "plain").iterdir())


def test_the_agent_carries_its_mark(tmp_path: Path) -> None:
    with running(["sleep", "600"], tmp_path) as agent:
        environment = Path(f"/proc/{agent.pid}/environ").read_bytes().split(b"\0")

    assert any(entry.startswith(f"{MARK}=".encode()) for entry in environment)


def _children(pid: int) -> int:
    return sum(seen.parent == pid for seen in newest_first())
