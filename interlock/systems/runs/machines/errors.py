"""The errors of an event that reports a transition which no codon can make."""

from __future__ import annotations

from collections.abc import Sequence

from interlock import CallError


class InvalidTransitionError(CallError):
    """The caller reports a transition that a record in this state cannot make. Fix the caller."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(f"Invalid transition from {source} to {target}")
        self.source, self.target = source, target


class MetadataValidationError(CallError):
    """The caller reports a transition without fields that it requires. Fix the caller."""

    def __init__(self, target: str, names: Sequence[str]) -> None:
        super().__init__(
            f"Missing required metadata for transition to {target}: {', '.join(names)}"
        )
        self.target, self.names = target, tuple(names)
