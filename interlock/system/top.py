"""What a system adds to `interlock top`: a `TopPart`, which `top` of its `System` names."""

from __future__ import annotations

from interlock.workers.terminal.top_part import (
    AgedRecord,
    TopPart,
    TopRow,
)

__all__ = [
    "AgedRecord",
    "TopPart",
    "TopRow",
]
