"""What attempts at an effect save, so that later attempts do not work it out again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import FencedError, InvalidPayloadError
from interlock.kernel.record import Record
from interlock.kernel.store import codec
from interlock.kernel.store.commands import presented
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.scripts import Client, call, read

RESULTS_MAX = 100
NAME_LENGTH_MAX = 100
# claim.lua reads these.
OUTCOME, HUNG = "@outcome", "@hung"


@dataclass(frozen=True, slots=True)
class SavedResult:
    """A result as JSON gives it back."""

    value: Any


class SavedResults:
    """The saved results of effects, over one client."""

    def __init__(self, client: Client, keys: Keys, results_max: int = RESULTS_MAX) -> None:
        self.client, self.keys, self.results_max = client, keys, results_max

    def save(self, lease: Lease, name: str, value: Any) -> SavedResult:
        """Save a result under an effect, for as long as the record owes it.

        Raises FencedError if the lease is lost, InvalidPayloadError if the result is no JSON or too
        large, or if the record has as many results as it may have.
        """
        check_name(name)
        return self._save(lease, name, codec.encode(value, f"the result {name}"))

    def keep(self, lease: Lease, outcome: Any) -> None:
        """Keep the outcome of an effect, for its later attempts. Raises as `save` does."""
        self._save(lease, OUTCOME, codec.encode(outcome, "the outcome"), is_outcome=True)

    def mark_hung(self, lease: Lease) -> None:
        """Let later attempts know that this one goes on past its time. Raises as `save`."""
        self._save(lease, HUNG, b"true")

    def find(self, lease: Lease, name: str) -> SavedResult | None:
        """Return what an attempt at this effect has saved under a name."""
        field = f"{lease.suffix} {name}"
        found: Any = read(self.client, "HGET", self.keys.saved(lease.record.id), field)
        return None if found is None else SavedResult(json.loads(found))

    def stale(self, record: Record) -> list[str]:
        """Return the results of effects that the record does not owe. There should be none."""
        found: Any = read(self.client, "HKEYS", self.keys.saved(record.id))
        owed = {entry.suffix for entry in record.entries}
        named = [field.decode() for field in found]
        return [field for field in named if field.partition(" ")[0] not in owed]

    def _save(
        self, lease: Lease, name: str, encoded: bytes, *, is_outcome: bool = False
    ) -> SavedResult:
        record_id = lease.record.id
        plan = {
            "suffix": lease.suffix,
            "token": presented(lease.token),
            "name": name,
            "result": encoded,
            "results_max": self.results_max,
            "is_outcome": is_outcome,
        }
        status = call(self.client, "save", self.keys.of(record_id), plan)[0]
        if status == b"lost":
            raise FencedError(record_id, "token")
        if status == b"full":
            problem = f"{record_id} has {self.results_max} results already; save several as one"
            raise InvalidPayloadError(f"the result {name}", [problem])
        return SavedResult(json.loads(encoded))


def check_name(name: str) -> None:
    """Refuse what is no name of a result. Raises InvalidPayloadError."""
    if not name or len(name) > NAME_LENGTH_MAX or name.startswith("@"):
        problem = f"a name has up to {NAME_LENGTH_MAX} characters and does not begin with @"
        raise InvalidPayloadError(f"the name {name[:NAME_LENGTH_MAX]!r} of a result", [problem])
