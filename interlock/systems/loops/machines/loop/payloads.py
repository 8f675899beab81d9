"""The payloads of a long-lived agent: for its creation, its triggers and its mail."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from interlock import Shape, Tags
from interlock.systems.loops.machines.loop import limits

NAME = r"^[a-z][a-z0-9-]{0,62}$"


def not_blank(text: str) -> str:
    """Check that a text is not blank."""
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def plain(text: str) -> str:
    """Check that a text can be an argument of a program."""
    if "\0" in text:
        raise ValueError("must not have a NUL character")
    return text


def one_line(text: str) -> str:
    """Check that a text can be part of a heading."""
    if any(sign in text for sign in "\r\n\0"):
        raise ValueError("must be one line of text")
    return text


Line = Annotated[
    str, Field(max_length=limits.LINE_LENGTH_MAX), AfterValidator(not_blank), AfterValidator(plain)
]
Word = Annotated[str, Field(max_length=limits.WORD_LENGTH_MAX), AfterValidator(one_line)]
Detail = Annotated[str, Field(max_length=limits.DETAIL_LENGTH_MAX)]
Text = Annotated[str, Field(max_length=limits.TEXT_LENGTH_MAX)]
Seconds = Annotated[int, Field(ge=1, le=limits.SECONDS_MAX)]
MailId = Annotated[str, Field(pattern=r"^\d{1,20}-\d{1,20}$")]
NOTHING_READ = "0-0"


class ResetOn(StrEnum):
    """The events that set the number of errors in a row back to 0."""

    SESSION_STARTED = auto()  # as published: only launches can fail in a row
    SUCCESS = auto()
    MIN_RUNTIME = auto()


class Next(StrEnum):
    """The time at which the next session begins after one that succeeded."""

    AT_ONCE = auto()  # as published
    ON_MAIL = auto()
    LATER = auto()


class NewLoop(Shape):
    """The fields that a long-lived agent is started with.

    Its worktree is one of `repo`, on the computer `host`; `command` runs one session. `identity`
    and `instructions` begin every prompt. A session may take `session_timeout_s`, and `grace_s` to
    end after it was cancelled. `next` says when a session follows one that succeeded, `every_s`
    how many seconds later.

    `reset_on`, `min_runtime_s` and `parks` (a provider's rate limit does not count as an error)
    are ours; with their defaults an agent behaves as published.
    """

    repo: Line
    command: Line
    host: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""
    base: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""
    tags: Tags = []
    identity: Text = ""
    instructions: Text = ""
    session_timeout_s: Seconds | None = None
    grace_s: Annotated[int, Field(ge=1, le=limits.SESSION_END_S_MAX)] = limits.SESSION_END_S
    max_consecutive_errors: Annotated[int, Field(ge=1, le=limits.ERRORS_MAX)] = (
        limits.CONSECUTIVE_ERRORS
    )
    max_total_errors: Annotated[int, Field(ge=1, le=limits.ERRORS_MAX)] = limits.TOTAL_ERRORS
    reset_on: ResetOn = ResetOn.SESSION_STARTED
    min_runtime_s: Seconds = limits.MIN_RUNTIME_S
    parks: bool = False
    next: Next = Next.AT_ONCE
    every_s: Seconds | None = None
    initializing_s: Seconds = limits.INITIALIZING_S
    building_s: Seconds = limits.BUILDING_S
    spawning_s: Seconds = limits.SPAWNING_S

    @model_validator(mode="after")
    def _later_says_when(self) -> Self:
        if (self.next == Next.LATER) is (self.every_s is None):
            raise ValueError("`every_s` belongs to `next: later`, and to nothing else")
        return self


class LoopWorktreeReady(Shape):
    """The place of the worktree, and the mail that an earlier life of the agent was given.

    It is empty after a session: worktree and mail are as they were.
    """

    host: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""
    worktree: Line | None = None
    branch: Line | None = None
    acknowledged: MailId | None = None
    ahead: Annotated[list[MailId], Field(max_length=limits.LETTERS_MAX)] | None = None


class LoopPromptReady(Shape):
    """A stored prompt: the name of its file and its SHA-256. `letters` are the ids of its mail.

    It gives all mail up to `claimed`, and the mail `ahead` of that: urgent letters are given before
    their turn. The prompt itself is on the agent's host: thousands of them would fill the store.
    """

    prompt: Annotated[str, Field(pattern=r"^[\w.-]{1,100}$")]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    claimed: MailId
    ahead: Annotated[list[MailId], Field(max_length=limits.LETTERS_MAX)] = []
    letters: Annotated[list[MailId], Field(max_length=limits.LETTERS_MAX)] = []


class LoopSessionStarted(Shape):
    """The number of the session that runs, and its process."""

    session_seq: Annotated[int, Field(ge=1)]
    pid: Annotated[int, Field(ge=1)] | None = None
    containment: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""


class LoopSessionEnd(Shape):
    """The end of a session: its exit code (-n: by signal n), why, and how many seconds it ran.

    `retry_after_s`: a provider that limited the rate asked to wait so long. `unbegun`: no worker
    ever began the session.
    """

    exit_code: int | None = None
    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    detail: Detail = ""
    ran_s: Annotated[float, Field(ge=0)] = 0
    retry_after_s: Seconds | None = None
    unbegun: bool = False


class LoopFatalError(Shape):
    """The reason why another try does not help, as a code and in words."""

    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    detail: Annotated[str, Field(min_length=1, max_length=limits.DETAIL_LENGTH_MAX)]


class LoopOperatorStop(Shape):
    """The reason why an operator stops the agent."""

    reason: Detail = ""


class LoopOverdue(Shape):
    """A step took too long. `unbegun`: no worker began it, so the agent's host may be gone."""

    unbegun: bool = False


class LoopMail(Shape):
    """One message to an agent. The sender is an agent's name or `operator`."""

    sender: Annotated[Word, AfterValidator(not_blank)]
    recipient: Annotated[str, Field(pattern=NAME)]
    text: Annotated[str, Field(max_length=limits.MAIL_LENGTH_MAX), AfterValidator(not_blank)]
    kind: Literal["message", "task", "status", "nudge"] = "message"
    urgent: bool = False
    thread: Word = ""
    reply_to: Word = ""

    @model_validator(mode="after")
    def _to_another(self) -> Self:
        if self.sender == self.recipient:
            raise ValueError(f"{self.sender} cannot write to itself")
        return self
