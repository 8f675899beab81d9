"""A contained command leaves no process behind, also where its watchdog or its starter is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.workers.processes.agent import cgroup
from interlock.workers.processes.agent import contained as module
from interlock.workers.processes.agent.contained import contained
from interlock.workers.processes.agent.containment import CGROUP, SUBREAPER
from interlock.workers.processes.agent.process_table import read_process
from interlock.workers.processes.process_group import Tail
from tests.processes import PROC
from tests.waiting import until
from tests.workers.processes.stubborn_agents import (
    ENVIRONMENT,
    FAMILY,
    MEMBERS,
    alive,
    cgroups_for,
    ids,
    python,
)

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
STARTER = """
import asyncio, os, sys
from pathlib import Path
from interlock.workers.processes.agent.contained import contained

async def main():
    folder = Path(sys.argv[1])
    command = [sys.executable, "-S", "-c", sys.argv[2]]
    async with contained(command, folder=folder, environment=os.environ, kill_s=600) as running:
        await running.ended()

asyncio.run(main())
"""


@pytest.fixture(params=[CGROUP, SUBREAPER], autouse=True)
def containment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with cgroups_for(request.param) as parent:
        monkeypatch.setattr(cgroup, "own_folder", lambda: parent)
        yield


def leaves_nothing(folder: Path, *, then: str = "", kill_s: float = 600) -> None:
    """Run the family of stubborn processes until they are up, and end them."""

    async def run() -> None:
        family = python(FAMILY)
        async with contained(family, folder=folder, environment=ENVIRONMENT, kill_s=kill_s) as one:
            found = await asyncio.to_thread(ids, folder, *MEMBERS)
            if then == "the leader ends":
                os.kill(found[0], signal.SIGKILL)
            if then == "the watchdog is killed":
                leader = read_process(found[0])
                assert leader is not None
                os.kill(leader.parent, signal.SIGKILL)
                with pytest.raises(OSError, match="watchdog was lost"):
                    await one.ended()
            elif then:
                assert await one.ended() == -signal.SIGKILL
            await one.end()
            left = alive(found)
            for process in left:
                os.kill(process, signal.SIGKILL)
            # Without a cgroup, nothing shows a process that has kept nothing and lost its parents.
            stranger = found[MEMBERS.index("stranger")]
            hidden = {stranger} if then == "the watchdog is killed" else set[int]()
            assert hidden.issuperset(left)

    asyncio.run(run())


@pytest.mark.parametrize("then", ["", "the leader ends", "the watchdog is killed"])
def test_no_process_of_a_command_is_left_however_it_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr(module, "CONTAINED_END_S", 0.1)

    leaves_nothing(tmp_path, then=then)


def test_all_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    leaves_nothing(tmp_path, then="time is up", kill_s=3)


def test_what_all_processes_of_a_command_print_is_read_in_its_order(tmp_path: Path) -> None:
    async def printed() -> str:
        command = ["sh", "-c", "echo one; (echo two >&2); echo three; exit 7"]
        async with contained(command, folder=tmp_path, environment={}, kill_s=600) as one:
            output = Tail(one.output)
            await output.read()
            assert await one.ended() == 7
        return output.text()

    assert asyncio.run(printed()) == "one\ntwo\nthree\n"


def test_all_is_killed_with_the_process_that_has_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), FAMILY]
    with subprocess.Popen(command, env=ENVIRONMENT) as starter:
        family = ids(tmp_path, *MEMBERS)
        starter.kill()
    until(lambda: not alive(family), what="the end of the whole family")


def test_a_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def start() -> None:
        async with contained(["/no/such"], folder=tmp_path, environment={}, kill_s=600):
            pass

    with pytest.raises(OSError, match="No such file or directory"):
        asyncio.run(start())
