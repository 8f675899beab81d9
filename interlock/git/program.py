"""Runs the git program: one call with a time limit, without a prompt, with its whole output.

The user's configuration is used, because filters, ignored files, credentials and safe folders are
set there. Settings that could make git hang or act differently are overridden for each call. Hooks
are off: they are written for a person at a terminal, may prompt, rewrite files or run for minutes,
and would check a task a second time, in another way than its verification does. The hooks of a
remote still run there.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from interlock.git.errors import (
    BusyError,
    FailedError,
    LockedError,
    ObstructedError,
    Refusal,
    RefusedError,
    TimedOutError,
    remedy_for,
)
from interlock.workers.inherited import inherited
from interlock.workers.processes.sandbox import Sandbox
from interlock.workers.redaction import without_secrets
from interlock.workers.text import one_line

COMMAND_S = 120.0
ANY_CODE = range(-64, 256)
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
GIT_END_S = 2.0  # from SIGTERM until SIGKILL, for git
_REAP_S = 2.0
_POLL_S = 0.01
_ERRORS_BYTES_MAX = 16 * 1024

SETTINGS: Mapping[str, str] = {
    "core.filesRefLockTimeout": "1000",
    "core.fsmonitor": "false",  # it would leave a daemon behind
    "core.hooksPath": os.devnull,
    "core.packedRefsTimeout": "10000",
    "core.safecrlf": "false",  # else git refuses an agent's file with mixed line ends
    "gc.auto": "0",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "30",
    "i18n.commitEncoding": "UTF-8",
    "maintenance.auto": "false",
    "push.followTags": "false",
    "push.recurseSubmodules": "no",
    "submodule.recurse": "false",
}
# No terminal, no window, no pager, and no command that rewrites the index only to read it.
VARIABLES: Mapping[str, str] = {
    "GCM_INTERACTIVE": "never",
    "GIT_ASKPASS": "",
    "GIT_EDITOR": ":",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS_REQUIRE": "never",
}
_LOCK = re.compile(r"Unable to create '(.+?\.lock)': File exists")


@dataclass(frozen=True, slots=True)
class GitResult:
    """The result of one call. `stderr` has git's messages for people."""

    exit_code: int
    output: bytes
    stderr: str

    def names(self) -> tuple[str, ...]:
        """Return the names that a `-z` command printed; one that is not UTF-8 has surrogates."""
        return tuple(os.fsdecode(name) for name in self.output.split(b"\0") if name)

    def line(self) -> str:
        """Return the output as one value, without the newline at its end."""
        return os.fsdecode(self.output.removesuffix(b"\n"))


