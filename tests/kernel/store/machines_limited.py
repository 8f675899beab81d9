"""A small machine of whose effects only so many may be at work: per tenant, or of all records."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.rows import by, move, rows, stay
from interlock.kernel.table import ORPHANS, PERSON, Active, Terminal, Waiting, always
from interlock.kernel.timer import Timer
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

PAY = Effect("pay", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2, concurrency=2)
SEND = Effect("send", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2, concurrency=1)


class S(StrEnum):
    IDLE = auto()
    PAYING = auto()
    SENDING = auto()
    DONE = auto()


class T(StrEnum):
    PAY = auto()
    SEND = auto()
    POKE = auto()
    PAID = auto()
    SENT = auto()
    LOST = auto()
    CANCEL = auto()


LONG = Timer("long", lambda _: 10_000_000, T.CANCEL)
LIMITED = Machine(
    name="limited",
    stages=(
        Waiting(S.IDLE, (LONG,)),
        Active(
            S.PAYING,
            (LONG,),
            effect=PAY,
            outcomes=(T.PAID,),
            slot_key=lambda data: data["tenant"],
        ),
        Active(S.SENDING, (LONG,), effect=SEND, outcomes=(T.SENT,), once=always, crash=T.LOST),
        Terminal(S.DONE),
    ),
    transitions=(
        *rows(
            S.IDLE,
            move(T.PAY, S.PAYING, ()),
            move(T.SEND, S.SENDING, ()),
            move(T.CANCEL, S.DONE, ()),
        ),
        *rows(
            S.PAYING,
            move(T.PAID, S.DONE, by(PAY)),
            stay(T.POKE, ()),
            move(T.CANCEL, S.DONE, (), abandons=True),
        ),
        *rows(
            S.SENDING,
            move(T.SENT, S.DONE, by(SEND)),
            move(T.LOST, S.DONE, by(ORPHANS, PERSON)),
            move(T.CANCEL, S.DONE, (), abandons=True),
        ),
    ),
)
