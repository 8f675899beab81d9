"""What a dead agent left running is ended; what a living one runs, or another's, never is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from interlock.workers.supervision import leftovers as remains
from interlock.workers.supervision.leftovers import LeftoversError
from interlock.workers.tasks.launch_spec import ClaimPaths, TaskLaunchSpec
from interlock.workers.tasks.leftovers import kill_leftovers_of
from tests.processes import PROC
from tests.workers.tasks.claims import Claimed, claimed
from tests.workers.threads.threads import client_of

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")


@pytest.fixture
def here(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Client:
    monkeypatch.chdir(tmp_path)
    return client_of(server.url, prefix)


@pytest.fixture
def agent(here: Client) -> Claimed:
    """Return an agent at work, whose keeper was told its brief on this machine."""
    begun = claimed(here, "b/one").alive()
    place = ClaimPaths(begun.task.key, begun.task.token, begun.place.turn, "", "", "", "")
    work_folder = str(begun.place.work_folder(here.settings))
    TaskLaunchSpec(
        key=begun.agent.key,
        token=begun.agent.token,
        work_folder=work_folder,
        command="true",
        stream="plain",
        session=False,
        place=place,
    ).write()
    return begun


@pytest.fixture
def marked(agent: Claimed) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that an agent started, in a session of its own."""
    with sleeping(agent.agent.key) as process:
        yield process
        process.kill()


def sleeping(mark: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(
        command, env={**os.environ, LABEL_VARIABLE: mark}, start_new_session=True
    )


def test_what_a_dead_agent_left_running_is_ended(
    here: Client, agent: Claimed, marked: subprocess.Popen[bytes]
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})

    kill_leftovers_of(here.dispatch, agent.place.agent)

    assert marked.wait() == -signal.SIGKILL


def test_what_an_agent_runs_that_lives_is_let_be(
    here: Client, agent: Claimed, marked: subprocess.Popen[bytes]
) -> None:
    kill_leftovers_of(here.dispatch, agent.place.agent)

    assert marked.poll() is None


def test_an_agent_of_another_deployment_with_the_same_name_is_left_alone(
    here: Client, agent: Claimed
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})

    with sleeping(f"{agent.place.agent}:1.0:another") as other:
        kill_leftovers_of(here.dispatch, agent.place.agent)

        assert other.poll() is None
        other.kill()


def test_an_agent_that_was_never_started_here_left_nothing(
    here: Client, agent: Claimed, marked: subprocess.Popen[bytes]
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})
    (agent.place.work_folder(here.settings) / "launch.json").write_text("{")

    kill_leftovers_of(here.dispatch, agent.place.agent)
    kill_leftovers_of(here.dispatch, "b/agent~nobody~1")

    assert marked.poll() is None


def test_whoever_cannot_be_ended_is_told_and_nothing_goes_on(
    here: Client,
    agent: Claimed,
    marked: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})
    monkeypatch.setattr(os, "pidfd_open", lambda _: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    monkeypatch.setattr(remains, "END_S_MAX", 0.1)

    with pytest.raises(LeftoversError, match="cannot be ended"):
        kill_leftovers_of(here.dispatch, agent.place.agent)

    assert marked.poll() is None
