"""Deliveries as people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.system.pages import Page, RecordLink, Since, Table, replays

Row = Mapping[str, Any]


def dead(rows: Sequence[Row]) -> Page:
    """Return the deliveries that failed for good, and why."""
    columns = ("Delivery", "Endpoint", "Message", "Record", "Since", "Why")
    names = ("endpoint", "kind", "record")
    found = [
        (RecordLink(row["id"]), *(row[name] for name in names), Since(row["at_ms"]), row["why"])
        for row in rows
    ]
    return [Table(columns, found, "every delivery was taken, or is still tried")]


def replayed(rows: Sequence[Row]) -> Page:
    """Return of each delivery whether it is sent again."""
    return replays(rows, "Delivery", "sent again", "there is nothing to send again")
