"""A small machine of what crosses families: ends that are told, slots, a mirror, bounds by row."""

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
    Loop,
    Terminal,
    Timer,
    Transition,
    Waiting,
)
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

REGISTER = Effect("register", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
START = Effect("start", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
RUN = Effect("run", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
FREE = Effect("free", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
SHOW = Effect("show", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
NOTIFICATION = Effect("notification", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


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
    return Bounds(data.get("cap"), data.get("runs"))


LOOK = Timer("look", lambda _: 600_000)
STAGES = (
    Waiting(S.OPEN, (LOOK,), asks=lambda _: False),
    Waiting(
        S.READY,
        (LOOK,),
        asks=lambda _: False,
        offers=START,
        offered=lambda data: bool(data.get("met")),
        has_slot=kept,
    ),
    Waiting(S.ASIDE, (LOOK,), asks=lambda _: False),
    Active(S.RUNNING, (LOOK,), effect=RUN, outcomes=(T.FINISH,), has_slot=kept),
    Terminal(S.DONE, tells=NOTIFICATION),
    Terminal(S.CANCELED, tells=NOTIFICATION),
)
# fmt: off
ROWS = (
    Transition(S.OPEN,    T.CONFIGURE, S.OPEN,    update=keep, loop=Loop.EXTERNAL, bounds=True),
    Transition(S.OPEN,    T.ACTIVATE,  S.READY,   effect=REGISTER, spawns="needs"),
    Transition(S.READY,   T.MET,       S.READY,   update=met, loop=Loop.EXTERNAL),
    Transition(S.ASIDE,   T.MET,       S.ASIDE,   update=met, loop=Loop.INTERNAL),
    Transition(S.READY,   T.SLOT,      S.READY,   update=keep, loop=Loop.INTERNAL),
    Transition(S.READY,   T.BEGIN,     S.RUNNING, update=keep),
    Transition(S.RUNNING, T.POKE,      S.RUNNING, update=keep, loop=Loop.INTERNAL),
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
    advance_trigger=T.MET,
    bounds=bounds,
    mirror=SHOW,
    is_mirrored=lambda data: bool(data.get("shown")),
    slot_release=FREE,
    lasting_countdowns=("needs",),
    id_prefix=("graph",),
)
# What nodes are under: its bounds are those of its whole family.
ROOT = replace(NODE, name="root", id_prefix=())
