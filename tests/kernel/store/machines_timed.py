"""A small machine with timers at fixed times, and a question that is asked anew."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.rows import by, move, rows, stay
from interlock.kernel.table import PERSON, Ask, Data, Terminal, Waiting
from interlock.kernel.timer import Timer
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

EXPIRY_MS = 100_000
PATIENCE_MS = 40_000
REMIND_MS = 20_000
TELL = Effect("tell", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


class S(StrEnum):
    DRAFT = auto()
    ASKED = auto()
    DONE = auto()
    EXPIRED = auto()


class T(StrEnum):
    ASK = auto()
    CHANGE = auto()
    MUSE = auto()
    AGREE = auto()
    EXPIRE = auto()


class Change(BaseModel):
    value: str = ""
    quiet: bool = False


def changed(ask: Ask) -> Data:
    return {**ask.data, **ask.payload}


def due_at(data: Data) -> Any:
    return data.get("due_at")


EXPIRY = Timer("expiry", lambda _: EXPIRY_MS, T.EXPIRE, since="created")
DATE = Timer("date", due_at, T.EXPIRE, since="epoch")
TIMED = Machine(
    name="timed",
    stages=(
        Waiting(S.DRAFT, (EXPIRY, DATE)),
        Waiting(
            S.ASKED,
            (
                EXPIRY,
                Timer("patience", lambda _: PATIENCE_MS, T.EXPIRE),
                Timer("reminder", lambda _: REMIND_MS, effect=TELL),
            ),
            asks=lambda data: not data.get("quiet"),
            notifies=TELL,
            question=lambda data: f"May it be {data.get('value')}?",
            affordances=(("agree", T.AGREE),),
        ),
        Terminal(S.DONE, is_success=True),
        Terminal(S.EXPIRED),
    ),
    transitions=(
        *rows(S.DRAFT, move(T.ASK, S.ASKED, ())),
        *rows(
            S.ASKED,
            stay(T.CHANGE, (), update=changed, asks_anew=True),
            stay(T.MUSE, (), update=changed),
            move(T.AGREE, S.DONE, by(PERSON), names_proposal=True),
        ),
        *rows((S.DRAFT, S.ASKED), move(T.EXPIRE, S.EXPIRED, ())),
    ),
    payloads={T.CHANGE: Change, T.MUSE: Change},
)
