"""The conversation of a codon with its model so far, kept in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock import CallError
from interlock.system.files import PrivateFile
from interlock.system.text import one_line

BYTES_MAX = 32 * 1024 * 1024


class ConversationError(CallError):
    """The file is no conversation, or cannot be read. Remove it, or name another one."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} holds no conversation that can be continued: {one_line(problem)}")
        self.path = path


class ConversationMessage(BaseModel):
    """One message of a user or of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant"]
    text: str


class Conversation(BaseModel):
    """A session by its id, and its messages in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session: Annotated[str, Field(min_length=1, max_length=200)]
    turns: tuple[ConversationMessage, ...] = ()

    @classmethod
    def new(cls) -> Self:
        """Return an empty conversation with a new id."""
        return cls(session=str(uuid4()))

    def after(self, prompt: str, answer: str) -> Conversation:
        """Return the conversation with one more prompt and its answer."""
        added = (
            ConversationMessage(role="user", text=prompt),
            ConversationMessage(role="assistant", text=answer),
        )
        return Conversation(session=self.session, turns=(*self.turns, *added))


def read_conversation(path: Path | None) -> Conversation:
    """Read the conversation that is continued; return a new one where there is no file."""
    if path is None or not path.exists():
        return Conversation.new()
    try:
        if path.stat().st_size > BYTES_MAX:
            raise ConversationError(path, f"it is larger than {BYTES_MAX} bytes")
        return Conversation.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConversationError(path, f"{where}: {first['msg']}") from error
    except OSError as error:
        raise ConversationError(path, str(error)) from error


def write_conversation(path: Path, conversation: Conversation) -> None:
    """Replace the whole file in one step, or leave it as it was. Raises OSError."""
    PrivateFile(path).write(conversation.model_dump_json())
