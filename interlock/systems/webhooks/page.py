"""Deliveries as people see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.system.pages import Link, Part, Sentence, Table, Time

Row = Mapping[str, Any]


def dead(rows: Sequence[Row]) -> Iterable[Part]:
    """Return the deliveries that failed for good, and why."""
    columns = ("Delivery", "Endpoint", "Message", "Record", "Since", "Why")
    names = ("endpoint", "kind", "record")
    found = [
        (Link(row["id"]), *(row[name] for name in names), Time(row["at_ms"]), row["why"])
        for row in rows
    ]
    return [Table(columns, found, "every delivery was taken, or is still tried")]


def replayed(rows: Sequence[Row]) -> Iterable[Part]:
    """Return of each delivery whether it is sent again."""
    sent, refused = Sentence("sent again", "good"), Sentence("refused", "bad")
    found = [(Link(row["id"]), sent if row["replayed"] else refused, row["reason"]) for row in rows]
    return [Table(("Delivery", "Answer", "Why"), found, "there is nothing to send again")]
