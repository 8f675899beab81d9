"""How an agent is shown to an operator, by its state, its age and its heartbeat. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from interlock.system.errors import InvalidPayloadError


class VisualState(StrEnum):
    """The 7 published classifications."""

    SPAWNING = auto()
    RUNNING = auto()
    STALLED = auto()
    MERGING = auto()
    DEAD = auto()
    IDLE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Appearance:
    """The character that shows a visual state, and the published name of its colour."""

    symbol: str
    colour: str


# fmt: off
APPEARANCES: Mapping[VisualState, Appearance] = {
    VisualState.SPAWNING: Appearance("◔", "yellow"),
    VisualState.RUNNING:  Appearance("●", "green"),
    VisualState.STALLED:  Appearance("◐", "dark_orange"),
    VisualState.MERGING:  Appearance("⇄", "blue"),
    VisualState.DEAD:     Appearance("○", "red"),
    VisualState.IDLE:     Appearance("□", "gray"),
    VisualState.UNKNOWN:  Appearance("◌", "dim"),
}
# fmt: on

# The four states of the agent machine, and the other status words of the published page.
_STARTING = frozenset({"starting"})
_WORKING = frozenset({"working", "in_progress", "running"})
_IDLE = frozenset({"idle", "waiting", "paused"})
_DEAD = frozenset({"dead", "done", "failed", "cancelled", "killed"})
_MERGING = frozenset({"committing", "merging", "pushing"})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """After how many seconds a silent agent is stalled, and a start is lost. Both are positive."""

    stall_s: float = 300
    spawn_s: float = 60

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}, it must be above 0"
            for name, value in (("stall_s", self.stall_s), ("spawn_s", self.spawn_s))
            if not value > 0  # a NaN is no threshold either
        ]
        if problems:
            raise InvalidPayloadError("the pair of thresholds", problems)


PUBLISHED = Thresholds()


def classify(
    state: str,
    *,
    activity: str | None,
    spawn_age_s: float,
    heartbeat_age_s: float | None,
    has_pid: bool,
    thresholds: Thresholds = PUBLISHED,
) -> VisualState:
    """Return how an agent in `state` is shown.

    `activity` is what is done with its work now: committing, merging, pushing, or anything else.
    `spawn_age_s` are the seconds since its spawn, `heartbeat_age_s` those since its last heartbeat,
    None before the first. `has_pid` says whether a process of the agent is known.
    """
    active = state in _STARTING or state in _WORKING
    if state in _DEAD or not (has_pid or active):
        return VisualState.DEAD
    if state in _IDLE:
        # The published rule has no condition: merging its last task does not make an agent busy.
        return VisualState.IDLE
    if state in _STARTING:
        # With and without a pid: a spawn that never got a process is lost after the same time.
        lost = spawn_age_s >= thresholds.spawn_s
        return VisualState.DEAD if lost else VisualState.SPAWNING
    if state in _WORKING:
        if activity in _MERGING:
            # Asked before the stall: a worker merges, under limits of its own; the agent is silent.
            return VisualState.MERGING
        silent_s = _silent_s(spawn_age_s, heartbeat_age_s, has_pid=has_pid)
        if silent_s is not None:
            stalled = silent_s >= thresholds.stall_s
            return VisualState.STALLED if stalled else VisualState.RUNNING
    return VisualState.UNKNOWN


def _silent_s(spawn_age_s: float, heartbeat_age_s: float | None, *, has_pid: bool) -> float | None:
    if heartbeat_age_s is not None:
        # The published rule needs a pid. Ours does not: an agent outside of our supervision has
        # none, and its heartbeat shows whether it lives.
        return heartbeat_age_s
    # An agent that hangs before its first heartbeat has been silent since its spawn. With neither
    # heartbeat nor process nothing shows that there is an agent.
    return spawn_age_s if has_pid else None
