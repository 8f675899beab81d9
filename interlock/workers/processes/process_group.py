"""Runs a command as a process group, and ends the whole group when the block is left.

A descendant that starts a session of its own is not in the group and is not ended;
`agent.contained` ends such a process as well.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

# Gets a line of an output without its end; returns whether to leave it out of the result.
Takes: TypeAlias = Callable[[bytes], bool]
GROUP_END_S = 1.0  # from SIGTERM until SIGKILL, where the caller does not say
OUTPUT_BYTES_MAX = 16 * 1024
LINE_BYTES_MAX = 4 * 1024 * 1024
_POLL_S = 0.01
_REAP_S = 2.0
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended, with the last 16 KiB of its output and of its errors.

    `exit_code` is None if it did not end in its time, and a negative one is a signal's number.
    `truncated` means that they are not all that it printed.
    """

    exit_code: int | None
    output: str
    errors: str
    truncated: bool


class ProcessGroup:
    """The leader of a group, and the way to end the group. `process_group` makes one."""

    def __init__(self, leader: Process, *, grace_s: float) -> None:
        self.leader = leader
        self._grace_s = grace_s
        self._gone = False

    @property
    def pipes(self) -> tuple[StreamWriter | None, StreamReader, StreamReader]:
        """The standard input of the leader, if it reads one, its output and its errors."""
        leader = self.leader
        assert leader.stdout is not None, "started with pipes"
        assert leader.stderr is not None, "started with pipes"
        return leader.stdin, leader.stdout, leader.stderr

    async def leader_ended(self) -> int:
        """Wait for the leader, and return its exit code; a negative one is a signal's number."""
        # Process.wait() would also wait for the pipes, which a leftover child may hold open.
        while self.leader.returncode is None:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(_POLL_S)
        return self.leader.returncode

    async def end(self) -> None:
        """End every member: SIGTERM, then SIGKILL after the grace. Bounded, and safe to repeat."""
        for number, wait_s in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, _REAP_S)):
            self._signal(number)
            if await self._emptied(wait_s):
                return

    async def close(self) -> None:
        """Close the pipes, which a survivor outside the group might hold open."""
        stdin = self.leader.stdin
        if stdin is not None and stdin.transport.get_write_buffer_size():
            # Nobody in the group reads the rest any more, and its close() would wait for a reader.
            stdin.transport.abort()
        transport = getattr(self.leader, "_transport", None)
        if transport is not None:
            transport.close()
        if stdin is not None:
            stdin.close()
            # Python 3.11.2 logs that the pipe broke, unless somebody asks how it was closed.
            with suppress(OSError):
                await stdin.wait_closed()

    async def _emptied(self, wait_s: float) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            self._signal(0)
            if self._gone and self.leader.returncode is not None:
                return True
            if self.leader.returncode is not None:
                self._gone = self._gone or await asyncio.to_thread(_only_zombies, self.leader.pid)
            if loop.time() >= until:
                return False
            await asyncio.sleep(_POLL_S)

    def _signal(self, number: int) -> None:
        # Once the group was empty, its number may be that of another group.
        if self._gone:
            return
        try:
            os.killpg(self.leader.pid, number)
        except ProcessLookupError:
            self._gone = True
        except PermissionError:
            # The group still exists: a member has another user, so we may not signal it.
            return


