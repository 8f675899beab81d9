"""Two small machines: an order has parts, which are of another machine, and checks, of its own."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import CASCADE, SPAWN, Effect
from interlock.kernel.machine import Machine
from interlock.kernel.payload import ChildLost, Tally
from interlock.kernel.rows import by, move, rows, stay
from interlock.kernel.table import PERSON, UNBOUND, Active, Ask, Bounds, Data, Terminal, Waiting
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping, Children
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

MAKE = Effect("make", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


class S(StrEnum):
    PLANNED = auto()
    PARTING = auto()
    CHECKING = auto()
    MENDING = auto()
    SENT = auto()
    FAILED = auto()


class Q(StrEnum):
    MAKING = auto()
    SURE = auto()
    MADE = auto()
    BROKEN = auto()


class T(StrEnum):
    SPLIT = auto()
    CHECK = auto()
    MEND = auto()
    CHANGE = auto()
    ALL_IN = auto()
    CHECKED = auto()
    LOST = auto()
    CANCEL = auto()
    MADE = auto()
    SURE = auto()
    BREAK = auto()
    CLOSE = auto()


class Parts(BaseModel):
    parts: list[Any]


def keep(ask: Ask) -> Data:
    return {**ask.data, **ask.payload}


def lose(ask: Ask) -> Data:
    return {**ask.data, "lost": [*ask.data.get("lost", []), ask.payload["child"]]}


def strict(ask: Ask) -> bool:
    return bool(ask.data.get("strict"))


def listens(ask: Ask) -> bool:
    return not ask.data.get("deaf")


def part(parent: Data, entry: Data, ids: Any) -> tuple[Data, Bounds]:
    return {"of": parent["name"], "part": entry, "one_of": len(ids)}, {"tokens": 7}


DEAF = "it does not want to know"
RECHECK = Timer("recheck", lambda _: 600_000, effect=CASCADE)
ORDER = Machine(
    name="order",
    stages=(
        Waiting(S.PLANNED, (RECHECK,)),
        Waiting(S.PARTING, (RECHECK,), countdown="parts"),
        Waiting(S.CHECKING, (RECHECK,), countdown="checks"),
        Waiting(S.MENDING, (RECHECK,)),
        Terminal(S.SENT, is_success=True),
        Terminal(S.FAILED),
    ),
    transitions=(
        *rows(
            S.PLANNED,
            move(T.SPLIT, S.SENT, by(PERSON), guard=lambda ask: ask.data.get("parts") == []),
            move(T.SPLIT, S.PARTING, by(PERSON), effect=SPAWN, spawns="parts"),
            move(T.CANCEL, S.FAILED, by(PERSON)),
        ),
        *rows(
            S.PARTING,
            stay(T.CHANGE, by(PERSON), update=keep, effect=CASCADE),
            move(T.LOST, S.FAILED, by(CASCADE), guard=strict, update=lose, effect=CASCADE),
            stay(T.LOST, by(CASCADE), guard=listens, refusal=DEAF, update=lose),
            move(T.MEND, S.MENDING, by(PERSON), effect=CASCADE),
            move(T.ALL_IN, S.SENT, by(CASCADE), update=keep),
            move(T.CHECK, S.CHECKING, by(PERSON), effect=SPAWN, spawns="checks"),
        ),
        *rows(S.CHECKING, move(T.CHECKED, S.SENT, by(CASCADE), update=keep)),
        *rows(S.MENDING, move(T.SPLIT, S.PARTING, by(PERSON), effect=SPAWN, spawns="parts")),
        *rows((S.PARTING, S.CHECKING), move(T.CANCEL, S.FAILED, by(PERSON), effect=CASCADE)),
    ),
    payloads={T.CHANGE: Parts, T.ALL_IN: Tally, T.CHECKED: Tally, T.LOST: ChildLost},
    children=(
        Children("parts", part, T.ALL_IN, T.LOST, machine="part", listed_in="parts"),
        Children("checks", lambda _parent, entry, _ids: (entry, UNBOUND), T.CHECKED),
    ),
    close_trigger=T.CANCEL,
)
PART = Machine(
    name="part",
    bookkeeping=Bookkeeping(bounds=lambda _: {"tokens": 9, "calls": 3}),
    stages=(
        Active(Q.MAKING, (RECHECK,), effect=MAKE, outcomes=(T.MADE, T.BREAK)),
        Active(Q.SURE, (RECHECK,), effect=MAKE, outcomes=(T.MADE, T.BREAK)),
        Terminal(Q.MADE, is_success=True),
        Terminal(Q.BROKEN),
    ),
    transitions=(
        *rows(
            Q.MAKING,
            move(T.CLOSE, Q.BROKEN, by(CASCADE)),
            move(T.SURE, Q.SURE, by(PERSON)),
        ),
        *rows(
            Q.SURE,
            move(
                T.CLOSE,
                Q.BROKEN,
                by(CASCADE),
                guard=lambda ask: not ask.data.get("sure", True),
                refusal="it cannot be stopped now",
            ),
        ),
        *rows(
            (Q.MAKING, Q.SURE),
            move(T.MADE, Q.MADE, ()),
            move(T.BREAK, Q.BROKEN, ()),
        ),
    ),
    close_trigger=T.CLOSE,
)
