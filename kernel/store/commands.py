"""What the writing scripts are told and answer: values and the plans made of them; no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from interlock.kernel.effect import CASCADE, Effect, Kind
from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.record import Entry, Record, RecordId, ancestors
from interlock.kernel.table import Bounds, Owed, Shares, TimerDue

DAY_MS = 86_400_000
FAMILY_LOG_MIN = 100_000  # commits that a family log goes back, at least
Commit = tuple[str, str, int]  # of a family log: its position, the record, the version it came to
_PACKED = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Limits:
    """Windows of the store, in ms unless said otherwise."""

    op_window_ms: int = DAY_MS
    poll_ms: int = 5_000  # first look at an owed effect that nobody claimed
    remind_ms: int = DAY_MS  # first reminder of a quarantined effect
    tombstone_ms: int = 30 * DAY_MS
    releases_max: int = 20


@dataclass(frozen=True, slots=True)
class EffectMessage:
    """An effect that is owed and should be published."""

    key: str
    machine: str
    name: str
    priority: int


# Renders the broker's message for an effect: (list, message), or None to publish after the commit.
Render = Callable[[EffectMessage], tuple[str, bytes] | None]


@dataclass(frozen=True, slots=True)
class Warrant:
    """What entitles a commit; PROTOCOL section 2."""

    kind: str = "none"
    words: tuple[str, ...] = ()

    @classmethod
    def token(cls, suffix: str, token: str) -> Warrant:
        """An effect's outcome, by its current holder."""
        return cls("token", (suffix, token))

    @classmethod
    def lapsed(cls, suffix: str, token: str) -> Warrant:
        """A sweep says that this holder is lost."""
        return cls("lapsed", (suffix, token))

    @classmethod
    def exhausted(cls, suffix: str, attempts: int) -> Warrant:
        """A sweep says that this effect has used up its attempts."""
        return cls("exhausted", (suffix, str(attempts)))

    @classmethod
    def due(cls, timer: str, due_at: int, born: int) -> Warrant:
        """A sweep says that this timer is due."""
        return cls("due", (timer, str(due_at), str(born)))

    @classmethod
    def component(cls, name: str) -> Warrant:
        """A part of this house acts on a record whose work it does not hold; it says which part."""
        return cls("component", (name,))

    @classmethod
    def person(cls, entered: int) -> Warrant:
        """A decision about the present stay in a state."""
        return cls("person", (str(entered),))


NO_WARRANT = Warrant()


@dataclass(frozen=True, slots=True)
class Call:
    """One call, however often repeated: its op-id, what entitles it, and who makes it."""

    cause: Cause
    op_id: str = field(default_factory=lambda: uuid4().hex)
    warrant: Warrant = NO_WARRANT
    deltas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A record, the outcome kept for an op-id ('' if none), and facts of other records."""

    record: Record
    op_outcome: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InitialLease:
    """Who is to hold the entered state's effect from its birth on, before anybody hears of it."""

    nonce: str
    holder: str
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script said. `owed` should be published unless it was pushed in the script."""

    status: str
    version: int = 0
    at_ms: int = 0
    owed: tuple[EffectMessage, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NoteDraft:
    """A note to write. `timers` are set anew if they run: name, ms, times fired."""

    kind: str
    detail: Mapping[str, Any]
    deltas: Mapping[str, int] = field(default_factory=dict)
    timers: tuple[tuple[str, int, int], ...] = ()
    owes: tuple[Effect, ...] = ()


def facts_read(machine: Machine, record: Record, trigger: str) -> tuple[RecordId, ...]:
    """Return the records that deciding this trigger reads: ancestors and declared ones, or none."""
    if not machine.reads(record.state, trigger):
        return ()
    return (*ancestors(record.id), *machine.fact_sources(record))


def entitled(record: Record, warrant: Warrant) -> bool:
    """Tell whether a warrant holds in a record as read; the commit script has the last word."""
    match warrant.kind:
        case "token" | "lapsed" | "exhausted":
            entry = next((e for e in record.entries if e.suffix == warrant.words[0]), None)
            return entry is not None and _holds(entry, warrant)
        case "due":
            named = {timer.name: timer for timer in record.timers}
            timer = named.get(warrant.words[0])
            return timer is not None and (str(timer.due_at), str(timer.born)) == warrant.words[1:]
        case "person":
            return warrant.words[0] == str(record.entered)
        case _:
            return True


def _holds(entry: Entry, warrant: Warrant) -> bool:
    match warrant.kind:
        case "token":
            live = entry.state in ("leased", "lapsed", "quarantined")
            return live and entry.token == warrant.words[1]
        case "lapsed":
            return entry.state == "lapsed" and entry.token == warrant.words[1]
        case _:
            return entry.state in ("owed", "lapsed") and str(entry.attempts) == warrant.words[1]


def packed(plan: Mapping[str, Any]) -> str:
    """Return a plan as a script takes it."""
    return _PACKED(plan)


def shares_plan(shares: Shares | None) -> dict[str, Any]:
    """Return what the scripts need to change what a family shares; nothing where none does."""
    if shares is None:
        return {}
    queues = {"left": shares.left_queue, "entered": shares.entered_queue}
    return {"shares": queues | {"frees": list(shares.frees), "takes": list(shares.takes)}}


def bounds_plan(bounds: Bounds) -> dict[str, int]:
    """Return what the scripts need to limit what a tree uses; nothing where no limit is given."""
    limits = {"cap": bounds.cap, "runs_max": bounds.runs}
    return {name: limit for name, limit in limits.items() if limit is not None}


def family_log_plan(machine: Machine) -> dict[str, int]:
    """Return what the scripts need to add a commit to the log of its family."""
    return {"family_log_length": FAMILY_LOG_MIN} if machine.bookkeeping.in_family_log else {}


def lease_plan(initial_lease: InitialLease | None, owes: Sequence[Owed]) -> dict[str, Any]:
    """Return what the scripts need to lease the state's effect to the caller at once."""
    if initial_lease is None:
        return {}
    exclusive = any(one.effect.exclusive for one in owes if one.kind is Kind.STATE)
    holder = sanitized(initial_lease.holder)
    lease = {"nonce": initial_lease.nonce, "holder": holder, "lease_ms": initial_lease.lease_ms}
    return {"initial_lease": lease | {"exclusive": exclusive}}


