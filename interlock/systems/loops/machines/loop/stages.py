"""What a long-lived agent owes in each of its states, and its time limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from interlock import Active, Terminal, Timer, Waiting
from interlock.system.tables import Meaning
from interlock.systems.loops.machines.effects import (
    AGENT_CLEANUP,
    MAIL_CHECK,
    PROMPT,
    SESSION,
    WORKTREE,
)
from interlock.systems.loops.machines.loop import limits
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.names import SELF, State, Trigger
from interlock.systems.loops.machines.loop.payloads import Next

UNBEGUN = {"unbegun": True}
Limit = Literal["initializing_s", "building_s", "spawning_s", "session_timeout_s", "grace_s"]


def seconds(name: Limit) -> Callable[[LoopData], int | None]:
    """Return the delay, in ms, that the agent's data has under this name, in s."""

    def delay(data: LoopData) -> int | None:
        limit_s = data.get(name)
        return None if limit_s is None else limit_s * 1_000

    return delay


def next_ms(data: LoopData) -> int:
    """Return when an effect looks whether the next session is due."""
    return data["every_s"] * 1_000 if data["next"] == Next.LATER else limits.RECHECK_MS


def cooling_ms(data: LoopData) -> int:
    """Return how long an agent cools down."""
    return data["cooling_ms"]


def its_name(data: LoopData) -> tuple[str, ...]:
    """Return the name that only one life of an agent holds at a time."""
    del data
    return (SELF,)


STAGES = (
    Active(
        State.INITIALIZING,
        (Timer("limit", seconds("initializing_s"), Trigger.OVERDUE, unbegun_payload=UNBEGUN),),
        effect=WORKTREE,
        outcomes=(Trigger.WORKTREE_READY, Trigger.FATAL_ERROR),
        exhausted=Trigger.FATAL_ERROR,
        holds=its_name,
    ),
    Active(
        State.BUILDING_PROMPT,
        (Timer("limit", seconds("building_s"), Trigger.OVERDUE, unbegun_payload=UNBEGUN),),
        effect=PROMPT,
        outcomes=(Trigger.PROMPT_READY, Trigger.FATAL_ERROR),
        exhausted=Trigger.FATAL_ERROR,
        holds=its_name,
    ),
    Active(
        State.SPAWNING,
        (Timer("limit", seconds("spawning_s"), Trigger.SESSION_TIMEOUT, unbegun_payload=UNBEGUN),),
        effect=SESSION,
        outcomes=(Trigger.SESSION_STARTED, Trigger.SESSION_ERROR),
        exhausted=Trigger.SESSION_ERROR,
        holds=its_name,
    ),
    Active(
        State.RUNNING,
        (
            Timer("session", seconds("session_timeout_s"), Trigger.SESSION_TIMEOUT),
            Timer("recheck", lambda _: limits.RECHECK_MS, effect=MAIL_CHECK),
        ),
        outcomes=(Trigger.SESSION_SUCCEEDED, Trigger.SESSION_ERROR),
        crash=Trigger.SESSION_ERROR,
        holds=its_name,
    ),
    Active(
        State.INTERRUPTING,
        (
            Timer("grace", seconds("grace_s"), Trigger.GRACE_EXCEEDED),
            # It is due first where a session may take less time than its grace.
            Timer("session", seconds("session_timeout_s"), Trigger.SESSION_TIMEOUT),
        ),
        outcomes=(Trigger.SESSION_SUCCEEDED, Trigger.SESSION_ERROR),
        crash=Trigger.SESSION_ERROR,
        holds=its_name,
    ),
    Waiting(
        State.SESSION_COMPLETE,
        (Timer("next", next_ms, effect=MAIL_CHECK),),
        shown="between sessions",
        offers=MAIL_CHECK,
        holds=its_name,
    ),
    Waiting(
        State.COOLING_DOWN,
        (Timer("backoff", cooling_ms, Trigger.BACKOFF_ELAPSED),),
        shown="pausing after an error",
        holds=its_name,
    ),
    Terminal(State.STOPPED, cleanup=AGENT_CLEANUP, meaning=Meaning.ENDED),
)
LIVE = tuple(stage.state for stage in STAGES[:-1])
