"""Describes one record: everything that `interlock show` prints of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from interlock.kernel.event import Event, Note, line_data
from interlock.kernel.record import Record, place_of
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.listings import ListedRecord
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.engine.lost_children import why_lost
from interlock.workers.systems import details

FAMILY_MAX = 1_000  # children whose states are counted
# The parts of a run, by the end of the kind of the notes that tell them.
PARTS = {"started": "started", "step": "steps", "finished": "finished"}


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


def runs_of(lines: Sequence[Event | Note]) -> list[dict[str, Any]]:
    """Return the start, the steps and the end of each run of an effect that has notes of them."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        part = PARTS.get(line.kind.rpartition("_")[2]) if isinstance(line, Note) else None
        if not (part and isinstance(line, Note) and "effect" in line.detail):
            continue
        detail = {name: value for name, value in line.detail.items() if name != "effect"}
        key = str(line.detail["effect"])
        run = found.setdefault(key, {"effect": key, "started": [], "steps": [], "finished": []})
        run[part].append({"at_ms": line.at_ms, **detail})
    return list(found.values())


def summarize(client: Client, record: Record) -> dict[str, Any]:
    """Return what `describe` does, but for the results, for which the whole log is read."""
    views = client.dispatch.views
    shown = replace(record, entries=tuple(replace(each, token="") for each in record.entries))
    return asdict(shown) | {
        "cards": [card.as_data() for card in client.open_cards.of([record])],
        "outlook": client.outlook(record),
        "details": details(client, record),
        "place": place_in_family(client, record),
        "children": views.children(record.id),
        "family": family_of(client, record.id),
        "failures": views.last_failures([record])[record.id],
    }


def place_in_family(client: Client, record: Record) -> str:
    """Say which of the children of its parent a record is, or ''."""
    generation, number, _ = place_of(record.id)
    if not (record.parent and number):
        return ""
    siblings = map(place_of, client.dispatch.views.children(record.parent))
    return f"number {number} of {sum(one[0] == generation for one in siblings)}"


def family_of(client: Client, record_id: str) -> str:
    """Say how many children a record has in each state, which asks a person, and which failed."""
    rows = client.list(parent=record_id, limit=FAMILY_MAX + 1)
    if not rows:
        return ""
    states = Counter(row.state for row in rows[:FAMILY_MAX])
    more = "more than " if len(rows) > FAMILY_MAX else ""
    of_state = ", ".join(f"{number} {state}" for state, number in states.most_common())
    number = sum(states.values())
    asking = [row.id for row in rows if row.waits_for_person]
    others = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
    asks = f"{asking[0]}{others} {'ask' if others else 'asks'} a person" if asking else ""
    lost = why_lost(client.dispatch.views, (row for row in rows if _is_lost(client, row)))
    noun = "child" if number == 1 else "children"
    return "; ".join(filter(None, (f"{more}{number} {noun}: {of_state}", asks, lost)))


def _is_lost(client: Client, row: ListedRecord) -> bool:
    stage = shown_stage(client.machines[row.machine], row.state)
    return isinstance(stage, Terminal) and not stage.is_success
