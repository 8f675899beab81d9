"""Describes one record: everything that `interlock show` prints of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from interlock.kernel.event import Event, Note, line_data
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.systems import details
from interlock.workers.threads.screen import runs_of


def line_shown(line: Event | Note) -> dict[str, Any]:
    """Return a line of a log as others may see it: without the token of a lease."""
    found = line_data(line)
    if isinstance(line, Note):
        found["detail"] = {name: each for name, each in line.detail.items() if name != "token"}
    return found


def describe(client: Client, record_id: str) -> dict[str, Any]:
    """Return a record with its cards, children, failures and results. It has no lease's token."""
    found = summarize(client, client.show(record_id))
    return found | {"runs": runs_of(client.history(record_id))}


def summarize(client: Client, record: Record) -> dict[str, Any]:
    """Return what `describe` does, but for the results, for which the whole log is read."""
    views = client.dispatch.views
    shown = replace(record, entries=tuple(replace(each, token="") for each in record.entries))
    return asdict(shown) | {
        "cards": [card.as_data() for card in client.open_cards.of([record])],
        "outlook": client.outlook(record),
        "details": details(client, record),
        "children": views.children(record.id),
        "failures": views.last_failures([record])[record.id],
    }
