"""One call of a sentinel: a command or a model gets events, and returns a text.

A call that fails raises an error. Its runner counts failures, and unloads the sentinel.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Protocol, TypeAlias

from interlock import CallError, KernelError
from interlock.system.agents import (
    Command,
    ReportListener,
    UsageAdded,
    check_command,
)
from interlock.system.text import one_line
from interlock.systems.runs.sentinels.call_timing import Batch

OUTPUT_BYTES_MAX = 4 * 1024
MATERIAL_BYTES_MAX = 256 * 1024
NOT_A_COMMAND = (126, 127)
CALL_END_S = 0.2  # from SIGTERM until SIGKILL, for the command of a sentinel

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
    command: Command
    timeout_s: float

    def check(self) -> None:
        """Refuse a command that no shell could run. Raises FatalSentinelError."""
        try:
            check_command(self.command.arguments[-1], self.command.folder)
        except CallError as error:
            raise FatalSentinelError(str(error)) from error

    async def __call__(self, events: Batch, book: BookCost) -> str:
        """Run the command once."""
        message = {
            "sentinel": self.sentinel,
            "codon": self.codon,
            "events": [event.stored() for event in events],
        }
        line = json.dumps(message, default=str).encode() + b"\n"
        try:
            ended = await self.command.run(
                line, within_s=self.timeout_s, grace_s=CALL_END_S, takes=_Costs(book).takes
            )
        except OSError as error:
            problem = f"the command could not be started: {one_line(str(error))}"
            raise SentinelCallError(problem) from error
        code, output = ended.exit_code, last_text(ended.output).strip()
        if code == 0:
            return output
        if code is None:
            problem = f"the command did not end within {self.timeout_s:g} s"
            raise SentinelCallError(problem, output)
        last = one_line(ended.errors.strip().rpartition("\n")[2])
        problem = f"the command ended with exit code {code}" + (f": {last}" if last else "")
        kind = FatalSentinelError if code in NOT_A_COMMAND else SentinelCallError
        raise kind(problem, output)


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
        return last_text(answer)


def last_text(answer: str) -> str:
    """Return the end of an answer, as text that any log can hold."""
    end = answer.encode(errors="replace")[-OUTPUT_BYTES_MAX:].decode(errors="replace")
    return end.replace("\0", "\N{REPLACEMENT CHARACTER}")


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


class _Costs(ReportListener):
    """Books the costs that a command reports among the lines of its output."""

    accepted = ("usage",)

    def __init__(self, book: BookCost) -> None:
        self._book = book
        self._is_usage = False

    def on_used(self, usage: UsageAdded) -> None:
        """Book the cost."""
        self._is_usage = True
        self._book(usage.cost_micro)

    def takes(self, line: bytes) -> bool:
        """Book the usage in a line; return whether there is one."""
        self._is_usage = False
        if b'"usage"' in line:
            self.hear(*self.read_line(line))
        return self._is_usage
