"""Lists the acts of people over all records, the latest first.

The log of each record has its acts, and is the truth. This list is written after them, so that an
act is missing here if the process ends in between. It goes on when a record is pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.kernel.event import Cause
from interlock.kernel.record import RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

KEPT_MIN = 10_000
READ_MAX = 1_000  # acts that are read at once
REASON_MAX = 500
ROLE = "as:"  # begins the codes of a cause that say under which role its actor acted


@dataclass(frozen=True, slots=True)
class PersonAct:
    """An act: a trigger that was fired, or pause, resume or retry; when (ms by the store), by whom.

    The name was proved by an access token with these roles.
    """

    position: str
    at_ms: int
    record_id: RecordId
    what: str
    by: str
    roles: str
    reason: str


class PersonActs:
    """The list, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self._key = client, keys.acts()

    def add(self, record_id: str, what: str, cause: Cause) -> None:
        """List an act, if its actor has proved a name. Raises StoreError."""
        roles = [code.removeprefix(ROLE) for code in cause.codes if code.startswith(ROLE)]
        if roles:
            reason = cause.reason[:REASON_MAX]
            fields = [record_id, what, cause.actor, ", ".join(roles), reason, KEPT_MIN]
            call(self.client, "list_act", [self._key], fields)

    def latest(self, limit: int, *, before: str = "", by: str = "") -> list[PersonAct]:
        """Return acts, the latest first: those before a position, and those of one person.

        For the acts of one person the whole list may be read: a command for each READ_MAX acts.
        """
        found: list[PersonAct] = []
        count, goes_on = READ_MAX if by else limit, True
        while goes_on and len(found) < limit:
            end = f"({before}" if before else "+"
            rows = read(self.client, "XREVRANGE", self._key, end, "-", "COUNT", count)
            acts = [_act(at.decode(), dict(row)) for at, row in rows]
            found += [act for act in acts if by in ("", act.by)]
            before, goes_on = acts[-1].position if acts else before, len(acts) == count
        return found[:limit]


def _act(position: str, row: Mapping[bytes, bytes]) -> PersonAct:
    fields = {name.decode(): value.decode() for name, value in row.items()}
    return PersonAct(
        position=position,
        at_ms=int(position.partition("-")[0]),
        record_id=RecordId(fields["record"]),
        what=fields["what"],
        by=fields["by"],
        roles=fields["roles"],
        reason=fields["reason"],
    )