@asynccontextmanager
async def process_group(
    command: Sequence[str],
    *,
    reads: bool,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    grace_s: float = GROUP_END_S,
) -> AsyncIterator[ProcessGroup]:
    """Start a command as the leader of its own group; end the group when the block is left.

    Raises OSError or ValueError if it cannot be started.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE if reads else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=environment,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
    )
    try:
        # Shielded: if asyncio is cancelled here, it ends the leader but none of its children.
        leader = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await uninterrupted(_abandon(starting, grace_s=grace_s))
        raise
    group = ProcessGroup(leader, grace_s=grace_s)
    try:
        yield group
    finally:
        await uninterrupted(_end(group))


async def run_command(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    grace_s: float = GROUP_END_S,
    within_s: float | None = None,
    given: bytes = b"",
    takes: Takes | None = None,
) -> CommandResult:
    """Run a command with an input to its end.

    The whole process group has ended when this returns or is cancelled, children in the background
    too. `takes` gets each line of the output, and says whether to leave it out of the result. After
    `within_s` the group is ended, and the exit code is None. Raises OSError or ValueError if the
    command cannot be started.
    """
    exit_code = None
    async with process_group(
        command, reads=bool(given), folder=folder, environment=environment, grace_s=grace_s
    ) as group:
        stdin, output_pipe, errors_pipe = group.pipes
        output = TailOfLines(output_pipe, takes) if takes else Tail(output_pipe)
        errors = Tail(errors_pipe)
        feeder = asyncio.create_task(_feed(stdin, given))
        readers = {asyncio.create_task(output.read()), asyncio.create_task(errors.read())}
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    exit_code = await group.leader_ended()
        finally:
            # A child in the background holds the pipes open until it ends. What was printed before
            # the end may still be in them.
            await group.end()
            _, unfinished = await asyncio.wait(readers, timeout=_REAP_S)
            for task in (feeder, *readers):
                task.cancel()
            output.end()
    truncated = bool(unfinished) or output.cut or errors.cut
    return CommandResult(exit_code, output.text(), errors.text(), truncated)


class Tail:
    """Reads a stream and keeps its last 16 KiB."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self.cut = False
        self._stream = stream
        self._kept = b""

    async def read(self) -> None:
        """Read the stream to its end."""
        while chunk := await self._stream.read(_READ_BYTES):
            self.keep(chunk)

    def keep(self, chunk: bytes) -> None:
        """Keep what was read."""
        self._kept += chunk
        if len(self._kept) > OUTPUT_BYTES_MAX:
            self._kept, self.cut = self._kept[-OUTPUT_BYTES_MAX:], True

    def end(self) -> None:
        """Keep what is left when nothing more is read."""

    def text(self) -> str:
        """Return the kept bytes as text that any log can hold."""
        return text_of(self._kept)


class TailOfLines(Tail):
    """Reads a stream of lines, and keeps the last 16 KiB without the lines that are taken."""

    def __init__(self, stream: asyncio.StreamReader, takes: Takes) -> None:
        super().__init__(stream)
        self._line, self._takes = b"", takes

    def keep(self, chunk: bytes) -> None:
        """Keep the lines that are complete, but for those that are taken."""
        *lines, rest = (self._line + chunk).split(b"\n")
        for line in lines:
            self._sort_out(line)
        # Only the end of a longer line can be kept, and nobody takes such a line.
        self._line = rest[-_READ_BYTES - 1 :]

    def end(self) -> None:
        """Treat the rest without a line end as the last line."""
        if self._line:
            self._sort_out(self._line)
            self._line = b""

    def _sort_out(self, line: bytes) -> None:
        if not self._takes(line):
            super().keep(line + b"\n")


async def _feed(stdin: StreamWriter | None, given: bytes) -> None:
    if stdin is None:
        return
    # A command may end without reading its standard input.
    with suppress(ConnectionError):
        stdin.write(given)
        await stdin.drain()
    stdin.close()


async def uninterrupted(ending: Coroutine[object, object, None]) -> None:
    """Wait until an end is complete, also if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(ending)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        # A second cancellation must not leave processes alive; every wait inside is bounded.
        await asyncio.wait({task})
        raise


def _only_zombies(group: int) -> bool:
    """Whether all processes of a group are zombies, which wait for another process to reap them.

    The system's first process reaps orphans, and in a container that may take long.
    """
    states = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group_id = stat.read_bytes().rpartition(b")")[2].split()[:3]
            if int(group_id) == group:
                states.add(state)
    return states == {b"Z"}


def text_of(output: bytes) -> str:
    """Return output as text that any log can hold."""
    return output.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


async def _end(group: ProcessGroup) -> None:
    await group.end()
    await group.close()


async def _abandon(starting: asyncio.Future[Process], *, grace_s: float) -> None:
    with suppress(OSError, ValueError):
        await _end(ProcessGroup(await starting, grace_s=grace_s))
