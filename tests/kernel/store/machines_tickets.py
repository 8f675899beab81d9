"""A small machine with queues, held names, initial leases, and ends that are counted early."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.table import Active, Ask, Data, Mode, Terminal, Transition, Waiting
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Placement
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

HANDLE = Effect("handle", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2, exclusive=True)
CHECK = Effect("check", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
MERGE = Effect("merge", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
OFFER = Effect("offer", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


class S(StrEnum):
    OPEN = auto()
    TAKEN = auto()
    AT_WORK = auto()
    CHECKING = auto()
    LOST = auto()
    DONE = auto()


class T(StrEnum):
    TAKE = auto()
    START = auto()
    FINISH = auto()
    CHECKED = auto()
    MERGED = auto()
    DROP = auto()
    FAIL = auto()
    AGAIN = auto()
    LEND = auto()
    REGAIN = auto()


class Given(BaseModel):
    value: Any = None


def checked(ask: Ask) -> Data:
    return {**ask.data, "checked": True}


def lent(ask: Ask) -> Data:
    return {**ask.data, "files": [], "lent": ask.data["files"]}


def regained(ask: Ask) -> Data:
    return {**ask.data, "files": ask.data["lent"]}


def names(data: Data) -> tuple[str, ...]:
    return tuple(data.get("files", ()))


def role(data: Data) -> str:
    return str(data.get("role", "any"))


STALL = Timer("stall", lambda _: 600_000, T.FAIL)
STAGES = (
    Waiting(
        S.OPEN,
        (Timer("recheck", lambda _: 60_000, effect=OFFER),),
        queue=role,
        offers=OFFER,
    ),
    Active(
        S.TAKEN,
        (STALL,),
        holds=names,
        effect=HANDLE,
        outcomes=(T.FINISH, T.FAIL),
        crash=T.DROP,
        once=lambda _: True,
    ),
    Active(S.AT_WORK, (STALL,), holds=names, outcomes=(T.FINISH, T.FAIL), crash=T.FAIL),
    Active(
        S.CHECKING,
        (STALL,),
        effect=CHECK,
        later=MERGE,
        is_later=lambda data: bool(data.get("checked")),
        outcomes=(T.CHECKED, T.MERGED, T.FAIL),
    ),
    Waiting(
        S.LOST,
        (Timer("backoff", lambda data: None if data.get("given_up") else 5_000, T.AGAIN),),
        counts_as_ended=lambda data: bool(data.get("given_up")),
    ),
    Terminal(S.DONE),
)
# fmt: off
ROWS = (
    Transition(S.OPEN,     T.TAKE,    S.TAKEN),
    Transition(S.TAKEN,    T.START,   S.AT_WORK, mode=Mode.CARRY),
    Transition(S.TAKEN,    T.FINISH,  S.CHECKING),
    Transition(S.TAKEN,    T.DROP,    S.OPEN),
    Transition(S.TAKEN,    T.LEND,    S.TAKEN, update=lent, mode=Mode.INTERNAL),
    Transition(S.TAKEN,    T.REGAIN,  S.TAKEN, update=regained, mode=Mode.INTERNAL),
    Transition(S.TAKEN,    T.FAIL,    S.LOST, abandons=True),
    Transition(S.AT_WORK,  T.FINISH,  S.CHECKING),
    Transition(S.AT_WORK,  T.FAIL,    S.LOST, abandons=True),
    Transition(S.CHECKING, T.CHECKED, S.OPEN, update=checked),
    Transition(S.CHECKING, T.MERGED,  S.DONE),
    Transition(S.CHECKING, T.FAIL,    S.LOST, abandons=True),
    Transition(S.LOST,     T.AGAIN,   S.OPEN),
)
# fmt: on
SESSION = Machine(
    name="session",
    stages=(
        Active(
            S.AT_WORK,
            (STALL,),
            holds=names,
            effect=HANDLE,
            outcomes=(T.FINISH, T.FAIL),
            crash=T.FAIL,
            once=lambda _: True,
        ),
        Terminal(S.DONE),
    ),
    transitions=(
        Transition(S.AT_WORK, T.FINISH, S.DONE),
        Transition(S.AT_WORK, T.FAIL, S.DONE, abandons=True),
    ),
    placement=Placement(id_prefix=("backlog",)),
)
TICKET = Machine("ticket", STAGES, ROWS, placement=Placement(id_prefix=("backlog",)))
