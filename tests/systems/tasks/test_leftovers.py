"""The processes of a dead agent are killed; those of a living one, or of another, are not."""

from __future__ import annotations

import _signal
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.systems.tasks.launch_spec import PreparedClaim, TaskLaunchSpec
from interlock.systems.tasks.work_folders import kill_leftovers_of
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from interlock.workers.processes.agent.process_table import has_variable
from interlock.workers.supervision import leftovers
from interlock.workers.supervision.leftovers import LeftoversError
from interlock.workers.supervision.work_command import process_label
from tests.processes import PROC
from tests.systems.tasks.claims import Claimed, claimed
from tests.systems.threads.threads import client_of
from tests.waiting import until

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")


@pytest.fixture
def client(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Client:
    monkeypatch.chdir(tmp_path)
    return client_of(server.url, prefix)


@pytest.fixture
def agent(client: Client) -> Claimed:
    """Return an agent at work, whose launch spec is on this computer."""
    claim = claimed(client, "b/one").alive()
    prepared = PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, "", "", "", "")
    work_folder = str(claim.names.work_folder(client.settings))
    TaskLaunchSpec(
        key=claim.agent.key,
        token=claim.agent.token,
        work_folder=work_folder,
        command="true",
        stream="plain",
        session=False,
        claim=prepared,
    ).write()
    return claim


@pytest.fixture
def process_of_agent(client: Client, agent: Claimed) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that an agent started, in a session of its own."""
    label = process_label(agent.names.work_folder(client.settings))
    with sleeping(label) as process:
        yield process
        process.kill()


def sleeping(label: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(
        command, env={**os.environ, LABEL_VARIABLE: label}, start_new_session=True
    )
    variable = f"{LABEL_VARIABLE}={label}".encode()
    # Until its exec has ended, it shows no environment.
    until(lambda: has_variable(process.pid, variable), what="its label is there")
    return process


def test_a_process_of_a_dead_agent_is_killed(
    client: Client, agent: Claimed, process_of_agent: subprocess.Popen[bytes]
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})

    kill_leftovers_of(client.records, agent.names.agent)

    assert process_of_agent.wait() == -signal.SIGKILL


@pytest.mark.parametrize("end", ["", "~sentinels"])
def test_a_process_that_an_earlier_version_started_is_killed(
    client: Client, agent: Claimed, end: str
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})
    folder = agent.names.work_folder(client.settings)
    labels = [f"{agent.agent.key} {folder}{end}", f"{agent.agent.key} {folder}er", f"/a {folder}"]
    with ExitStack() as stack:
        old, other, at_path = (stack.enter_context(sleeping(label)) for label in labels)
        try:
            kill_leftovers_of(client.records, agent.names.agent)

            assert old.wait() == -signal.SIGKILL
            assert (other.poll(), at_path.poll()) == (None, None)
        finally:
            for process in (old, other, at_path):
                process.kill()


def test_a_process_of_a_living_agent_is_not_killed(
    client: Client, agent: Claimed, process_of_agent: subprocess.Popen[bytes]
) -> None:
    kill_leftovers_of(client.records, agent.names.agent)

    assert process_of_agent.poll() is None


def test_an_agent_of_another_deployment_with_the_same_id_is_left_alone(
    client: Client, agent: Claimed, tmp_path: Path
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})

    with sleeping(process_label(tmp_path / "other")) as other:
        kill_leftovers_of(client.records, agent.names.agent)

        assert other.poll() is None
        other.kill()


def test_an_agent_that_was_never_started_on_this_computer_has_no_leftovers(
    client: Client, agent: Claimed, process_of_agent: subprocess.Popen[bytes]
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})
    kill_leftovers_of(client.records, "b/agent~nobody~1")

    assert process_of_agent.poll() is None


def test_a_process_that_cannot_be_killed_raises_an_error(
    client: Client,
    agent: Claimed,
    process_of_agent: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent.agent_fires("ended", {"exit_code": 1})
    monkeypatch.setattr(os, "pidfd_open", lambda _: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(_signal, "pidfd_send_signal", lambda *_: None)
    monkeypatch.setattr(leftovers, "END_S_MAX", 0.1)

    with pytest.raises(LeftoversError, match="cannot be ended"):
        kill_leftovers_of(client.records, agent.names.agent)

    assert process_of_agent.poll() is None
