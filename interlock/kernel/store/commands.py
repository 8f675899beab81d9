"""The values and plans that the writing scripts are given, and the answers that they return."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from interlock.kernel.effect import CASCADE, NOTIFICATION, Effect, Kind
from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.record import Entry, Record, RecordId, TimerEntry, ancestors
from interlock.kernel.store import codec
from interlock.kernel.table import Bounds, Owed, Shares
from interlock.kernel.timer import TimerDue

DAY_MS = 86_400_000
FAMILY_LOG_MIN = 100_000  # commits that a family log goes back, at least
FEED_MIN = 10_000  # commits that the feed of a partition goes back, at least
UNHELD = "-"  # what the entry of an effect that nobody holds has in the place of a token
Commit = tuple[str, str, int]  # in a family log: its position, the record, the record's new version
_PACKED = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the store, in ms unless said otherwise."""

    op_window_ms: int = DAY_MS  # how long the outcome of an op-id is kept
    losses_max: int = 5  # lost attempts at an effect that use up none of those that may fail
    poll_ms: int = 5_000  # until the first poll of an effect that nobody has claimed
    remind_ms: int = DAY_MS  # until the first reminder of a quarantined effect
    tombstone_ms: int = 30 * DAY_MS  # how long the id of a pruned record stays taken


@dataclass(frozen=True, slots=True)
class EffectMessage:
    """The message that publishes an effect which a record owes."""

    key: str
    machine: str
    name: str
    priority: int
    queue: str = ""  # of an effect that the sender's table does not have


# Asked for the initial lease of the effect that a record owes by its new state: given the record
# after the commit, and what it owes. None: the effect is published.
Offer = Callable[[Record, Owed], "InitialLease | None"]
# Renders the message as the broker takes it: (list, text), or None to publish after the commit.
Render = Callable[[EffectMessage], tuple[str, bytes] | None]
# Publishes messages that a commit could not push; a sweep repeats those that the broker refuses.
Publish = Callable[[Sequence[EffectMessage]], object]


@dataclass(frozen=True, slots=True)
class Warrant:
    """The right to make a commit; see "What a script promises" in interlock/kernel/README.md."""

    kind: str = "none"
    proof: tuple[str, ...] = ()

    @classmethod
    def token(cls, suffix: str, token: str) -> Warrant:
        """Return the warrant of an effect's current holder."""
        return cls("token", (suffix, presented(token)))

    @classmethod
    def lapsed(cls, suffix: str, token: str) -> Warrant:
        """Return the warrant of the orphan sweep that found this holder lost."""
        return cls("lapsed", (suffix, token))

    @classmethod
    def exhausted(cls, suffix: str, attempts: int) -> Warrant:
        """Return the warrant of the orphan sweep that found an effect's attempts used up."""
        return cls("exhausted", (suffix, str(attempts)))

    @classmethod
    def due(cls, timer: str, due_at: int, set_at_version: int) -> Warrant:
        """Return the warrant of the stall sweep that found this timer due."""
        return cls("due", (timer, str(due_at), str(set_at_version)))

    @classmethod
    def component(cls, name: str, entered: int | None = None) -> Warrant:
        """Return the warrant of a part of Interlock that acts without a lease, by its name.

        With the version at which the record entered the state that the part has seen, it is good
        in that state alone.
        """
        return cls("component", (name,) if entered is None else (name, str(entered)))

    @classmethod
    def person(cls, entered: int) -> Warrant:
        """Return the warrant of a person who has seen the record in its present state."""
        return cls("person", (str(entered),))


NO_WARRANT = Warrant()