def without_leased(
    messages: Sequence[EffectMessage], owes: Sequence[Owed], initial_lease: InitialLease | None
) -> tuple[EffectMessage, ...]:
    """Leave out the message of an effect that is leased from its birth."""
    pairs = zip(messages, owes, strict=True)
    return tuple(
        message for message, owed in pairs if initial_lease is None or owed.kind is not Kind.STATE
    )


def sanitized(holder: str) -> str:
    """Return a holder's name as one word: an entry is a line of words, its note JSON in Lua."""
    return re.sub(r"[^\w.:@-]", "_", holder, flags=re.ASCII) or "_"


def timers_plan(timers: Sequence[TimerDue]) -> list[dict[str, Any]]:
    """Return what the scripts need to set timers."""
    return [{"name": timer.name, "delay_ms": timer.delay_ms} for timer in timers]


def owes_plan(machine: Machine, state: str, owes: Sequence[Owed]) -> list[dict[str, Any]]:
    """Return what the scripts need to create a decision's effects."""
    fires = machine.exhausts(state)
    return [owed_plan(owed, fires=fires and owed.kind is Kind.STATE) for owed in owes]


def owed_plan(owed: Owed, *, fires: bool) -> dict[str, Any]:
    """Return what a script needs to create one effect: the fields of its entry."""
    return {
        "name": owed.effect.name,
        "kind": str(owed.kind),
        "countdown": owed.countdown or "-",
        "attempts_max": owed.effect.attempts_max,
        "once": int(owed.once),
        "grace_ms": owed.effect.grace_ms,
        "fires_exhausted": int(fires),
        "exclusive": int(owed.effect.exclusive),
    }


def effect_messages(record: Record, nonce: str, owes: Sequence[Owed]) -> tuple[EffectMessage, ...]:
    """Return the messages of a decision's effects, in the order in which they are owed."""
    return tuple(
        EffectMessage(
            f"{record.id}:{record.version}.{n}:{nonce}",
            record.machine,
            owed.effect.name,
            record.priority,
        )
        for n, owed in enumerate(owes)
    )


def advance_message(
    parent: RecordId, machine: str, countdown: str, nonce: str, priority: int
) -> EffectMessage:
    """Return the message of the advance that whoever empties a countdown owes."""
    name, _, generation = countdown.partition(":")
    key = f"{parent}:{generation}.advance.{name}:{nonce}"
    return EffectMessage(key, machine, CASCADE.name, priority)


def parent_plan(parent: RecordId, countdown: str, *, nonce: str, limits: Limits) -> dict[str, Any]:
    """Return what the scripts need to create that advance."""
    name, _, generation = countdown.partition(":")
    return {
        "id": parent,
        "generation": generation,
        "nonce": nonce,
        "poll_ms": limits.poll_ms,
        "advance": owed_plan(Owed(CASCADE, Kind.ADVANCE, countdown=name), fires=False),
    }


def rendered_messages(
    messages_due: Sequence[EffectMessage], render: Render
) -> tuple[list[str], list[bytes]]:
    """Render every message, or none: a script pushes all of its messages or leaves all to us."""
    rendered = [render(door) for door in messages_due]
    pushed = [pair for pair in rendered if pair is not None]
    if len(pushed) != len(messages_due):
        if pushed:
            raise KernelError("a render port must render every message or none")
        return [], []
    return [queue for queue, _ in pushed], [message for _, message in pushed]
