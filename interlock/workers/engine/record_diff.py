"""The difference that a record has: of a task's work, or between two checkpoints of a run's folder.

Only one computer can compare it. Elsewhere it is read as a worker of that computer publishes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import NamedTuple

from interlock.git.diff import Diff, FileDiff
from interlock.git.errors import GitError
from interlock.kernel.errors import CallError
from interlock.kernel.record import Record
from interlock.workers.engine.polling import polls
from interlock.workers.engine.records import Records

FRESH_MS = 5_000  # an answer is shown for so long without asking for a newer one
ANSWER_MS = 12_000  # a worker may be busy with the differences of other records
ANSWER_S = ANSWER_MS / 1_000 + 0.5


class NoDiffError(CallError):
    """There is nothing to compare on this computer. The message says why."""


class DiffLimits(NamedTuple):
    """How many bytes of text a difference may have, and how many seconds git may take."""

    bytes_max: int
    within_s: float


def _no_checkpoints(_: Records, __: Record) -> list[dict[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class DiffSource:
    """Where the difference of a record of one machine is, and how it is made there.

    `host` returns the name of the computer that can compare, or '' if none is known. `read`
    compares on this computer: it gets the record, what is to be compared, which is '' for all that
    the record has changed, and at most how many bytes of text and seconds that may take. It returns
    what `interlock.git.diff.diff` returns; where there is nothing to compare, it raises CallError,
    GitError or OSError. Only those who may see the records of all these `machines` may see the
    difference. `checkpoints` lists those between which `read` compares, the oldest first, as fields
    for commands and the API; without it the record has none.
    """

    machines: tuple[str, ...]
    host: Callable[[Records, Record], str]
    read: Callable[[Record, str, int, float], Diff]
    checkpoints: Callable[[Records, Record], list[dict[str, str]]] = _no_checkpoints

    def compare(self, record: Record, between: str, limits: DiffLimits) -> Diff:
        """Return the difference, made on this computer. Raises NoDiffError."""
        try:
            return self.read(record, between, *limits)
        except (CallError, GitError, OSError) as refusal:
            raise NoDiffError(str(refusal)) from refusal


class DiffState(StrEnum):
    """What is known of a difference."""

    ASKED = auto()
    UNANSWERED = auto()
    NONE = auto()
    KNOWN = auto()


@dataclass(frozen=True, slots=True)
class RecordDiff:
    """What one look found of the difference of a record.

    `detail` says what is missing, or is ''. `host` is the computer that compared, and `compared_ms`
    when it did, in ms by the store; None if it has not answered yet. While the state is `asked` or
    `unanswered` the files are those that it answered before, if it did. `unnamed` is how many
    more files differ.
    """

    state: DiffState
    detail: str
    host: str
    now_ms: int
    compared_ms: int | None = None
    files: tuple[FileDiff, ...] = ()
    unnamed: int = 0

    @property
    def stamp(self) -> str:
        """Return a text that changes with what is to be shown."""
        return f"{self.state}:{self.compared_ms}"


def awaited_diff(look: Callable[[], RecordDiff]) -> RecordDiff:
    """Return the difference of a record as soon as its computer answers. Raises NoDiffError."""
    for _ in polls(ANSWER_S):
        found = look()
        if found.state is not DiffState.ASKED:
            break
    if found.state is not DiffState.KNOWN:
        raise NoDiffError(found.detail.rstrip("."))
    return found