@dataclass(frozen=True, slots=True)
class Call:
    """One call, which may be repeated: who makes it and why, its op-id, and its warrant."""

    cause: Cause
    op_id: str = field(default_factory=lambda: uuid4().hex)
    warrant: Warrant = NO_WARRANT
    deltas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A record, the outcome of an op-id ('' where it is new), and facts of other records."""

    record: Record
    op_outcome: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InitialLease:
    """A lease of the entered state's effect, given in the same step that creates the effect.

    Without it the call is refused, where the record is paused or the effect's place is occupied. An
    `optional` one is not given to a paused record, which then owes the effect as any other.
    """

    nonce: str
    holder: str
    lease_ms: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a script. `owed` has the messages that the caller should publish.

    `leased` is what a commit returned of the initial lease that it gave.
    """

    status: str
    version: int = 0
    at_ms: int = 0
    owed: tuple[EffectMessage, ...] = ()
    detail: str = ""
    leased: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Spender:
    """The holder of an effect that reports what it used, whether or not its lease is still good.

    What it used is taken out of what it had reserved; the rest is given back if it `has_ended`.
    """

    suffix: str
    token: str
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class NoteDraft:
    """A note to write. `timers` that run are set again: their name, ms, and times fired."""

    kind: str
    detail: Mapping[str, Any]
    deltas: Mapping[str, int] = field(default_factory=dict)
    spender: Spender | None = None
    timers: tuple[tuple[str, int, int], ...] = ()
    owes: tuple[Effect, ...] = ()


def facts_read(machine: Machine, record: Record, trigger: str) -> tuple[str, ...]:
    """Return the records that deciding this trigger reads: ancestors and named ones, or none."""
    if not machine.reads(record.state, trigger):
        return ()
    return (*ancestors(record.id), *machine.fact_sources(record))


def policy_facts(read: Mapping[str, Any]) -> dict[str, Any]:
    """Return what guards may read of other records: the version, state and policy of each."""
    return {
        name: {
            "version": fact["version"],
            "state": fact["state"],
            "policy": fact["data"].get("policy"),
        }
        for name, fact in read.items()
    }


def entitled(record: Record, warrant: Warrant) -> bool:
    """Whether a warrant is good in a record as it was read.

    The commit script tests it again. It tests none of a component, but the version of the record.
    """
    match warrant.kind:
        case "token" | "lapsed" | "exhausted":
            entry = next((e for e in record.entries if e.suffix == warrant.proof[0]), None)
            return entry is not None and _holds(entry, warrant)
        case "due":
            named = {timer.name: timer for timer in record.timers}
            timer = named.get(warrant.proof[0])
            return timer is not None and _set(timer) == warrant.proof[1:]
        case "person":
            return warrant.proof[0] == str(record.entered)
        case "component":
            return warrant.proof[1:] in ((), (str(record.entered),))
        case _:
            return True


def _set(timer: TimerEntry) -> tuple[str, str]:
    return str(timer.due_at), str(timer.set_at_version)


def _holds(entry: Entry, warrant: Warrant) -> bool:
    match warrant.kind:
        case "token":
            live = entry.state in ("leased", "lapsed", "quarantined")
            return live and entry.token == warrant.proof[1]
        case "lapsed":
            return entry.state == "lapsed" and entry.token == warrant.proof[1]
        case _:
            return entry.state in ("owed", "lapsed") and str(entry.attempts) == warrant.proof[1]


def packed(plan: Mapping[str, Any]) -> str:
    """Return a plan as a script takes it."""
    return _PACKED(plan)


def shares_plan(shares: Shares | None) -> dict[str, Any]:
    """Return what the scripts need to change queues and held names, if the decision does."""
    if shares is None:
        return {}
    queues = {"left": shares.left_queue, "entered": shares.entered_queue}
    return {"shares": queues | {"frees": list(shares.frees), "takes": list(shares.takes)}}


def bounds_plan(bounds: Bounds) -> dict[str, Any]:
    """Return what the scripts need to cap what a tree uses, if a cap is given."""
    caps = {name: cap for name, cap in bounds.items() if cap is not None}
    return {"caps": caps} if caps else {}


def machine_plan(machine: Machine) -> dict[str, Any]:
    """Return what the scripts need of a machine: its name, and how long commits are listed."""
    length = FAMILY_LOG_MIN if machine.bookkeeping.in_family_log else 0
    return {"machine": machine.name, "feed_length": FEED_MIN, "family_log_length": length}


