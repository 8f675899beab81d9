"""Reads the output of agents for commands: all that is kept here, or what is published."""

from __future__ import annotations

from codecs import getincrementaldecoder
from dataclasses import dataclass

from interlock.kernel.errors import CallError
from interlock.kernel.store.outputs import OutputPart, OutputSource
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.polling import polls
from interlock.workers.supervision.agent_output import (
    ANSWER_MS,
    AgentOutput,
    OutputState,
    look_at,
)
from interlock.workers.supervision.output_publisher import ERRORS, OUTPUT

ANSWER_S = ANSWER_MS / 1_000 + 0.5
LEFT_OUT = "\n[... a part of the output is left out here: it was printed too fast ...]\n"


class NoOutputError(CallError):
    """The output of an agent cannot be read. The message says why."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The output and the errors of an agent; `note` says what of them is missing, or is ''."""

    output: str
    errors: str
    note: str = ""


def read_logs(dispatch: Dispatch, source: OutputSource | None) -> Logs:
    """Return all output of an agent, or its end if it is on another computer.

    Raises NoOutputError.
    """
    settings = dispatch.settings
    folder = settings.home.absolute() / source.folder if source else None
    if source and folder and source.host == settings.host and (folder / OUTPUT).exists():
        output, errors = ((folder / name).read_bytes() for name in (OUTPUT, ERRORS))
        return Logs(_text(output), _text(errors))
    found = _answered(dispatch, source)
    if found.part is None or source is None:
        raise NoOutputError(found.sentence.rstrip("."))
    note = f"This is the end of its output: {source.host} has all that is kept of it.\n"
    return Logs(_text(found.part.output), _text(found.part.errors), note)


def _answered(dispatch: Dispatch, source: OutputSource | None) -> AgentOutput:
    """Look at an output until its computer has answered, or is late."""
    for _ in polls(ANSWER_S):
        found = look_at(dispatch, {"": source})[""]
        if found.state is not OutputState.ASKED:
            break
    return found


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


class OutputReader:
    """Reads what an agent prints, from the parts that its computer publishes.

    With `from_now` it begins at the end of the first part. Without a source it reads nothing.
    """

    def __init__(
        self, dispatch: Dispatch, source: OutputSource | None, *, from_now: bool = False
    ) -> None:
        self._dispatch, self._source = dispatch, source
        self._read_to = None if from_now else 0
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        """Return what was published since the last call, or ''. Characters are never cut in two.

        Raises NoOutputError if the computer does not answer.
        """
        return self._new(self._look())

    def rest(self) -> str:
        """Return what an agent that has ended printed since the last call.

        Raises NoOutputError if the computer does not answer.
        """
        if self._source is None:
            return ""
        text, asked_ms = "", None
        for _ in polls(ANSWER_S):
            found = self._look()
            text += self._new(found)
            if asked_ms is None:
                asked_ms = found.look.now_ms if found.look else 0
            if found.answer and found.answer.at_ms >= asked_ms:
                break
        return text

    def _look(self) -> AgentOutput:
        found = look_at(self._dispatch, {"": self._source})[""]
        if found.state is OutputState.UNANSWERED:
            raise NoOutputError(found.sentence.rstrip("."))
        return found

    def _new(self, found: AgentOutput) -> str:
        if found.part is None:
            return ""
        if self._read_to is None:
            self._read_to = found.part.end
        new, self._read_to = _after(found.part, self._read_to), found.part.end
        return self._decoder.decode(new)


def _after(part: OutputPart, position: int) -> bytes:
    """Return what a part has after a position in the output, with a note of what is missing."""
    begin = part.end - len(part.output)
    if begin <= position <= part.end:
        return part.output[position - begin :]
    # It was printed between two parts, or the file was shortened because it had become too long.
    return LEFT_OUT.encode() + part.output
