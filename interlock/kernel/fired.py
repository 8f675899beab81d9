"""The result of a call that creates or changes a record."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.kernel.record import Record
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.leases import Lease


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of a call. `replayed`: the same call was made before, and changed the record then.

    `record` is the record after the call; it may be None where the call was replayed. `owed` are
    the effects that were published, because the commit did not push their messages. `ignored` is
    why the table ignored the trigger, which is noted. `lease` is the initial lease.
    """

    version: int
    record: Record | None
    replayed: bool = False
    owed: tuple[EffectMessage, ...] = ()
    ignored: str = ""
    lease: Lease | None = None

    @property
    def granted(self) -> Lease:
        """The initial lease, for a caller that asked for it and got no error."""
        assert self.lease is not None, "the caller asked for no lease"
        return self.lease
