"""The list of the children that a row creates, kept in the log beside the event of the row."""

from __future__ import annotations

import json
from collections.abc import Sequence

from interlock.kernel.decision import Decision
from interlock.kernel.record import Record
from interlock.kernel.store import codec
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read
from interlock.kernel.store.views import Views
from interlock.kernel.traits import NewChild

BYTES_MAX = 4 * codec.DATA_BYTES_MAX  # each child may repeat much of its parent's data


def children_plan(decision: Decision) -> dict[str, Sequence[str]]:
    """Return the fields that the line of the event has in addition, if its row creates children."""
    if decision.spawns is None:
        return {}
    children = [[child.payload, dict(child.bounds)] for child in decision.children]
    written = codec.encode(children, decision.spawns.listed_in, BYTES_MAX)
    return {"logged": ["children", written.decode()]}


def children_counted(views: Views, parent: str, countdown: str) -> list[Record]:
    """Return the children that a record created last in a countdown of this name.

    They are in the order in which they were listed.
    """
    found: dict[int, list[Record]] = {}
    for child in views.each_record(views.children(parent)):
        name, _, generation = child.counted.partition(":")
        if name == countdown:
            found.setdefault(int(generation), []).append(child)
    return found[max(found)] if found else []


def children_listed(
    client: Client, keys: Keys, record_id: str, version: int
) -> Sequence[NewChild] | None:
    """Return the children that a record listed at a version; None if its event has no list.

    A line that was written in format 3 has the cap of a child's money, or none, as its bounds.
    """
    position = f"{version}-0"
    (line,) = read(client, "XRANGE", keys.log(record_id), position, position)
    written = dict(line[1]).get(b"children")
    if written is None:
        return None
    return [
        NewChild(payload, bounds if isinstance(bounds, dict) else {"spent": bounds})
        for payload, bounds in json.loads(written)
    ]
