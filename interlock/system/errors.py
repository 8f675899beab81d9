"""The errors that calls about records raise.

Each is a KernelError. Their sentences are for people: which value is wrong, and what to do.
"""

from __future__ import annotations

from interlock.kernel.errors import (
    ClosedParentError,
    FencedError,
    GuardRefusedError,
    HeldError,
    IdTakenError,
    IllegalTransitionError,
    InvalidPayloadError,
    InvalidTransitionError,
    MetadataValidationError,
    OpIdReusedError,
    StaleDecisionError,
    StoreDownError,
    UnknownRecordError,
    UnreadableRecordError,
)

__all__ = [
    "ClosedParentError",
    "FencedError",
    "GuardRefusedError",
    "HeldError",
    "IdTakenError",
    "IllegalTransitionError",
    "InvalidPayloadError",
    "InvalidTransitionError",
    "MetadataValidationError",
    "OpIdReusedError",
    "StaleDecisionError",
    "StoreDownError",
    "UnknownRecordError",
    "UnreadableRecordError",
]
