"""What a system adds to `interlock top`: a `TopPart`, which `top` of its `System` names."""

from __future__ import annotations

from interlock.workers.terminal.page_parts import text_of_state
from interlock.workers.terminal.top_part import (
    SCANNED_MAX,
    AgedRecord,
    FlowVerdict,
    TopPart,
    TopRow,
    TopTable,
    age_s,
)

__all__ = [
    "SCANNED_MAX",
    "AgedRecord",
    "FlowVerdict",
    "TopPart",
    "TopRow",
    "TopTable",
    "age_s",
    "text_of_state",
]
