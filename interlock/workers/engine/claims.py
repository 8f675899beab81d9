"""Claims the effects that messages name, and says why one is not claimed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from kombu.exceptions import OperationalError

from interlock.kernel.errors import InvalidIdError, KernelError, StoreError
from interlock.kernel.machine import Machine
from interlock.kernel.record import split_key
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.leases import Lease, Refused
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_ends import (
    EffectFailedError,
    EffectRetriedError,
    not_claimed,
)
from interlock.workers.engine.effect_slots import UsedSlot, claim_with_slot
from interlock.workers.processes.clock import clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease of this process, with the slot under which its effect is at work.

    It was asked for at a time of `clock`.
    """

    lease: Lease
    asked_at: float
    used: UsedSlot | None = None


class Claims:
    """The claims of one process."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch

    def claim(self, machine: Machine, name: str, key: str, *, nonce: str = "") -> Granted:
        """Claim an effect, with the nonce of a lease that another process holds, if it is given.

        Raises what Celery shows for an effect that is not claimed.
        """
        task, effect = f"{machine.name}.{name}", self.dispatch.effect(machine.name, name)
        if effect.local and (host := self._send_to_its_host(machine, key)):
            raise EffectRetriedError(f"sent on to {host}, where its files are")
        asked_at = clock()
        claim = partial(
            self.dispatch.leases.claim,
            key,
            effect,
            nonce=nonce or uuid4().hex[:8],
            holder=self.dispatch.holder,
            schema=machine.schema,
        )
        try:
            lease, used = claim_with_slot(self.dispatch, key, effect, claim)
        except InvalidIdError as refusal:
            raise self.reject(task, (key,), {"refusal": str(refusal)}) from refusal
        except StoreError as refusal:
            log.warning("%s is not claimed: %s; a sweep will repeat it", key, refusal)
            raise EffectRetriedError(f"not claimed: {refusal}") from refusal
        if isinstance(lease, Refused) and lease.status == "other":
            raise self.reject(task, (key,), {"it is": lease.detail})
        if isinstance(lease, Refused):
            raise not_claimed(lease)
        return Granted(lease, asked_at, used)

    def reject(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> EffectFailedError:
        """Keep and count a message that names no effect, and return the error that says so."""
        reason = f"{task} takes the id of one effect"
        try:
            self.dispatch.rejected.put("wrong arguments", reason, f"{args!r} {kwargs!r}")
        except StoreError as refusal:
            log.warning("a message for %s is lost: %s", task, refusal)
        return EffectFailedError(f"rejected: {reason}")

    def _send_to_its_host(self, machine: Machine, key: str) -> str:
        """Send a local effect on to the host that has its files; '' if it is to be done here.

        No other host can do it. If that host is gone, the time limit of the record's stage ends it.
        """
        try:
            record = self.dispatch.views.record(split_key(key)[0])
            host = machine.placement.host(record.data)
            if host in ("", self.dispatch.settings.host):
                return ""
            name = next(each.name for each in record.entries if each.key(record.id) == key)
            self.dispatch.publisher.publish_to_host(
                EffectMessage(key, machine.name, name, record.priority), host
            )
        except (KernelError, OperationalError, StopIteration):
            # Ignored here: the claim that follows reports the error.
            return ""
        return host
