"""What becomes of an agent's work where its supervisor is refused something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from interlock.git.errors import GitError
from interlock.kernel.effect import Effect
from interlock.kernel.errors import CallError, FencedError, NewerSchemaError, StoreDownError
from interlock.kernel.event import Event
from interlock.kernel.store.leases import Lease
from interlock.workers.engine.records import Records
from interlock.workers.engine.work import Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.agent.process import AgentProcess, Exit
from interlock.workers.supervision.agent_supervisor import AgentSupervisor
from interlock.workers.supervision.launch import LaunchSpec
from interlock.workers.supervision.work_command import Command
from tests.workers.engine.running import Running, settings_for

REFUSALS = (GitError("the branch is gone"), CallError("it has ended"), OSError("the disk is full"))
OTHERS = (
    StoreDownError("the store is away"),
    FencedError("one", "token"),
    NewerSchemaError("one", 9, 1),
    KeyError("a mistake"),
)


class Agent(AgentSupervisor):
    """A supervisor of an agent that needs no process, and of which `step` raises an error."""

    machine, effect = "thread", Effect("execution")
    step, error = "", Exception()
    prints = "interlock"

    def __init__(self, spec: LaunchSpec, records: Records) -> None:
        super().__init__(spec, records)
        self.heard: list[str] = []

    def _reach(self, step: str) -> None:
        if step == self.step:
            raise self.error

    def on_progress(self, message: str, percent: int | None) -> None:
        del percent
        if message == "refused":
            raise self.error
        self.heard.append(message)

    def command(self) -> Command:
        self._reach("command")
        return Mock(spec=Command)

    def run_agent(self, command: Command) -> Exit:
        del command
        return Mock(spec=Exit)

    def outcome(self, ended: Exit) -> Outcome:
        del ended
        self._reach("outcome")
        return Outcome("execution_done", {"result": "well"})

    def failure(self, error: str) -> Outcome:
        return Outcome("execution_failed", {"code": "refused", "detail": error})


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Iterator[Running]:
    made = Running(settings_for(server.url, prefix))
    yield made
    made.dispatch.client.close()


def agent(running: Running, folder: Path, step: str, error: Exception) -> Agent:
    running.approved()
    key = running.entry("one", "execution").key("one")
    effect = running.dispatch.effect("thread", "execution")
    lease = running.dispatch.leases.claim(key, effect, nonce="n", holder="test", schema=9)
    assert isinstance(lease, Lease), lease
    spec = LaunchSpec(key=key, token=lease.token, work_folder=str(folder))
    made = Agent(spec, running.client.records)
    made.step, made.error = step, error
    return made


def failures(running: Running) -> list[Event]:
    lines = running.client.history("one")
    events = [line for line in lines if isinstance(line, Event)]
    return [event for event in events if event.trigger == "execution_failed"]


@pytest.mark.parametrize("error", REFUSALS, ids=repr)
@pytest.mark.parametrize("step", ["command", "outcome"])
def test_what_is_refused_is_the_failure_of_the_agent(
    running: Running, tmp_path: Path, step: str, error: Exception
) -> None:
    agent(running, tmp_path, step, error).run()

    assert [line.payload["detail"] for line in failures(running)] == [str(error)]


@pytest.mark.parametrize("error", OTHERS, ids=repr)
@pytest.mark.parametrize("step", ["command", "outcome"])
def test_any_other_error_leaves_the_agent_to_the_sweep(
    running: Running, tmp_path: Path, step: str, error: Exception
) -> None:
    supervisor = agent(running, tmp_path, step, error)
    with pytest.raises(type(error)):
        supervisor.run()

    assert not failures(running)
    assert running.entry("one", "execution").state == "leased"


@pytest.mark.parametrize("error", [OTHERS[0], CallError("the record has moved on")], ids=repr)
def test_a_report_that_is_refused_is_lost_and_the_agent_goes_on(
    running: Running, tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = agent(running, tmp_path, "", error)
    lines = [b'{"type": "progress", "message": "%b"}\n' % said for said in (b"refused", b"half")]
    process = Mock(spec=AgentProcess, reports=lambda: lines)

    supervisor._read(process)

    assert supervisor.heard == ["half"]
    assert f"a report is lost: {error}" in caplog.text