def lease_plan(
    initial_lease: InitialLease | None,
    machine: Machine,
    state: str,
    owes: Sequence[Owed],
    *,
    is_new: bool = False,
) -> dict[str, Any]:
    """Return what the scripts need to lease the state's effect in the step that creates it.

    One that needs a slot is not leased then, as slots are in partitions of their own. If the record
    `is_new`, nothing can be in the way of the lease.
    """
    leasable = (n for n, each in enumerate(owes, 1) if each.kind is Kind.STATE and not each.slots)
    leased = next(leasable, 0)
    if initial_lease is None or not leased:
        return {}
    owed, holder = owes[leased - 1], sanitized(initial_lease.holder)
    plan: dict[str, Any] = {
        "leased_at": leased,
        "lease_effect": owed.effect.name,
        "lease_entry": codec.leased_entry(owed, holder, fires=machine.exhausts(state)),
        "lease_nonce": initial_lease.nonce,
        "lease_holder": holder,
        "lease_ms": initial_lease.lease_ms,
        "lease_grace_ms": owed.effect.grace_ms,
    }
    if not is_new:
        plan |= {
            "lease_exclusive": owed.effect.exclusive,
            "lease_optional": initial_lease.optional,
        }
    return plan


def sanitized(holder: str) -> str:
    """Return a holder's name as one word of safe characters.

    A script writes it into an entry, whose fields are separated by blanks, and into JSON.
    """
    return re.sub(r"[^\w.:@-]", "_", holder, flags=re.ASCII) or "_"


def presented(token: str) -> str:
    """Return a token as a script compares it with that of an entry.

    An entry without a holder has UNHELD as its token, which may not pass for one. None has "".
    """
    return "" if token == UNHELD else token


def timers_plan(timers: Sequence[TimerDue]) -> list[str]:
    """Return what the scripts need to set timers: name, delay and beginning of each in turn."""
    return [
        part for timer in timers for part in (timer.name, str(timer.delay_ms), str(timer.since))
    ]


def owes_plan(machine: Machine, state: str, owes: Sequence[Owed]) -> dict[str, Any]:
    """Return what the scripts need to create a decision's effects: their entries and slots."""
    fires = machine.exhausts(state)
    lines = [codec.new_entry(owed, fires=fires and owed.kind is Kind.STATE) for owed in owes]
    slots = {n: owed.slots for n, owed in enumerate(owes, 1) if owed.slots}
    spawns = any(owed.kind is Kind.SPAWN for owed in owes)
    late = next((n for n, owed in enumerate(owes, 1) if owed.is_late), 0)
    return {"effects": lines, "slots": slots, "spawns": spawns, "late_at": late}


# The effect that a record which ends owes, if others have subscribed to that.
NOTIFICATION_ENTRY = codec.new_entry(Owed(NOTIFICATION, Kind.TRANSITION), fires=False)


def effect_messages(
    record: Record,
    nonce: str,
    owes: Sequence[Owed],
    initial_lease: InitialLease | None = None,
) -> tuple[EffectMessage, ...]:
    """Return the messages of a decision's effects, in the order in which they are owed.

    An effect that is leased at once has none, and a late one neither.
    """
    return tuple(
        EffectMessage(
            f"{record.id}:{record.version}.{n}:{nonce}",
            record.machine,
            owed.effect.name,
            record.priority,
        )
        for n, owed in enumerate(owes)
        if not owed.is_late and (initial_lease is None or owed.kind is not Kind.STATE or owed.slots)
    )


def advance_message(
    parent: RecordId, machine: str, countdown: str, nonce: str, priority: int
) -> EffectMessage:
    """Return the message of the advance that a parent owes when a countdown has ended."""
    name, _, generation = countdown.partition(":")
    key = f"{parent}:{generation}.advance.{name}:{nonce}"
    return EffectMessage(key, machine, CASCADE.name, priority)


def parent_plan(parent: RecordId, countdown: str, *, nonce: str, limits: Limits) -> dict[str, Any]:
    """Return what the scripts need to create the advance of a parent."""
    name, _, generation = countdown.partition(":")
    return {
        "id": parent,
        "countdown": name,
        "generation": generation,
        "nonce": nonce,
        "poll_ms": limits.poll_ms,
        "advance": codec.new_entry(Owed(CASCADE, Kind.ADVANCE, countdown=name), fires=False),
    }


def rendered_messages(
    messages_due: Sequence[EffectMessage], render: Render
) -> tuple[list[str], list[bytes]]:
    """Render every message, or none: a script pushes all its messages, or the caller does.

    Returns the queues and the texts of the messages.
    """
    rendered = [render(message) for message in messages_due]
    pushed = [pair for pair in rendered if pair is not None]
    if len(pushed) != len(messages_due):
        if pushed:
            raise KernelError("a render port must render every message or none")
        return [], []
    return [queue for queue, _ in pushed], [message for _, message in pushed]
