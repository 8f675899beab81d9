"""The table of an agent's identity: how far it is trusted, by what it did. All of it is ours."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, auto
from typing import Annotated

from pydantic import Field

from interlock.kernel.machine import Machine
from interlock.kernel.machines.tasks.trust import Trust, earned
from interlock.kernel.payload import Shape, validated
from interlock.kernel.table import Ask, Data, Loop, Terminal, Timer, Transition, Waiting

UNUSED_MS = 90 * 86_400_000
Line = Annotated[str, Field(min_length=1, max_length=2_000)]


class S(StrEnum):
    """Where an identity can stand: the levels of trust, and out of service."""

    UNTRUSTED = Trust.UNTRUSTED.value
    PROBATIONARY = Trust.PROBATIONARY.value
    TRUSTED = Trust.TRUSTED.value
    ELEVATED = Trust.ELEVATED.value
    RETIRED = auto()


class T(StrEnum):
    """What can be fired at an identity."""

    SUCCEEDED = auto()
    FAILED = auto()
    VIOLATED = auto()
    UNUSED = auto()
    PROMOTED = auto()
    RETIRED = auto()


class NewIdentity(Shape):
    """Who it is, however often it is started: a name, a role and a command together."""

    name: Line
    role: Line
    command: Annotated[str, Field(max_length=2_000)] = ""


class IdentityOutcome(Shape):
    """What it did, for people: the task that it was about."""

    task: Line
    reason: Annotated[str, Field(max_length=2_000)] = ""


class IdentityReason(Shape):
    """Why, in words."""

    reason: Annotated[str, Field(max_length=2_000)] = ""


def birth(payload: Data) -> Data:
    """Check who it is; it begins with an empty track record."""
    who = validated(NewIdentity, "the identity", payload)
    return {**who, "successes": 0, "failures": 0, "violations": 0}


def earns(level: Trust) -> Callable[[Ask], bool]:
    """Return whether the success that is told lifts an identity out of this level."""
    return lambda ask: earned(level, ask.data["successes"] + 1)


def succeeded(ask: Ask) -> Data:
    """Count a success. `successes` counts since the last violation.

    Old ones would undo a demotion at the next success, and a bar for ever after one violation
    would waste a long good record.
    """
    return {**ask.data, "successes": ask.data["successes"] + 1}


def failed(ask: Ask) -> Data:
    """Count a failure; to fail costs no trust."""
    return {**ask.data, "failures": ask.data["failures"] + 1}


def violated(ask: Ask) -> Data:
    """Count a violation; its successes are to be earned anew."""
    return {**ask.data, "successes": 0, "violations": ask.data["violations"] + 1}


def lapsed(ask: Ask) -> Data:
    """Forget old successes: trust that nobody used is to be earned anew."""
    return {**ask.data, "successes": 0}


def at_rest(state: S, trigger: T | None) -> Waiting:
    """Return a level: nothing moves an identity but what it does, and long disuse."""
    return Waiting(state, (Timer("unused", lambda _: UNUSED_MS, trigger),), asks=lambda _: False)


STAGES = (
    at_rest(S.UNTRUSTED, None),
    at_rest(S.PROBATIONARY, T.UNUSED),
    at_rest(S.TRUSTED, T.UNUSED),
    at_rest(S.ELEVATED, T.UNUSED),
    Terminal(S.RETIRED),
)
EARNED = "the page says that trust grows with reliability and gives no table"
LOST = "the page says that permissions are restricted; a violation costs one level at once"
LAPSED = "trust that was not used for 90 days is one level lower"
VOUCHED = "a person may vouch for an agent, or take it out of service"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


# fmt: off
TRANSITIONS = (
    Transition(S.UNTRUSTED,    T.SUCCEEDED, S.PROBATIONARY, update=succeeded, by=by("aftermath"), ours=EARNED),
    Transition(S.PROBATIONARY, T.SUCCEEDED, S.TRUSTED,      guard=earns(Trust.PROBATIONARY), update=succeeded, by=by("aftermath"), ours=EARNED),
    Transition(S.PROBATIONARY, T.SUCCEEDED, S.PROBATIONARY, update=succeeded, loop=Loop.EXTERNAL, by=by("aftermath"), ours=EARNED),
    Transition(S.TRUSTED,      T.SUCCEEDED, S.ELEVATED,     guard=earns(Trust.TRUSTED), update=succeeded, by=by("aftermath"), ours=EARNED),
    Transition(S.TRUSTED,      T.SUCCEEDED, S.TRUSTED,      update=succeeded, loop=Loop.EXTERNAL, by=by("aftermath"), ours=EARNED),
    Transition(S.ELEVATED,     T.SUCCEEDED, S.ELEVATED,     update=succeeded, loop=Loop.EXTERNAL, by=by("aftermath"), ours=EARNED),
    *(
        Transition(state,      T.FAILED,    state,          update=failed,    loop=Loop.EXTERNAL, by=by("aftermath"), ours=EARNED)
        for state in (S.UNTRUSTED, S.PROBATIONARY, S.TRUSTED, S.ELEVATED)
    ),
    Transition(S.UNTRUSTED,    T.VIOLATED,  S.UNTRUSTED,    update=violated,  loop=Loop.EXTERNAL, by=by("aftermath"), ours=LOST),
    Transition(S.PROBATIONARY, T.VIOLATED,  S.UNTRUSTED,    update=violated,  by=by("aftermath"), ours=LOST),
    Transition(S.TRUSTED,      T.VIOLATED,  S.PROBATIONARY, update=violated,  by=by("aftermath"), ours=LOST),
    Transition(S.ELEVATED,     T.VIOLATED,  S.TRUSTED,      update=violated,  by=by("aftermath"), ours=LOST),
    Transition(S.PROBATIONARY, T.UNUSED,    S.UNTRUSTED,    update=lapsed,    by=by("stalls"),    ours=LAPSED),
    Transition(S.TRUSTED,      T.UNUSED,    S.PROBATIONARY, update=lapsed,    by=by("stalls"),    ours=LAPSED),
    Transition(S.ELEVATED,     T.UNUSED,    S.TRUSTED,      update=lapsed,    by=by("stalls"),    ours=LAPSED),
    Transition(S.UNTRUSTED,    T.PROMOTED,  S.PROBATIONARY, by=by("person"),  ours=VOUCHED),
    Transition(S.PROBATIONARY, T.PROMOTED,  S.TRUSTED,      by=by("person"),  ours=VOUCHED),
    Transition(S.TRUSTED,      T.PROMOTED,  S.ELEVATED,     by=by("person"),  ours=VOUCHED),
    *(
        Transition(state,      T.RETIRED,   S.RETIRED,      by=by("person"),  ours=VOUCHED)
        for state in (S.UNTRUSTED, S.PROBATIONARY, S.TRUSTED, S.ELEVATED)
    ),
)
# fmt: on

IDENTITY = Machine(
    name="identity",
    stages=STAGES,
    transitions=TRANSITIONS,
    initial_data=birth,
    payloads={
        T.SUCCEEDED: IdentityOutcome,
        T.FAILED: IdentityOutcome,
        T.VIOLATED: IdentityOutcome,
        T.UNUSED: IdentityReason,
        T.PROMOTED: IdentityReason,
        T.RETIRED: IdentityReason,
    },
    cancel_triggers=(T.RETIRED,),
    id_prefix=("backlog",),
)
