"""Runs a command while leases hold: its watchdog kills it when they can no longer be renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from interlock.kernel.errors import KernelError
from interlock.workers.engine.work import EffectWork
from interlock.workers.processes.agent.process import AgentProcess, Exit, LogFiles
from interlock.workers.supervision.work_command import Command, process_label

POLL_S = 0.1
SLEPT = "slept"  # the note of a record whose work was at rest while its computer slept
# The watchdog's kill deadline is moved only if it moves by more than this.
ARM_AFTER_S = 1.0
# The reason for ending a process whose supervisor's work folder was deleted.
FOLDER_DELETED = "work folder deleted"
FOLDER_DELETED_GRACE_S = 10.0


class FolderDeletedError(RuntimeError):
    """The work folder of a supervisor was deleted, and its process was ended.

    Nothing is reported of that, because a person who deletes the home of a deployment deletes its
    store as well.
    """


class LeasedProcess:
    """A command whose process lives no longer than leases do. `leases` returns the present ones.

    It also ends when its supervisor's `work_folder` is deleted. Each of its logs keeps
    `log_bytes_max`.
    """

    def __init__(
        self,
        command: Command,
        leases: Callable[[], Iterable[EffectWork]],
        *,
        log_bytes_max: int,
        work_folder: Path,
    ) -> None:
        self.command, self._leases, self._work_folder = command, leases, work_folder
        self._log_bytes_max = log_bytes_max
        self._kill_by = 0.0

    def run(
        self,
        *,
        read: Callable[[AgentProcess], object],
        act: Callable[[AgentProcess], object],
        started: Callable[[AgentProcess], object],
    ) -> Exit:
        """Run the command to its end, and return how it ended. See `Supervisor.run_command`."""
        with self.start() as process:
            started(process)
            ended = self.follow(process, read=read, act=act)
        if ended.reason_by_us == FOLDER_DELETED:
            raise FolderDeletedError
        return ended

    def start(self) -> AgentProcess:
        """Start the process. Raises SpawnError."""
        command, self._kill_by = self.command, self._kill_deadline()
        return AgentProcess.start(
            command.confined,
            folder=command.folder,
            environment=command.environment,
            prompt=command.prompt,
            more_follows=command.more_follows,
            reads_output=command.reads_output,
            logs=LogFiles(*command.log_files, self._log_bytes_max),
            label=process_label(command.logs),
            kill_by=self._kill_by,
        )

    def follow(
        self,
        process: AgentProcess,
        *,
        read: Callable[[AgentProcess], object],
        act: Callable[[AgentProcess], object],
    ) -> Exit:
        """Wait for the process to end, and return how it ended.

        At every poll `read` takes what the process has written, and while the process runs, `act`
        may end it. If this program dies, the watchdog kills the process at its kill deadline.
        """
        while True:
            ended = process.wait(POLL_S)
            read(process)
            if ended is not None:
                return ended
            for slept_s in process.take_sleeps():
                self._note_sleep(slept_s)
            kill_by = self._kill_deadline()
            if kill_by > self._kill_by + ARM_AFTER_S:
                self._kill_by = kill_by
                process.arm(kill_by)
            if is_deleted(self._work_folder):
                process.end(FOLDER_DELETED, grace_s=FOLDER_DELETED_GRACE_S)
            act(process)

    def _note_sleep(self, slept_s: float) -> None:
        """Note that the computer slept, and that its processes went on under renewed leases."""
        for work in self._leases():
            with suppress(KernelError):
                work.note(SLEPT, {"seconds": round(slept_s)})

    def _kill_deadline(self) -> float:
        """Return when the process must be dead unless the leases are renewed."""
        return min(work.kill_by for work in self._leases())


def is_deleted(folder: Path) -> bool:
    """Return whether a folder is certainly gone; one that cannot be looked at now is not."""
    try:
        folder.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
