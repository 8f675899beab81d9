"""Reads what an agent prints, one look after the other: from the store, or over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import partial
from typing import NamedTuple

from interlock.kernel.errors import CallError
from interlock.workers.engine.polling import Intervals, polls

ANSWER_MS = 4_000  # a worker answers within about a second
ANSWER_S = ANSWER_MS / 1_000 + 0.5
LEFT_OUT = "\n[... a part of the output is left out here: it was printed too fast ...]\n"


class NoOutputError(CallError):
    """The output of an agent cannot be read. The message says why."""


class OutputState(StrEnum):
    """What is known of an agent's output."""

    NOT_STARTED = auto()
    ASKED = auto()
    UNANSWERED = auto()
    NOT_KEPT = auto()
    KNOWN = auto()


@dataclass(frozen=True, slots=True)
class Logs:
    """The output and the errors of an agent; `note` says what of them is missing, or is ''."""

    output: str
    errors: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class PrintedOutput:
    """What one look found of the output of one run of an agent: a session or a claim.

    `run` is its number, 0 before the first. `detail` says what is missing, or is ''. `output` is
    what was printed from the position `begin` to `end`, in bytes; no character is cut in two at its
    end. Times are ms by the store: `answered_ms` is when the computer `host` published this, and
    `printed_ms` when the agent printed last. They are None if that is not known.
    """

    state: OutputState
    detail: str
    host: str
    run: int
    now_ms: int | None
    answered_ms: int | None
    printed_ms: int | None
    output: str
    begin: int
    end: int
    errors: str
    errors_end: int


def published_logs(look: Callable[[], PrintedOutput]) -> Logs:
    """Return the end of an output that its computer publishes. Raises NoOutputError."""
    for _ in polls(ANSWER_S):
        found = look()
        if found.state is not OutputState.ASKED:
            break
    if found.printed_ms is None:
        raise NoOutputError(found.detail.rstrip("."))
    note = f"This is the end of its output: {found.host} has all that is kept of it.\n"
    if found.state is OutputState.UNANSWERED:
        note = f"{note}It may have printed more since then. {found.detail}\n"
    return Logs(found.output, found.errors, note)


class OutputReader:
    """Reads what one run of an agent prints.

    `look` looks at what was printed after a position. With `from_now` it begins at the end of what
    the first look finds.
    """

    def __init__(self, look: Callable[[int], PrintedOutput], *, from_now: bool = False) -> None:
        self._look, self._read_to, self._is_new = look, 0, from_now

    def read(self) -> str:
        """Return what was published since the last call, or ''. Characters are never cut in two.

        Raises NoOutputError if the computer does not answer.
        """
        text, _ = self._read()
        return text

    def rest(self) -> str:
        """Return what an agent that has ended printed since the last call.

        Raises NoOutputError if the computer does not answer.
        """
        text, asked_ms = "", None
        for _ in polls(ANSWER_S):
            new, found = self._read()
            text += new
            if asked_ms is None:
                asked_ms = found.now_ms or 0
            answered = found.answered_ms is not None and found.answered_ms >= asked_ms
            if answered or found.state is OutputState.NOT_STARTED:
                break
        return text

    def _read(self) -> tuple[str, PrintedOutput]:
        found = self._look(self._read_to)
        if found.state is OutputState.UNANSWERED:
            raise NoOutputError(found.detail.rstrip("."))
        if found.printed_ms is None:
            return "", found
        is_new, self._is_new = self._is_new, False
        # It was printed between two looks, or the file was shortened as it had become too long.
        missing = LEFT_OUT if found.begin != self._read_to else ""
        self._read_to = found.end
        return "" if is_new else f"{missing}{found.output}", found


class LastRun(NamedTuple):
    """The last run of an agent: the record, and the number of the run, which is 0 if not known.

    `is_over`: the record has ended or asks a person, so no other run follows by itself.
    """

    record_id: str
    run: int
    is_over: bool


def follow_output(
    poll: Callable[[], LastRun], look: Callable[[str, int, int], PrintedOutput]
) -> Iterator[str]:
    """Yield what the runs of an agent print from now on, until the last one is over.

    `poll` returns the last run. `look` looks at the output of a run of a record after a position.
    Raises NoOutputError if the worker of its computer does not answer.
    """
    last, pause = poll(), Intervals()
    known, reader = {last.record_id: last.run}, None
    if last.run:
        reader = OutputReader(partial(look, last.record_id, last.run), from_now=True)
    while not last.is_over:
        if reader and (text := reader.read()):
            pause.reset()
            yield text
            continue
        pause.sleep()
        last = poll()
        # If no run was known, those before the last one may be old.
        first = known.get(last.record_id, 0) + 1 if reader else max(last.run, 1)
        for run in range(first, last.run + 1):
            # The run that ended meanwhile may have printed more before its end.
            if reader:
                yield reader.rest()
            reader = OutputReader(partial(look, last.record_id, run))
            known[last.record_id] = run
        if last.is_over and reader:
            yield reader.rest()
