"""A small machine with dependencies in other families, slots, a mirror, and bounds set by rows."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum, auto
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.table import (
    Active,
    Ask,
    Bounds,
    Data,
    Mode,
    Terminal,
    Transition,
    Waiting,
)
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping, Placement, Prerequisites
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

REGISTER = Effect("register", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
START = Effect("start", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
RUN = Effect("run", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
FREE = Effect("free", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
SHOW = Effect("show", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


class S(StrEnum):
    OPEN = auto()
    READY = auto()
    ASIDE = auto()
    RUNNING = auto()
    DONE = auto()
    CANCELED = auto()


class T(StrEnum):
    CONFIGURE = auto()
    ACTIVATE = auto()
    MET = auto()
    SLOT = auto()
    BEGIN = auto()
    POKE = auto()
    LOSE = auto()
    SUSPEND = auto()
    RESUME = auto()
    FINISH = auto()
    CANCEL = auto()


class Given(BaseModel):
    value: Any = None
    slot: str = ""
    cap: int | None = None
    runs: int | None = None
    tally: dict[str, int] = {}


def keep(ask: Ask) -> Data:
    return {**ask.data, **{name: value for name, value in ask.payload.items() if value}}


def met(ask: Ask) -> Data:
    return {**ask.data, "met": True}


def left(ask: Ask) -> Data:
    return {name: value for name, value in ask.data.items() if name != "slot"}


def kept(data: Data) -> bool:
    return bool(data.get("slot"))


def bounds(data: Data) -> Bounds:
    return {"spent": data.get("cap"), "runs": data.get("runs")}


RECHECK = Timer("recheck", lambda _: 600_000)
STAGES = (
    Waiting(S.OPEN, (RECHECK,)),
    Waiting(
        S.READY,
        (RECHECK,),
        offers=START,
        offered=lambda data: bool(data.get("met")),
        slot=kept,
        slot_release=FREE,
    ),
    Waiting(S.ASIDE, (RECHECK,)),
    Active(S.RUNNING, (RECHECK,), effect=RUN, outcomes=(T.FINISH,), slot=kept, slot_release=FREE),
    Terminal(S.DONE),
    Terminal(S.CANCELED),
)
# fmt: off
ROWS = (
    Transition(S.OPEN,    T.CONFIGURE, S.OPEN,    update=keep, mode=Mode.EXTERNAL, bounds=True),
    Transition(S.OPEN,    T.ACTIVATE,  S.READY,   effect=REGISTER, spawns="needs"),
    Transition(S.READY,   T.MET,       S.READY,   update=met, mode=Mode.EXTERNAL),
    Transition(S.ASIDE,   T.MET,       S.ASIDE,   update=met, mode=Mode.INTERNAL),
    Transition(S.READY,   T.SLOT,      S.READY,   update=keep, mode=Mode.INTERNAL),
    Transition(S.READY,   T.BEGIN,     S.RUNNING, update=keep),
    Transition(S.RUNNING, T.POKE,      S.RUNNING, update=keep, mode=Mode.INTERNAL),
    Transition(S.RUNNING, T.LOSE,      S.READY,   update=left),
    Transition(S.READY,   T.SUSPEND,   S.ASIDE),
    Transition(S.ASIDE,   T.RESUME,    S.READY,   effect=REGISTER, spawns="needs"),
    Transition(S.RUNNING, T.FINISH,    S.DONE),
    Transition(S.OPEN,    T.CANCEL,    S.CANCELED),
    Transition(S.READY,   T.CANCEL,    S.CANCELED),
    Transition(S.ASIDE,   T.CANCEL,    S.CANCELED),
    Transition(S.RUNNING, T.CANCEL,    S.CANCELED),
)
# fmt: on
NODE = Machine(
    name="node",
    stages=STAGES,
    transitions=ROWS,
    payloads=dict.fromkeys((T.CONFIGURE, T.MET, T.SLOT, T.BEGIN, T.POKE), Given),
    placement=Placement(id_prefix=("root",)),
    bookkeeping=Bookkeeping(bounds=bounds),
    prerequisites=Prerequisites("needs", advance_trigger=T.MET, lost_trigger=T.CANCEL),
    mirror=SHOW,
)
# The parent of nodes: its bounds are those of its whole family.
ROOT = replace(NODE, name="root", placement=Placement())
