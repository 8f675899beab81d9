"""The errors that calls about records raise.

Each is a KernelError. Their sentences are for people: which value is wrong, and what to do.
"""

from __future__ import annotations

from interlock.kernel.errors import (
    AnotherVersionError,
    FencedError,
    GuardRefusedError,
    HeldError,
    IdTakenError,
    IllegalTransitionError,
    InvalidPayloadError,
    UnknownRecordError,
)

__all__ = [
    "AnotherVersionError",
    "FencedError",
    "GuardRefusedError",
    "HeldError",
    "IdTakenError",
    "IllegalTransitionError",
    "InvalidPayloadError",
    "UnknownRecordError",
]
