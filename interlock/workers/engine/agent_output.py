"""The newest output of an agent as people see it: what there is, and what is missing."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping
from dataclasses import dataclass

from interlock.kernel.store.outputs import OutputPart, OutputSource, output_part
from interlock.kernel.store.publications import PublicationLook, Publications
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.printed_output import ANSWER_MS, OutputState, PrintedOutput
from interlock.workers.text import age


@dataclass(frozen=True, slots=True)
class AgentOutput:
    """Where the output of an agent is, and the last look at it.

    Both are None for an agent that has not started yet.
    """

    source: OutputSource | None
    look: PublicationLook | None
    part: OutputPart | None = None  # the newest that its computer has published

    @property
    def answered_ms(self) -> int | None:
        """When its computer answered last, in ms by the store; None if it has not."""
        return self.look.answer.at_ms if self.look and self.look.answer else None

    @property
    def printed_ms(self) -> int | None:
        """When the agent printed last, in ms by the store; None if that is not known."""
        if self.answered_ms is None or self.part is None:
            return None
        return self.answered_ms - self.part.age_ms

    @property
    def state(self) -> OutputState:
        """What is known of the output now."""
        if self.look is None:
            return OutputState.NOT_STARTED
        if self.look.silent_ms > ANSWER_MS:
            return OutputState.UNANSWERED
        if self.answered_ms is None or self.answered_ms < self.look.now_ms - ANSWER_MS:
            return OutputState.ASKED
        return OutputState.NOT_KEPT if self.part is None else OutputState.KNOWN

    def printed(self, position: int = 0) -> PrintedOutput:
        """Return what was found as text: of the output what was printed after a position."""
        part = self.part
        output, begin, end = _text_after(part, position)
        return PrintedOutput(
            state=self.state,
            detail=self.sentence,
            host=self.source.host if self.source else "",
            run=self.source.run if self.source else 0,
            now_ms=self.look.now_ms if self.look else None,
            answered_ms=self.answered_ms,
            printed_ms=self.printed_ms,
            output=output,
            begin=begin,
            end=end,
            errors=part.errors.decode("utf-8", "replace") if part else "",
            errors_end=part.errors_end if part else 0,
        )

    @property
    def stamp(self) -> str:
        """A text that changes with what is to be shown."""
        ends = f"{self.part.end}.{self.part.errors_end}" if self.part else ""
        return f"{self.state}:{self.source.folder if self.source else ''}:{ends}"

    @property
    def sentence(self) -> str:
        """What a person has to know of the output beside what it says; or ''."""
        host = self.source.host if self.source else ""
        silent_ms = self.look.silent_ms if self.look else 0
        match self.state:
            case OutputState.NOT_STARTED:
                return "It has printed nothing yet: it has not started."
            case OutputState.ASKED:
                return f"The worker on {host} has been asked for it just now."
            case OutputState.UNANSWERED:
                return (
                    f"The worker on {host}, where the output is, has not answered for "
                    f"{age(silent_ms)}. `interlock doctor` says which workers run."
                )
            case OutputState.NOT_KEPT:
                return f"{host} has no output of it: it has not started, or its files were deleted."
            case OutputState.KNOWN:
                is_empty = self.part is None or not (self.part.end or self.part.errors_end)
                return "It has printed nothing yet." if is_empty else ""


def _text_after(part: OutputPart | None, position: int) -> tuple[str, int, int]:
    """Return what a part has after a position, with the positions of its beginning and its end.

    It is all of the part if the position is not in it. A character whose last bytes are not printed
    yet is left for the next look.
    """
    if part is None:
        return "", 0, 0
    first = part.end - len(part.output)
    begin = position if first <= position <= part.end else first
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(part.output[begin - first :])
    return text, begin, part.end - len(decoder.getstate()[0])


def look_at(
    dispatch: Dispatch, sources: Mapping[str, OutputSource | None]
) -> dict[str, AgentOutput]:
    """Look at the outputs of several records, by their ids, in one round trip."""
    known = {record_id: source for record_id, source in sources.items() if source}
    asked = [source.publication for source in known.values()]
    answered = Publications(dispatch.client, dispatch.keys).ask(asked)
    looks = dict(zip(known, answered, strict=True))
    return {each: _found(source, looks.get(each)) for each, source in sources.items()}


def _found(source: OutputSource | None, look: PublicationLook | None) -> AgentOutput:
    fields = look.answer.fields if look and look.answer else None
    return AgentOutput(source, look, output_part(fields) if fields else None)
