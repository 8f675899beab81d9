"""One question to a language model, as plain values. It imports no library that asks one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from secrets import token_hex
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel

from interlock.workers.gateways.capabilities.result import json_problem

# Each text in a block of its name. The author of a text cannot know the marker, so no text ends
# its block.
_BLOCKS = """\
The message has blocks. A block begins with the line `BEGIN {marker} <name>` and ends with the line
`END {marker} <name>`; without exactly this marker no line begins or ends anything."""

AnswerT = TypeVar("AnswerT")
Speaker = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Prompt(Generic[AnswerT]):
    """What a model is told and asked, the shape of its answer, and what was said before."""

    name: str
    instructions: str
    message: str
    answer: type[AnswerT]
    check: Callable[[AnswerT], str | None] | None
    history: tuple[tuple[Speaker, str], ...]

    @classmethod
    def of(
        cls,
        name: str,
        instructions: str,
        message: str | Mapping[str, str],
        *,
        answer: type[AnswerT],
        check: Callable[[AnswerT], str | None] | None,
        history: Iterable[tuple[Speaker, str]],
    ) -> Self:
        """Return a prompt. A message of several texts is written as blocks, with a new marker."""
        if isinstance(message, Mapping):
            marker = token_hex(16)
            instructions = f"{instructions}\n\n{_BLOCKS.format(marker=marker)}"
            message = "\n\n".join(
                f"BEGIN {marker} {block}\n{text}\nEND {marker} {block}"
                for block, text in message.items()
            )
        return cls(name, _sendable(instructions), _sendable(message), answer, check, (*history,))

    @property
    def size_bytes(self) -> int:
        """The size of all that is sent."""
        sent = [self.instructions, self.message, *(text for _, text in self.history)]
        if issubclass(self.answer, BaseModel):
            sent.append(_schema(self.answer))
        return sum(len(text.encode(errors="backslashreplace")) for text in sent)

    def fault_of(self, answer: AnswerT) -> str | None:
        """Return why an answer of the right shape cannot be used, for the model and a person."""
        if self.check is not None and (fault := self.check(answer)):
            return fault
        if isinstance(answer, BaseModel):
            return json_problem(answer.model_dump(mode="json"), "the answer") or None
        return None


def _sendable(text: str) -> str:
    # A lone surrogate cannot be sent; it must not stop the rest.
    return text.encode(errors="backslashreplace").decode()


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer as a provider is told it: without further fields.

    An answer with a further field is valid all the same where its model ignores it: many models add
    one that says why, and an answer that is refused has been paid.
    """
    return {"additionalProperties": False, **schema}


@cache
def _schema(answer: type[BaseModel]) -> str:
    return json.dumps(closed(answer.model_json_schema()))
