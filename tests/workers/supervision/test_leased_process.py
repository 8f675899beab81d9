"""A process lives as long as its leases are renewed, and is polled until it has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from interlock.workers.processes.agent.process import (
    KILL_BY_PASSED,
    LEASE_LOST_ERRORS,
    AgentProcess,
    Exit,
    SpawnError,
)
from interlock.workers.processes.clock import clock
from interlock.workers.supervision.leased_process import (
    FolderDeletedError,
    LeasedProcess,
)
from interlock.workers.supervision.work_command import Command


def ended(
    folder: Path,
    script: str,
    *works: Any,
    act: Callable[[AgentProcess], object] = lambda _: None,
    work_folder: Path | None = None,
) -> Exit:
    """Run a shell script under leases, and return how its process ended."""
    command = Command(
        arguments=("bash", "-c", script),
        folder=folder,
        sandbox=None,
        logs=folder,
    )
    process = leased(command, *works, work_folder=work_folder or folder)
    return process.run(read=AgentProcess.reports, act=act, started=lambda _: None)


def leased(command: Command, *works: Any, work_folder: Path) -> LeasedProcess:
    return LeasedProcess(command, lambda: works, log_bytes_max=100_000, work_folder=work_folder)


def dead_in(seconds: float) -> Any:
    """Return work whose process must be dead in so many seconds."""
    return SimpleNamespace(kill_by=clock() + seconds)


class Scripted:
    """A process that is still running at so many polls, and notes how its deadline is moved."""

    def __init__(self, polls: int) -> None:
        self.polls, self.armed, self.sleeps = polls, list[float](), list[float]()

    def wait(self, _: float) -> str | None:
        self.polls -= 1
        return None if self.polls >= 0 else "ended"

    def take_sleeps(self) -> list[float]:
        taken, self.sleeps = self.sleeps, []
        return taken

    def arm(self, kill_by: float) -> None:
        self.armed.append(kill_by)


def test_the_kill_deadline_follows_the_lease_that_ends_first(tmp_path: Path) -> None:
    process: Any = Scripted(polls=4)
    first, second = SimpleNamespace(kill_by=10.0), SimpleNamespace(kill_by=20.0)
    renewed = iter([20.5, 30.0, 40.0, 40.0])
    followed = leased(cast("Command", None), first, second, work_folder=tmp_path)

    def renew(_: AgentProcess) -> None:
        first.kill_by = next(renewed)

    end: Any = followed.follow(process, read=lambda _: None, act=renew)

    assert end == "ended"
    # The second lease is not renewed, so the deadline moves to its end and no further.
    assert process.armed == [10.0, 20.0]


def test_a_sleep_is_noted_at_each_record_whose_lease_the_process_needs(tmp_path: Path) -> None:
    process: Any = Scripted(polls=2)
    process.sleeps = [150.4]
    notes = list[tuple[str, str, Any]]()

    def work(name: str) -> Any:
        return SimpleNamespace(kill_by=10.0, note=lambda *note: notes.append((name, *note)))

    followed = leased(cast("Command", None), work("agent"), work("task"), work_folder=tmp_path)

    followed.follow(process, read=lambda _: None, act=lambda _: None)

    assert notes == [(name, "slept", {"seconds": 150}) for name in ("agent", "task")]


def test_the_lease_that_is_not_renewed_ends_the_process(tmp_path: Path) -> None:
    end = ended(tmp_path, "sleep 60", dead_in(60), dead_in(0.5))

    assert end.reason_by_us == KILL_BY_PASSED
    assert end.lease_error == LEASE_LOST_ERRORS[KILL_BY_PASSED]


def test_a_process_is_ended_for_the_reason_of_its_supervisor(tmp_path: Path) -> None:
    def end(process: AgentProcess) -> None:
        process.end("enough", grace_s=5)

    ending = ended(tmp_path, "sleep 60", dead_in(60), act=end)
    assert (ending.reason_by_us, ending.lease_error) == ("enough", "")


def test_a_command_whose_logs_cannot_be_made_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "output.log").mkdir()
    with pytest.raises(SpawnError, match=r"^cannot start 'bash': .*output.log"):
        ended(tmp_path, "touch started", dead_in(60))
    assert not (tmp_path / "started").exists()


def test_a_process_is_ended_when_the_work_folder_of_its_supervisor_is_deleted(
    tmp_path: Path,
) -> None:
    work_folder = tmp_path / "work"
    work_folder.mkdir()

    def delete(_: AgentProcess) -> None:
        if work_folder.exists():
            work_folder.rmdir()

    with pytest.raises(FolderDeletedError):
        ended(tmp_path, "sleep 60", dead_in(60), act=delete, work_folder=work_folder)
