"""The lines of a log: events, each of which changed a record, and notes, which changed none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.kernel.reason import moved
from interlock.kernel.record import RecordId, Version

START = "0-0"  # the position before every line of a log
NO_FACTS: Mapping[str, Any] = {}
MOVED = "moved"  # the trigger of a line by which a record comes to another version of its table
EFFECT_FAILED = "effect_failed"  # the kind of the note of an attempt that failed
TABLE_FAILED = "table_failed"  # and that of a trigger that a function of the table prevents
LAPSE = "lapse"  # and that of one whose worker was lost
CARD_CLAIMED = "card_claimed"  # and those that say that somebody is on a card, and not any more
CARD_RELEASED = "card_released"
# The fields of a payload that tell why, where neither its `reason` nor the caller does.
FURTHER_WORDS = ("reasons", "detail", "feedback", "summary")


@dataclass(frozen=True, slots=True)
class Cause:
    """Who fired a trigger, and why: `reason` is for people, `codes` are for programs."""

    actor: str
    reason: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One transition of a record. `facts` are what its guards read of other records.

    `says` is the sentence of the row that moved it, '' where the table has none for it.
    """

    record_id: RecordId
    version: Version
    trigger: str
    source: str
    target: str
    payload: Mapping[str, Any]
    cause: Cause
    facts: Mapping[str, Any] = field(default_factory=dict)
    explanation: Mapping[str, Any] | None = None
    at_ms: int = 0
    table: str = ""
    data_hash: str = ""
    op_id: str = ""
    deltas: Mapping[str, int] = field(default_factory=dict)
    says: str = ""

    @property
    def position(self) -> str:
        """Where it is in the log of its record; its notes have the positions behind it."""
        return f"{self.version}-0"

    @property
    def because(self) -> str:
        """Why it happened: the sentence of its row, then the words that came with the call."""
        words = "; ".join(self.words)
        says = self.says or moved(self.trigger, self.source, self.target)
        return f"{says}: {words}" if words else says

    @property
    def words(self) -> tuple[str, ...]:
        """The words that came with the call that moved it, each once."""
        return words_of(self.payload, self.cause.reason)


def words_of(payload: Mapping[str, Any], reason: str) -> tuple[str, ...]:
    """Return the words that came with a call, each once; `reason` is the one of its cause."""
    told = [_words(payload, "reason"), reason]
    if not any(told):
        told = [_words(payload, name) for name in FURTHER_WORDS]
    return tuple(dict.fromkeys(filter(None, told)))


def _words(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    if isinstance(value, list):
        return "; ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the log that changed no state: of a claim, a cost, a refusal or a lapse."""

    record_id: RecordId
    position: str
    kind: str
    detail: Mapping[str, Any]
    at_ms: int
    deltas: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_failed_attempt(self) -> bool:
        """Whether it says that an attempt of an effect failed; its `detail` has the error."""
        return self.kind == EFFECT_FAILED


def line_data(line: Event | Note) -> dict[str, Any]:
    """Return a line of a log as plain data. That of an event also says why it happened."""
    if isinstance(line, Event):
        return {"line": "event", **asdict(line), "because": line.because}
    return {"line": "note", **asdict(line)}
