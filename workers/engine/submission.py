"""Checks the arguments of a submission, and describes its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import InvalidIdError, InvalidPayloadError, KernelError
from interlock.kernel.record import PRIORITY_LAST


@dataclass(frozen=True, slots=True)
class Submitted:
    """The result of one submission. `replayed`: the same submission was accepted before."""

    id: str
    replayed: bool
    error: KernelError | None = None


def check_submission(payload: Any, new_id: Any, priority: Any) -> None:
    """Refuse arguments of wrong types, which a caller without a type checker may pass."""
    if not isinstance(payload, Mapping):
        raise InvalidPayloadError("the payload", [f"it is {type(payload).__name__}, not a mapping"])
    if not isinstance(new_id, str):
        raise InvalidIdError(repr(new_id), "it is not text")
    if type(priority) is not int or not 0 <= priority <= PRIORITY_LAST:
        raise InvalidPayloadError("priority", [f"{priority!r} is not between 0 (first) and 9"])
