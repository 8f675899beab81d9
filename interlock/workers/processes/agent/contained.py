"""Runs a command and ends all that it has started, daemons too, when the block is left.

A watchdog starts the command and contains it as it does an agent. It also ends everything when this
process is killed, and at a deadline, even if this process is frozen then.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from interlock.workers.processes.agent.cgroup import Cgroup, fresh_folder
from interlock.workers.processes.agent.containment import KINDS, LABEL_VARIABLE, kill_labelled
from interlock.workers.processes.agent.watchdog import KILL_S_MAX, WatchdogSpec
from interlock.workers.processes.agent.watchdog_client import read_report, start_watchdog
from interlock.workers.processes.clock import clock
from interlock.workers.processes.process_group import CommandResult, Tail, uninterrupted

CONTAINED_END_S = 1.0  # from SIGTERM until SIGKILL, for a contained command
# How long the watchdog may take to report the start of a command, and later that all has ended.
START_S_MAX = 20.0
END_S_MAX = CONTAINED_END_S + 3 * KILL_S_MAX
LOST = "its watchdog was lost"
KILL_AFTER_S = 60.0  # after its time, where this process cannot end it, its watchdog kills it
_READ_S = 2.0


class ContainedCommand:
    """A running command; `output` is what it and its children print. `contained` makes it."""

    def __init__(
        self,
        watchdog: subprocess.Popen[bytes],
        spec: WatchdogSpec,
        reports: asyncio.StreamReader,
        output: asyncio.StreamReader,
    ) -> None:
        self.output = output
        self._watchdog, self._spec, self._reports = watchdog, spec, reports
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._gone = False
        self._following: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait until the command runs. Raises OSError with the reason if it cannot."""
        async with asyncio.timeout(START_S_MAX):
            line = await self._reports.readline()
        match read_report(line) if line else ():
            case ("started", *_):
                self._following = asyncio.create_task(self._follow())
            case ("failed", reason):
                self._gone = True
                raise OSError(reason)
            case _:
                raise OSError(LOST)

    async def ended(self) -> int:
        """Wait for the command, and return its exit code; a negative one is a signal's number.

        Raises OSError if its watchdog is lost.
        """
        return await asyncio.shield(self._exit_code)

    async def end(self) -> None:
        """End all processes: SIGTERM, then SIGKILL after the grace. Bounded, and safe to repeat."""
        if self._following is not None:
            assert self._watchdog.stdin is not None, "started with pipes"
            with suppress(OSError):
                self._watchdog.stdin.write(f"end {CONTAINED_END_S}\n".encode())
            await asyncio.wait({self._following}, timeout=END_S_MAX)
        if not self._gone:
            await asyncio.to_thread(self._end_without_watchdog)

    async def _follow(self) -> None:
        # The command can write to the same pipe. What is no report counts as the watchdog's loss.
        with suppress(ValueError):
            while not self._gone and (line := await self._reports.readline()):
                match read_report(line):
                    case ("exited", int(code), *_) if not self._exit_code.done():
                        self._exit_code.set_result(code)
                    case ("gone", *_):
                        self._gone = True
        if not self._exit_code.done():
            self._exit_code.set_exception(OSError(LOST))

    def _end_without_watchdog(self) -> None:
        self._watchdog.kill()
        self._watchdog.wait()
        # A cgroup that was not made behaves like an empty one.
        cgroup = None if self._spec.cgroup is None else Cgroup(Path(self._spec.cgroup))
        if cgroup is not None:
            cgroup.kill()
        kill_labelled(self._spec.environment[LABEL_VARIABLE], within_s=KILL_S_MAX)
        if cgroup is not None:
            cgroup.remove()
        self._gone = True


@asynccontextmanager
async def contained(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], kill_s: float
) -> AsyncIterator[ContainedCommand]:
    """Start a command; end it and all that it has started when the block is left.

    All is killed after `kill_s` in any case. Raises OSError or ValueError if it cannot be started.
    """
    output, theirs = os.pipe()
    descriptors = [os.open(os.devnull, os.O_RDONLY), theirs, os.dup(theirs)]
    spec = WatchdogSpec(
        command=list(command),
        folder=str(folder),
        environment={**environment, LABEL_VARIABLE: f"contained {uuid4().hex}"},
        kinds=list(KINDS),
        cgroup=fresh_folder(),
        descriptors=descriptors,
        deadline=clock() + kill_s,
    )
    with ExitStack() as stack:
        printed = stack.enter_context(os.fdopen(output, "rb", buffering=0))
        try:
            watchdog = stack.enter_context(start_watchdog(spec))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        reports = await _reader(stack, watchdog.stdout)
        running = ContainedCommand(watchdog, spec, reports, await _reader(stack, printed))
        try:
            await running.begin()
            yield running
        finally:
            await uninterrupted(running.end())


async def run_contained(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], within_s: float
) -> CommandResult:
    """Run a command, and end all that it has started when it has ended, or after `within_s`.

    The exit code of one that is late is None. Its errors are a part of its output. Raises OSError
    or ValueError if it cannot be started.
    """
    exit_code = None
    # The limit is kept here; the watchdog kills the command if this process cannot.
    kill_s = within_s + KILL_AFTER_S
    async with contained(command, folder=folder, environment=environment, kill_s=kill_s) as running:
        output = Tail(running.output)
        reader = asyncio.create_task(output.read())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    exit_code = await running.ended()
            # The pipe closes only when every process that the command started has ended.
            await running.end()
            _, unfinished = await asyncio.wait({reader}, timeout=_READ_S)
        finally:
            reader.cancel()
    return CommandResult(exit_code, output.text(), "", bool(unfinished) or output.cut)


async def _reader(stack: ExitStack, pipe: IO[bytes] | None) -> asyncio.StreamReader:
    assert pipe is not None, "started with pipes"
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    stack.callback(transport.close)
    return reader
