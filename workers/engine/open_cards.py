"""Finds the records that wait for a person, page by page, the longest waiting first."""

from __future__ import annotations

import re
from collections.abc import Collection

from interlock.kernel.errors import CallError
from interlock.kernel.record import PARTITIONS, Record
from interlock.kernel.store.views import Views

SCANNED_MAX = 5_000  # records that are read in each partition to find those of some machines


def waiting_records(
    views: Views, machines: Collection[str], limit: int, cursor: str
) -> tuple[list[Record], str]:
    """Return records of these machines that wait for a person, and the cursor of the next page.

    At most `limit`, after the page whose cursor is given. Raises CallError for a wrong cursor.
    """
    after, size = _place(cursor), limit
    while True:
        _, waiting = views.waits(range(PARTITIONS), size + 1, from_ms=after[0])
        # Only so many are in their order: a partition may have more of the same time.
        since_ms = {one: at for one, at in waiting[:size] if (at, one) > after}
        records = views.records(since_ms).values()
        shown = [one for one in records if one.machine in machines]
        if len(shown) >= limit or not size < len(waiting) or size >= SCANNED_MAX:
            break
        size *= 4
    last = shown[limit - 1].id if len(shown) > limit else next(reversed(since_ms), None)
    goes_on = last is not None and (len(shown) > limit or len(waiting) > size)
    return shown[:limit], f"{since_ms[last]}:{last}" if goes_on and last else ""


def _place(cursor: str) -> tuple[int, str]:
    if not cursor:
        return 0, ""
    found = re.fullmatch(r"(\d{1,15}):(.+)", cursor)
    if found is None:
        raise CallError(f"{cursor[:40]!r} is no cursor of this list; begin without one")
    return int(found[1]), found[2]
