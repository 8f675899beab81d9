"""One call of a sentinel: a command or a model is shown events; it never counts its failures."""

from __future__ import annotations

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Protocol, TypeAlias

from interlock.kernel.errors import KernelError
from interlock.workers.processes.agent.output import PendingLines
from interlock.workers.processes.group import ProcessGroup, Tail, process_group, text_of
from interlock.workers.runs.sentinels.strategy import Batch
from interlock.workers.supervision.command import CommandError, check_command
from interlock.workers.supervision.reports import TokensUsed, parse_line
from interlock.workers.text import sentence

SAID_BYTES_MAX = 4 * 1024
MATERIAL_BYTES_MAX = 256 * 1024
NOT_A_COMMAND = (126, 127)
GRACE_S = 0.2
_READ_S = 2.0
_CHUNK_BYTES = 64 * 1024

# Told micro-dollars as soon as they are known to be spent, however the call ends.
Book: TypeAlias = Callable[[int], None]


class SentinelCallError(KernelError):
    """A call failed, and another may not. `said` is what came before that."""

    def __init__(self, problem: str, said: str = "") -> None:
        super().__init__(problem)
        self.said = said


class FatalSentinelError(SentinelCallError):
    """No call of this sentinel can succeed. Unload it; what to correct is its specification."""


class Call(Protocol):
    """A way to show events to a sentinel."""

    async def __call__(self, events: Batch, book: Book) -> str:
        """Return what the sentinel said. Cancelled, it leaves nothing behind.

        Raises SentinelCallError.
        """


class Asks(Protocol):
    """The models that sentinels may ask; used and closed in the event loop of one host."""

    def open(self, model: str) -> None:
        """Open a model before it is asked. Raises FatalSentinelError."""

    async def ask(
        self, model: str, instructions: str, words: str, *, timeout_s: float, book: Book
    ) -> str:
        """Return what a model answers. Raises SentinelCallError."""

    async def close(self) -> None:
        """Close what was opened."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A shell command: it reads one JSON object, its usage is booked, the rest is what it says."""

    sentinel: str
    codon: str
    command: str
    folder: Path
    environment: Mapping[str, str]
    timeout_s: float

    def check(self) -> None:
        """Refuse what no shell could run. Raises FatalSentinelError."""
        try:
            check_command(self.command, self.folder)
        except CommandError as error:
            raise FatalSentinelError(error.problem) from error

    async def __call__(self, events: Batch, book: Book) -> str:
        """Run the command once."""
        output = _Output(book)
        shown = {"sentinel": self.sentinel, "codon": self.codon}
        shown_events = [event.stored() for event in events]
        given = json.dumps({**shown, "events": shown_events}, default=str).encode() + b"\n"
        try:
            exit_code, errors = await self._run(given, output)
        except TimeoutError as error:
            problem = f"the command did not end within {self.timeout_s:g} s"
            raise SentinelCallError(problem, output.said) from error
        except OSError as error:
            problem = f"the command could not be started: {sentence(str(error))}"
            raise SentinelCallError(problem) from error
        if exit_code == 0:
            return output.said
        last = sentence(errors.strip().rpartition("\n")[2])
        problem = f"the command ended with exit code {exit_code}" + (f": {last}" if last else "")
        kind = FatalSentinelError if exit_code in NOT_A_COMMAND else SentinelCallError
        raise kind(problem, output.said)

    async def _run(self, given: bytes, output: _Output) -> tuple[int, str]:
        async with process_group(
            ["/usr/bin/env", "bash", "-c", self.command],
            reads=True,
            folder=self.folder,
            environment=self.environment,
            grace_s=GRACE_S,
        ) as group:
            stdin, stdout, stderr = _pipes(group)
            errors = Tail(stderr)
            feeder = asyncio.create_task(_feed(stdin, given))
            readers = {asyncio.create_task(output.read(stdout)), asyncio.create_task(errors.read())}
            try:
                async with asyncio.timeout(self.timeout_s):
                    exit_code = await group.leader_ended()
            finally:
                # What it had said of its costs before it was stopped is in the pipe.
                await group.end()
                await asyncio.wait(readers, timeout=_READ_S)
                for task in (feeder, *readers):
                    task.cancel()
                output.end()
        return exit_code, errors.text()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model: the plan's prompt tells it what to do, and the events are what it looks at."""

    asks: Asks
    model: str
    instructions: str
    timeout_s: float

    async def __call__(self, events: Batch, book: Book) -> str:
        """Ask the model once."""
        try:
            async with asyncio.timeout(self.timeout_s):
                said = await self.asks.ask(
                    self.model,
                    self.instructions,
                    material(events),
                    timeout_s=self.timeout_s,
                    book=book,
                )
        except TimeoutError as error:
            problem = f"{self.model} did not answer within {self.timeout_s:g} s"
            raise SentinelCallError(problem) from error
        return text_of(said.encode(errors="replace")[-SAID_BYTES_MAX:])


def instructions(prompt: str, *, sentinel: str, codon: str) -> str:
    """Return a prompt with $sentinel and $codon filled in. Raises FatalSentinelError."""
    try:
        return Template(prompt).substitute(sentinel=sentinel, codon=codon)
    except KeyError as error:
        problem = f"the prompt names ${error.args[0]}; it can name $sentinel and $codon"
        raise FatalSentinelError(problem) from error
    except ValueError as error:
        problem = f"the prompt cannot be filled in: {error}; write $$ for a dollar"
        raise FatalSentinelError(problem) from error


def material(events: Batch) -> str:
    """Return events as lines of JSON for a model; of too many the newest are kept."""
    lines: list[str] = []
    room = MATERIAL_BYTES_MAX
    for event in reversed(events):
        line = json.dumps(event.stored(), default=str)
        room -= len(line) + 1
        if room < 0:
            lines.append(f"[{len(events) - len(lines)} older events are left out]")
            break
        lines.append(line)
    return "\n".join(reversed(lines))


class _Output:
    """The standard output of a command, while it is being read and after."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._lines = PendingLines()
        self._kept = b""

    @property
    def said(self) -> str:
        return text_of(self._kept).strip()

    async def read(self, stream: StreamReader) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
            self._lines.write(chunk)
            self._take()

    def end(self) -> None:
        self._lines.end()
        self._take()

    def _take(self) -> None:
        words = []
        for line in self._lines.take():
            told = parse_line(line) if b'"usage"' in line else None
            if isinstance(told, TokensUsed):
                self._book(told.cost_micro or 0)
            else:
                words.append(line + b"\n")
        self._kept = b"".join((self._kept, *words))[-SAID_BYTES_MAX:]


def _pipes(group: ProcessGroup) -> tuple[StreamWriter, StreamReader, StreamReader]:
    leader = group.leader
    assert leader.stdin is not None, "started with pipes"
    assert leader.stdout is not None, "started with pipes"
    assert leader.stderr is not None, "started with pipes"
    return leader.stdin, leader.stdout, leader.stderr


async def _feed(stdin: StreamWriter, given: bytes) -> None:
    # A command need not read what it is given.
    with suppress(ConnectionError):
        stdin.write(given)
        await stdin.drain()
    stdin.close()
