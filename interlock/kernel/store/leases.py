"""Leases of effects: the scripts that claim, adopt, renew, settle and release them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import Any, Generic

from interlock.kernel.effect import CASCADE, Effect, Kind
from interlock.kernel.errors import FencedError
from interlock.kernel.record import D, Record, ancestors, partition_of, split_key
from interlock.kernel.store import codec
from interlock.kernel.store.commands import (
    Answer,
    EffectMessage,
    Limits,
    Render,
    parent_plan,
    presented,
    sanitized,
)
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call
from interlock.kernel.store.slots import EffectSlots


class Order(StrEnum):
    """The answer to each renewal. It is repeated until it changes, so no holder can miss it."""

    GO = auto()
    INTERRUPT = auto()
    PAUSE = auto()
    STOP = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class Lease(Generic[D]):
    """The right to run one effect, until it lapses.

    `token` proves it, and is void once another has the effect. `key` is the id of the effect, and
    the same at each attempt: use it as an idempotency key.
    """

    key: str
    suffix: str
    token: str
    attempt: int
    name: str
    kind: Kind
    record: Record[D]
    interrupts: int
    outcome: Mapping[str, Any] | None = None  # what an earlier attempt has worked out
    has_hung: bool = False  # an earlier attempt went on when its time was over

    @property
    def token_number(self) -> int:
        """A number that grows from holder to holder, for outside resources that fence by it."""
        return int(self.token.partition("-")[0])


@dataclass(frozen=True, slots=True)
class Refused:
    """The refusal of a claim, with the status that lua/claim.lua gave it."""

    status: str
    detail: str


@dataclass(frozen=True, slots=True)
class Shortage:
    """The cap that does not allow an amount, the record that has it, and what is left of it.

    `may_pass`: it would allow the amount if others gave back what they have reserved.
    """

    record_id: str
    name: str
    asked: int
    left: int
    cap: int
    may_pass: bool


class Leases:
    """The scripts of leases, over one client."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self.client, self.keys, self.limits = client, keys, limits
        self.slots = EffectSlots(client, keys)

    def claim(
        self, key: str, effect: Effect, *, nonce: str, holder: str, schema: int, slot: str = ""
    ) -> Lease | Refused:
        """Claim an effect. A repeat with the same nonce gets its own lease back, renewed.

        One that needs a slot is refused with what it Needs. Once a slot is acquired for it, the
        number in the refusal is the `slot` to show; "none" says that it needs none any more.
        """
        record_id, suffix = split_key(key)
        plan = {
            "id": record_id,
            "suffix": suffix,
            "nonce": nonce,
            "holder": sanitized(holder),
            "lease_ms": effect.lease_ms,
            "schema": schema,
            "name": effect.name,
            "slot": slot,
        }
        named = self.keys.of(record_id, chain=self.keys.chain(record_id))
        reply = call(self.client, "claim", named, plan)
        status, token, attempt, pairs, counters, kept, hung = reply
        if status != b"granted":
            return Refused(status.decode(), token.decode())
        record = codec.record_of(record_id, pairs, counters)
        lease = _lease(key, effect.name, token, int(attempt), record)
        if not (kept or hung):
            return lease
        return replace(lease, outcome=json.loads(kept) if kept else None, has_hung=bool(hung))

    def adopt(self, key: str, effect: Effect, token: str, *, nonce: str, holder: str) -> Lease:
        """Take a lease over from its holder, which is fenced from then on.

        It counts as the same attempt. A repeat with the same nonce gets the same token. Raises
        FencedError where `token` is no longer good, or the work was revoked.
        """
        record_id, suffix = split_key(key)
        plan = {
            "id": record_id,
            "suffix": suffix,
            "former_token": presented(token),
            "nonce": nonce,
            "holder": sanitized(holder),
            "lease_ms": effect.lease_ms,
        }
        reply = call(self.client, "adopt", self.keys.of(record_id), plan)
        status, new_token, attempt, pairs, counters = reply
        if status != b"adopted":
            raise FencedError(record_id, "token")
        record = codec.record_of(record_id, pairs, counters)
        return _lease(key, effect.name, new_token, int(attempt), record)

    def reserve(self, lease: Lease, amounts: Mapping[str, int]) -> Shortage | None:
        """Reserve amounts in the record and all above it: all, or none and return why.

        They replace what the holder had reserved. Where it may wait for others it keeps nothing.
        """
        record_id = lease.record.id
        chain = [record_id, *ancestors(record_id)]
        named = self.keys.of(record_id, chain=[*map(self.keys.counters, chain)])
        plan = {
            "suffix": lease.suffix,
            "token": presented(lease.token),
            "amounts": dict(amounts),
        }
        reply = [part.decode() for part in call(self.client, "reserve", named, plan)]
        status, owner, name, cap, left = reply
        if status == "lost":
            raise FencedError(record_id, "token")
        if status == "reserved":
            return None
        asked, whose = amounts[name], chain[int(owner) - 1]
        return Shortage(whose, name, asked, int(left), int(cap), may_pass=status == "waits")

    def renew(self, held: Mapping[str, tuple[str, int, int]]) -> dict[str, tuple[Order, int]]:
        """Renew leases, with one call for each partition.

        `held` has for each key its token, its ms, and the interrupts that were acknowledged. The
        answer has for each key an order, and how many interrupts were posted.
        """
        families: dict[int, list[str]] = {}
        for key in held:
            families.setdefault(partition_of(key.partition(":")[0]), []).append(key)
        orders: dict[str, tuple[Order, int]] = {}
        for partition, members in families.items():
            orders |= self._renew_in(partition, members, held)
        return orders

    def _renew_in(
        self, partition: int, members: Sequence[str], held: Mapping[str, tuple[str, int, int]]
    ) -> dict[str, tuple[Order, int]]:
        leases: list[dict[str, Any]] = []
        for key in members:
            record_id, suffix = split_key(key)
            token, lease_ms, acked = held[key]
            leases.append(
                {
                    "id": record_id,
                    "suffix": suffix,
                    "token": presented(token),
                    "lease_ms": lease_ms,
                    "acknowledged": acked,
                }
            )
        records = [self.keys.record(lease["id"]) for lease in leases]
        named = self.keys.in_partition(partition, records=records)
        reply = [part.decode() for part in call(self.client, "renew", named, {"leases": leases})]
        answers = zip(reply[::2], reply[1::2], strict=True)
        return {
            key: (Order(order), int(posted))
            for key, (order, posted) in zip(members, answers, strict=True)
        }

    def settle(self, lease: Lease, render: Render) -> Answer:
        """End an effect of a transition, or confirm that revoked work has stopped."""
        record_id, keys = lease.record.id, self.keys
        nonce = codec.nonce_of(lease.token)
        generation = lease.suffix.partition(".")[0]
        name = lease.record.spawning(lease.suffix)
        countdown = f"{name or 'none'}:{generation}"
        plan: dict[str, Any] = {
            "id": record_id,
            "suffix": lease.suffix,
            "token": presented(lease.token),
        }
        message = EffectMessage(
            f"{record_id}:{generation}.advance.{name}:{nonce}",
            lease.record.machine,
            CASCADE.name,
            lease.record.priority,
        )
        pushed = render(message) if name else None
        if name:
            plan["parent"] = parent_plan(record_id, countdown, nonce=nonce, limits=self.limits)
        plan["messages"] = [pushed[1]] if pushed else []
        named = keys.of(
            record_id,
            members=keys.members(record_id, countdown),
            tally=keys.tally(record_id, countdown),
            chain=keys.chain(record_id),
            message_queues=[pushed[0]] if pushed else [],
        )
        status, advance = (part.decode() for part in call(self.client, "settle", named, plan))
        return Answer(status, owed=(message,) if advance and not pushed else ())

    def release(
        self,
        lease: Lease,
        *,
        delay_ms: int = 0,
        counted: bool,
        needs: Sequence[str] = (),
        asks: bool = False,
        is_last: bool = False,
    ) -> str:
        """Give an effect back. Returns the new state of its entry, gone, or lost.

        An effect that `needs` names which its family holds waits for them, first come first
        served; then `delay_ms` is only how long it waits at most until it is tried again. With
        `asks` the record asks a person, until the effect is claimed again, to make way for it.
        If it `is_last`, it is given up, however many attempts were left.
        """
        record_id = lease.record.id
        plan = {
            "id": record_id,
            "suffix": lease.suffix,
            "token": presented(lease.token),
            "delay_ms": delay_ms,
            "counted": counted,
            "names": list(needs),
            "asks": asks,
            "is_last": is_last,
        }
        named = self.keys.of(record_id, chain=self.keys.chain(record_id))
        status: bytes = call(self.client, "release", named, plan)[0]
        return status.decode()


def initial_lease_of(record_id: str, leased: Sequence[Any]) -> Lease | None:
    """Return the lease that a commit gave, from what its script returned of it."""
    if not leased:
        return None
    token, pairs, counters = leased
    record = codec.record_of(record_id, pairs, counters)
    entry = next(entry for entry in record.entries if entry.token == token.decode())
    return _lease(entry.key(record_id), entry.name, token, 1, record)


def _lease(key: str, name: str, token: bytes, attempt: int, record: Record) -> Lease:
    suffix = split_key(key)[1]
    entry = next(entry for entry in record.entries if entry.suffix == suffix)
    return Lease(
        key=key,
        suffix=suffix,
        token=token.decode(),
        attempt=attempt,
        name=name,
        kind=entry.kind,
        record=record,
        interrupts=entry.posted,
    )
