"""A small machine with one of each thing that the store must get right."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import CASCADE, SPAWN, Effect
from interlock.kernel.machine import Machine
from interlock.kernel.table import (
    UNBOUND,
    Active,
    Ask,
    Data,
    Mode,
    Terminal,
    Transition,
    Waiting,
)
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Children

LEASE_MS = 10_000
GRACE_MS = 4_000
EXPIRY_MS = 60_000
REMIND_MS = 20_000

WORK = Effect("work", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
POLISH = Effect("polish", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)
BUILD = Effect("build", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2, exclusive=True)
CLEAR = Effect("clear", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2, exclusive=True)
NOTIFY = Effect("notify", lease_ms=LEASE_MS, grace_ms=GRACE_MS, attempts_max=2)


class S(StrEnum):
    IDLE = auto()
    WORKING = auto()
    CARRIED = auto()
    POLISHING = auto()
    BUILDING = auto()
    ASKING = auto()
    GROUPING = auto()
    DONE = auto()
    FAILED = auto()


class T(StrEnum):
    BEGIN = auto()
    DONE = auto()
    FAIL = auto()
    GO_ON = auto()
    POKE = auto()
    AGAIN = auto()
    POLISH = auto()
    BUILD = auto()
    APPROVE = auto()
    REVISE = auto()
    EXPIRE = auto()
    CANCEL = auto()
    SPLIT = auto()
    CHILDREN_DONE = auto()
    RELY = auto()


class Given(BaseModel):
    value: Any = None
    tally: dict[str, int] = {}


def keep(ask: Ask) -> Data:
    return {**ask.data, **{name: value for name, value in ask.payload.items() if value}}


def lists(ask: Ask) -> Data:
    return {"children": [], **ask.data}


def relies(ask: Ask) -> bool:
    return all(fact["policy"] != "strict" for fact in ask.facts.values())


def after(ms: int) -> Any:
    return lambda _: ms


def once(data: Data) -> bool:
    return bool(data.get("once"))


STALL = Timer("stall", after(10 * EXPIRY_MS), T.FAIL)
STAGES = (
    Waiting(S.IDLE, (Timer("kickoff", after(5_000), T.BEGIN),)),
    Active(
        S.WORKING,
        (STALL,),
        effect=WORK,
        outcomes=(T.DONE, T.FAIL),
        crash=T.FAIL,
        exhausted=T.FAIL,
        once=once,
    ),
    Active(S.CARRIED, (STALL,), outcomes=(T.DONE, T.FAIL), crash=T.FAIL),
    Active(S.POLISHING, (STALL,), effect=POLISH, outcomes=(T.DONE, T.FAIL)),
    Active(S.BUILDING, (STALL,), effect=BUILD, outcomes=(T.DONE, T.FAIL)),
    Waiting(
        S.ASKING,
        (
            Timer("expiry", after(EXPIRY_MS), T.EXPIRE),
            Timer("reminder", after(REMIND_MS), effect=NOTIFY),
        ),
        notifies=NOTIFY,
        affordances=(("approve", "approve"), ("revise", "revise")),
    ),
    Waiting(
        S.GROUPING,
        (Timer("recheck", after(REMIND_MS), effect=CASCADE),),
        countdown="children",
    ),
    Terminal(S.DONE),
    Terminal(S.FAILED),
)
ROWS = (
    Transition(S.IDLE, T.BEGIN, S.WORKING),
    Transition(S.IDLE, T.SPLIT, S.GROUPING, update=lists, effect=SPAWN, spawns="children"),
    Transition(S.WORKING, T.DONE, S.ASKING, update=keep),
    Transition(S.WORKING, T.FAIL, S.FAILED, update=keep, abandons=True),
    Transition(S.WORKING, T.GO_ON, S.CARRIED, mode=Mode.CARRY),
    Transition(S.WORKING, T.POKE, S.WORKING, update=keep, mode=Mode.INTERNAL, interrupts=True),
    Transition(S.WORKING, T.AGAIN, S.WORKING, mode=Mode.EXTERNAL),
    Transition(S.WORKING, T.RELY, S.DONE, guard=relies, refusal="strict above", reads=True),
    Transition(S.CARRIED, T.DONE, S.ASKING, update=keep),
    Transition(S.CARRIED, T.FAIL, S.FAILED, update=keep, abandons=True),
    Transition(S.POLISHING, T.DONE, S.DONE, update=keep),
    Transition(S.POLISHING, T.FAIL, S.FAILED, abandons=True),
    Transition(S.POLISHING, T.GO_ON, S.CARRIED, mode=Mode.CARRY),
    Transition(S.POLISHING, T.POKE, S.POLISHING, update=keep, mode=Mode.INTERNAL, interrupts=True),
    Transition(S.IDLE, T.BUILD, S.BUILDING),
    Transition(S.BUILDING, T.DONE, S.DONE, update=keep, effect=CLEAR),
    Transition(S.BUILDING, T.FAIL, S.FAILED, effect=CLEAR, abandons=True),
    Transition(S.BUILDING, T.AGAIN, S.BUILDING, mode=Mode.EXTERNAL, effect=CLEAR),
    Transition(S.BUILDING, T.REVISE, S.WORKING),
    Transition(S.BUILDING, T.GO_ON, S.CARRIED, mode=Mode.CARRY),
    Transition(S.BUILDING, T.CANCEL, S.FAILED, effect=CLEAR),
    Transition(S.ASKING, T.POLISH, S.POLISHING),
    Transition(S.ASKING, T.APPROVE, S.DONE),
    Transition(S.ASKING, T.REVISE, S.WORKING),
    Transition(S.ASKING, T.EXPIRE, S.FAILED),
    Transition(S.GROUPING, T.CHILDREN_DONE, S.DONE, update=keep),
    *(
        Transition(state, T.CANCEL, S.FAILED)
        for state in (S.IDLE, S.WORKING, S.CARRIED, S.POLISHING, S.ASKING)
    ),
    Transition(S.GROUPING, T.CANCEL, S.FAILED, effect=CASCADE),
)

LIFE = Machine(
    name="life",
    stages=STAGES,
    transitions=ROWS,
    payloads={T.DONE: Given, T.FAIL: Given, T.POKE: Given, T.CHILDREN_DONE: Given},
    cancel_triggers=(T.CANCEL,),
    first_trigger=T.BEGIN,
    title=lambda data: f"{data.get('title', 'Life')}: {data.get('value', 'nothing')}",
    children=(
        Children(
            countdown="children",
            payload=lambda _parent, child, _siblings: (child, UNBOUND),
            advance_trigger=T.CHILDREN_DONE,
        ),
    ),
    close_trigger=T.CANCEL,
)
