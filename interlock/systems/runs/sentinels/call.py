"""One call of a sentinel: a command or a model gets events, and returns a text.

A call that fails raises an error. Its runner counts failures, and unloads the sentinel.
"""

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

from interlock import CallError, KernelError
from interlock.system.agents import (
    ReportListener,
    Sandbox,
    Tail,
    UsageAdded,
    check_command,
    process_group,
    report_stream,
    text_of,
)
from interlock.system.text import sentence
from interlock.systems.runs.sentinels.call_timing import Batch

OUTPUT_BYTES_MAX = 4 * 1024
MATERIAL_BYTES_MAX = 256 * 1024
NOT_A_COMMAND = (126, 127)
CALL_END_S = 0.2  # from SIGTERM until SIGKILL, for the command of a sentinel
_READ_S = 2.0
_CHUNK_BYTES = 64 * 1024

# Called with micro-dollars as soon as they are known to be spent, however the call ends.
BookCost: TypeAlias = Callable[[int], None]


class SentinelCallError(KernelError):
    """A call failed, and the next may succeed. `output` is the text that it had returned."""

    def __init__(self, problem: str, output: str = "") -> None:
        super().__init__(problem)
        self.output = output


class FatalSentinelError(SentinelCallError):
    """No call of this sentinel can succeed. Unload it, and correct its specification."""


class SentinelCall(Protocol):
    """A way to pass events to a sentinel."""

    async def __call__(self, events: Batch, book: BookCost) -> str:
        """Return the text that the sentinel answers. Raises SentinelCallError.

        A call that is cancelled leaves no process behind.
        """


class ModelAccess(Protocol):
    """Access to the models that sentinels ask; used and closed in the event loop of one host."""

    def open(self, model: str) -> None:
        """Open a model before it is asked. Raises FatalSentinelError."""

    async def ask(
        self, model: str, instructions: str, material: str, *, timeout_s: float, book: BookCost
    ) -> str:
        """Return the answer of a model. Raises SentinelCallError."""

    async def close(self) -> None:
        """Close the models that were opened."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A call of a shell command, which reads one JSON object from its standard input.

    The usage that it prints is booked, and the rest of its output is the answer.
    """

    sentinel: str
    codon: str
    command: str
    folder: Path
    environment: Mapping[str, str]
    sandbox: Sandbox | None
    timeout_s: float

    def check(self) -> None:
        """Refuse a command that no shell could run. Raises FatalSentinelError."""
        try:
            check_command(self.command, self.folder)
        except CallError as error:
            raise FatalSentinelError(str(error)) from error

    async def __call__(self, events: Batch, book: BookCost) -> str:
        """Run the command once."""
        output = _Output(book)
        message = {
            "sentinel": self.sentinel,
            "codon": self.codon,
            "events": [event.stored() for event in events],
        }
        line = json.dumps(message, default=str).encode() + b"\n"
        try:
            exit_code, errors = await self._run(line, output)
        except TimeoutError as error:
            problem = f"the command did not end within {self.timeout_s:g} s"
            raise SentinelCallError(problem, output.text) from error
        except OSError as error:
            problem = f"the command could not be started: {sentence(str(error))}"
            raise SentinelCallError(problem) from error
        if exit_code == 0:
            return output.text
        last = sentence(errors.strip().rpartition("\n")[2])
        problem = f"the command ended with exit code {exit_code}" + (f": {last}" if last else "")
        kind = FatalSentinelError if exit_code in NOT_A_COMMAND else SentinelCallError
        raise kind(problem, output.text)

    async def _run(self, line: bytes, output: _Output) -> tuple[int, str]:
        command = ["/usr/bin/env", "bash", "-c", self.command]
        if self.sandbox is not None:
            command = self.sandbox.around(command, self.folder)
        async with process_group(
            command,
            reads=True,
            folder=self.folder,
            environment=self.environment,
            grace_s=CALL_END_S,
        ) as group:
            stdin, stdout, stderr = group.pipes
            errors = Tail(stderr)
            feeder = asyncio.create_task(_feed(stdin, line))
            readers = {asyncio.create_task(output.read(stdout)), asyncio.create_task(errors.read())}
            try:
                async with asyncio.timeout(self.timeout_s):
                    exit_code = await group.leader_ended()
            finally:
                # The costs that the command printed before its end may still be in the pipe.
                await group.end()
                await asyncio.wait(readers, timeout=_READ_S)
                for task in (feeder, *readers):
                    task.cancel()
                output.end()
        return exit_code, errors.text()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of a model, whose instructions are the plan's prompt and whose message the events."""

    models: ModelAccess
    model: str
    instructions: str
    timeout_s: float

    async def __call__(self, events: Batch, book: BookCost) -> str:
        """Ask the model once."""
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await self.models.ask(
                    self.model,
                    self.instructions,
                    material(events),
                    timeout_s=self.timeout_s,
                    book=book,
                )
        except TimeoutError as error:
            problem = f"{self.model} did not answer within {self.timeout_s:g} s"
            raise SentinelCallError(problem) from error
        return text_of(answer.encode(errors="replace")[-OUTPUT_BYTES_MAX:])


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
    """Return events as lines of JSON for a model; of too many events the oldest are left out."""
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


class _Output(ReportListener):
    """The standard output of a command: books the reported costs, and keeps the other lines."""

    def __init__(self, book: BookCost) -> None:
        self._book = book
        self._reports = report_stream(only=["usage"])
        self._line = self._last_bytes = b""
        self._is_usage = False

    @property
    def text(self) -> str:
        return text_of(self._last_bytes).strip()

    def on_used(self, usage: UsageAdded) -> None:
        """Book it."""
        self._is_usage = True
        self._book(usage.cost_micro)

    async def read(self, stream: StreamReader) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
            *lines, rest = (self._line + chunk).split(b"\n")
            for line in lines:
                self._take(line)
            # Only the end of a longer line can be a part of the answer, and none is a report.
            self._line = rest[-_CHUNK_BYTES - 1 :]

    def end(self) -> None:
        if self._line:
            self._take(self._line)
            self._line = b""

    def _take(self, line: bytes) -> None:
        self._is_usage = False
        if b'"usage"' in line:
            for report in self._reports.feed(line):
                self.hear(report)
        if not self._is_usage:
            self._last_bytes = (self._last_bytes + line + b"\n")[-OUTPUT_BYTES_MAX:]


async def _feed(stdin: StreamWriter | None, line: bytes) -> None:
    assert stdin is not None, "started to read it"
    # A command may end without reading its standard input.
    with suppress(ConnectionError):
        stdin.write(line)
        await stdin.drain()
    stdin.close()
