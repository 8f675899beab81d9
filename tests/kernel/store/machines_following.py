"""A small machine whose rows follow from its data alone, where the data say so."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.payload import CardAnswer
from interlock.kernel.rows import by, move, reenter, rows
from interlock.kernel.table import (
    ORPHANS,
    PERSON,
    PRODUCER,
    STALLS,
    Active,
    Ask,
    Data,
    Terminal,
    Waiting,
)
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

RECHECK_MS, REMIND_MS, STALL_MS = 30_000, 20_000, 90_000


def effect(name: str) -> Effect:
    return Effect(name, lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


STARTER, MAKER, SIGNER, MESSENGER = map(effect, ("starter", "maker", "signer", "messenger"))


class S(StrEnum):
    DRAFT = auto()
    READY = auto()
    MAKING = auto()
    CHECKING = auto()
    DONE = auto()
    LOST = auto()


class T(StrEnum):
    BEGIN = auto()
    SPIN = auto()
    START = auto()
    MADE = auto()
    LOSE = auto()
    APPROVE = auto()


class Made(BaseModel):
    value: str = ""


class Signed(CardAnswer):
    by: str = "person"


def kept(ask: Ask) -> Data:
    return {**ask.data, "made": ask.data.get("made", 0) + 1, **ask.payload}


def starts(data: Data) -> Data | None:
    return None if data.get("waits") else {}


def spins(data: Data) -> Data | None:
    return {} if data.get("spins") else None


def signs(data: Data) -> Data | None:
    return {"by": "signer"} if data.get("auto") else None


def asked(data: Data) -> bool:
    return not data.get("auto")


def after(ms: int) -> Any:
    return lambda _: ms


FOLLOWING = Machine(
    name="following",
    stages=(
        Waiting(S.DRAFT, (Timer("kickoff", after(5_000), T.BEGIN),)),
        Waiting(S.READY, (Timer("recheck", after(RECHECK_MS), effect=STARTER),), offers=STARTER),
        Active(
            S.MAKING,
            (Timer("stall", after(STALL_MS), T.LOSE),),
            effect=MAKER,
            outcomes=(T.MADE,),
            exhausted=T.LOSE,
        ),
        Waiting(
            S.CHECKING,
            (Timer("reminder", after(REMIND_MS), effect=MESSENGER),),
            asks=asked,
            notifies=MESSENGER,
            affordances=(("approve", "approve"),),
        ),
        Terminal(S.DONE, cleanup=MESSENGER, is_success=True),
        Terminal(S.LOST),
    ),
    transitions=(
        *rows(S.DRAFT, move(T.BEGIN, S.READY, by(PRODUCER, STALLS, SIGNER))),
        *rows(
            S.READY,
            reenter(T.SPIN, by(STARTER), follows=spins),
            move(T.START, S.MAKING, by(STARTER), follows=starts),
        ),
        *rows(
            S.MAKING,
            move(T.MADE, S.CHECKING, by(MAKER), update=kept, effect=SIGNER),
            move(T.LOSE, S.LOST, by(ORPHANS, STALLS), abandons=True),
        ),
        *rows(
            S.CHECKING,
            move(T.APPROVE, S.DONE, by(SIGNER, PERSON), names_proposal=True, follows=signs),
        ),
    ),
    payloads={T.MADE: Made, T.APPROVE: Signed},
    first_trigger=T.BEGIN,
    bookkeeping=Bookkeeping(counters=lambda data: {"made": data.get("made", 0)}),
    title=lambda data: f"Work {data.get('value', '')}",
)