@dataclass(frozen=True, slots=True)
class Git:
    """The git program in one folder, and in a sandbox if there is one.

    Its processes inherit the descriptors `keep_open`.
    """

    folder: Path
    command_s: float = COMMAND_S
    variables: Mapping[str, str] = field(default_factory=dict)
    keep_open: tuple[int, ...] = ()
    sandbox: Sandbox | None = None

    def in_folder(self, folder: Path, **variables: str) -> Git:
        """Return this program in another folder, with further variables."""
        return replace(self, folder=folder, variables={**self.variables, **variables})

    def with_settings(self, settings: Mapping[str, str]) -> Git:
        """Return this program with further settings; unlike for `-c`, a name may have a `=`."""
        count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        variables = {"GIT_CONFIG_COUNT": str(count + len(settings))}
        for number, (name, value) in enumerate(settings.items(), count):
            variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return self.in_folder(self.folder, **variables)

    def run(
        self, *arguments: str, stdin: bytes = b"", allowed: Collection[int] = (0,)
    ) -> GitResult:
        """Run git to its end and return it if its exit code is allowed. Raises GitError."""
        finished = self._finished(arguments, stdin)
        if finished.exit_code not in allowed:
            raise self.failure(arguments[0], finished)
        return finished

    def line(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run git and return the one value it prints. Raises GitError."""
        return self.run(*arguments, stdin=stdin).line()

    def failure(self, command: str, finished: GitResult) -> FailedError | LockedError:
        """Return the error for a call that failed."""
        if found := _LOCK.search(finished.stderr):
            lock = self.folder / found.group(1)
            return LockedError(lock, f"wait, or, if no git runs in {self.folder}, delete it")
        failed = (f"git {command}", finished.exit_code, one_line(without_secrets(finished.stderr)))
        if remedy := remedy_for(finished.stderr):
            return ObstructedError(*failed, remedy)
        return FailedError(*failed)

    @contextmanager
    def locked(self, file: Path, *, wait_s: float | None = None) -> Iterator[Git]:
        """Hold a lock that excludes Interlock's other processes; git inherits it and keeps it too.

        The empty file is not deleted: another process may be waiting for the lock on it.
        Raises BusyError if the lock is held for longer than `wait_s`, by default as long as one
        command may last, and RefusedError if the file cannot be written.
        """
        with _opened(file) as lock:
            until = time.monotonic() + (self.command_s if wait_s is None else wait_s)
            while not _taken(lock):
                if time.monotonic() >= until:
                    raise BusyError(file, "try again when it has ended")
                time.sleep(_POLL_S)
            yield replace(self, keep_open=(*self.keep_open, lock.fileno()))

    def _finished(self, arguments: tuple[str, ...], stdin: bytes) -> GitResult:
        settings = [part for pair in SETTINGS.items() for part in ("-c", "=".join(pair))]
        command = ["git", *settings, *arguments]
        if self.sandbox is not None:
            command = self.sandbox.around(command, self.folder)
        # Files, not pipes: a helper that git leaves in the background would keep a pipe open.
        with TemporaryFile() as source, TemporaryFile() as output, TemporaryFile() as errors:
            source.write(stdin)
            source.seek(0)
            try:
                process = subprocess.Popen(
                    command,  # of the user's PATH
                    stdin=source,
                    stdout=output,
                    stderr=errors,
                    cwd=self.folder,
                    env={**inherited(), **VARIABLES, **self.variables},
                    pass_fds=self.keep_open,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise self._not_started(error) from error
            try:
                exit_code = _exit_code(process, self.command_s)
            except subprocess.TimeoutExpired:
                raise TimedOutError(f"git {arguments[0]}", self.command_s) from None
            finally:
                _end(process)
            stderr = _tail(errors)
            if output.seek(0, os.SEEK_END) > OUTPUT_BYTES_MAX:
                why = f"it printed more than {OUTPUT_BYTES_MAX} bytes"
                raise FailedError(f"git {arguments[0]}", exit_code, why)
            output.seek(0)
            return GitResult(exit_code, output.read(), stderr)

    def _not_started(self, error: Exception) -> RefusedError:
        if isinstance(error, ValueError):
            problem = "a name has a NUL or another character that no file name can have"
            return RefusedError(Refusal.TEXT, problem, "use plain text")
        if not self.folder.is_dir():
            problem = f"the folder {self.folder} is not there"
            return RefusedError(Refusal.FOLDER_MISSING, problem, "make it again")
        problem = f"the program git cannot be started ({one_line(str(error))})"
        return RefusedError(Refusal.GIT_MISSING, problem, "install git 2.38 or later on the PATH")


def _opened(file: Path) -> IO[bytes]:
    try:
        return file.open("ab")
    except OSError as error:
        problem = f"{file} cannot be written ({error.strerror})"
        remedy = "give the user that runs this the right to write it"
        raise RefusedError(Refusal.NOT_WRITABLE, problem, remedy) from error


def _taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _exit_code(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Wait for the end of git. Raises subprocess.TimeoutExpired."""
    until = time.monotonic() + limit_s
    # Popen.wait only polls, with growing pauses, and notices the end of a short command late. It
    # has to do where the system has no descriptors of processes, or has none left.
    with suppress(AttributeError, OSError):
        descriptor = os.pidfd_open(process.pid)
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            ended.poll(limit_s * 1000)
        finally:
            os.close(descriptor)
    return process.wait(max(0.0, until - time.monotonic()))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git with SIGTERM, so that it removes its locks; then kill its process group."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GIT_END_S)
    _signal(process, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _ERRORS_BYTES_MAX))
    return errors.read().decode(errors="replace").strip()
