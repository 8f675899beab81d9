"""What the log keeps: events, which change state, and notes, which do not; it never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.kernel.record import RecordId, Version

NO_FACTS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Cause:
    """Who fired the trigger and why, for people; `codes` is for machines."""

    actor: str
    reason: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One accepted transition. `facts` are what guards read of other records."""

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


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the log that changed no state: a claim, a cost, a refusal, a lapse."""

    record_id: RecordId
    position: str
    kind: str
    detail: Mapping[str, Any]
    at_ms: int
    deltas: Mapping[str, int] = field(default_factory=dict)
