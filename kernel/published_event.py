"""An event of the log in its published shape, for audit, replay and metrics; it never stores one.

The log keeps the `Event` of kernel/event.py: that stays the one source, and this is derived from
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.reason import AbortReason, TransitionReason

R = TransitionReason


class Actor(StrEnum):
    """Who fires triggers. A person or producer with a name is `person:<name>`, and no member."""

    PERSON = auto()  # who gave no name
    PRODUCER = auto()
    CLI = auto()
    INTAKE = auto()
    DEMO = auto()
    # Sweeps.
    ORPHANS = auto()
    STALLS = auto()
    # Effects, and what acts under their names: a keeper is an agent and its supervision.
    ABORT = auto()
    AFTERMATH = auto()
    AGENT = auto()
    APPROVAL = auto()
    ASSIGNMENT = auto()
    CASCADE = auto()
    CLEANUP = auto()
    CLEARANCE = auto()
    CONDUCTOR = auto()
    DRAIN = auto()
    EVENTS = auto()
    EXECUTION = auto()
    INFERENCE = auto()
    MANIFEST = auto()
    MERGE = auto()
    PROMPT = auto()
    REAPING = auto()
    RECOVERY = auto()
    REGISTRATION = auto()
    RESOLUTION = auto()
    RETIREMENT = auto()
    REVIEWER = auto()
    SCHEDULING = auto()
    SESSION = auto()
    SPAWN = auto()
    STEP = auto()
    SUPERVISION = auto()
    TELL = auto()
    TENDING = auto()
    VACANCY = auto()
    VERIFICATION = auto()
    WORKER = auto()
    WORKTREE = auto()


NAMED = "person:"
OUTSIDE = frozenset({Actor.PERSON, Actor.PRODUCER, Actor.CLI, Actor.INTAKE, Actor.DEMO})
PARTS = frozenset(Actor) - OUTSIDE


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """One accepted transition. `timestamp` is in Unix seconds, `from_status` '' at a birth.

    The last two are ours: which event of its record it is, and what was fired.
    """

    timestamp: float
    entity_type: str
    entity_id: str
    from_status: str
    to_status: str
    actor: str
    reason: str
    transition_reason: TransitionReason | None
    abort_reason: AbortReason | None
    version: int
    trigger: str


# Why a row was followed, where its payload names neither reason nor abort: when a part of ours
# fired it, and when a person or a producer did. A new row of a task, an agent or a turn needs its
# line here.
# fmt: off
REASONS: Mapping[tuple[str, str, str], tuple[R | None, R | None]] = {
    ("task",  "approved",              "open"):                 (None,               None),
    ("task",  "approved",              "done"):                 (None,               None),
    ("task",  "rejected",              "cancelled"):            (R.ABORTED,          R.ABORTED),
    ("task",  "rejected",              "failed"):               (R.ABORTED,          R.ABORTED),
    ("task",  "claimed",               "claimed"):              (None,               None),
    ("task",  "started",               "in_progress"):          (None,               None),
    ("task",  "completed",             "done"):                 (R.COMPLETED,        R.COMPLETED),
    ("task",  "failed",                "failed"):               (None,               None),
    ("task",  "blocked",               "blocked"):              (None,               None),
    ("task",  "starved",               "blocked"):              (None,               None),
    ("task",  "unblocked",             "open"):                 (None,               None),
    ("task",  "split",                 "waiting_for_subtasks"): (None,               None),
    ("task",  "child_cancelled",       "in_progress"):          (None,               None),
    ("task",  "released",              "open"):                 (None,               R.ABORTED),
    ("task",  "released",              "failed"):               (None,               R.ABORTED),
    ("task",  "requeued",              "open"):                 (R.ORPHAN_RECOVERED, R.ABORTED),
    ("task",  "requeued",              "failed"):               (None,               None),
    ("task",  "cancelled",             "cancelled"):            (R.ABORTED,          R.ABORTED),
    ("task",  "orphaned",              "orphaned"):             (None,               None),
    ("task",  "recovered",             "done"):                 (R.ORPHAN_RECOVERED, None),
    ("task",  "unrecoverable",         "failed"):               (None,               None),
    ("task",  "subtasks_ended",        "done"):                 (R.COMPLETED,        R.COMPLETED),
    ("task",  "subtasks_ended",        "blocked"):              (None,               None),
    ("task",  "timeout",               "blocked"):              (None,               None),
    ("task",  "retried",               "open"):                 (R.RETRY,            R.RETRY),
    ("task",  "merge_begun",           "done"):                 (None,               None),
    ("task",  "verified",              "done"):                 (R.COMPLETED,        R.COMPLETED),
    ("task",  "verified",              "pending_approval"):     (R.COMPLETED,        R.COMPLETED),
    ("task",  "verification_rejected", "failed"):               (None,               None),
    ("task",  "merged",                "closed"):               (R.COMPLETED,        R.COMPLETED),
    ("task",  "stage_failed",          "failed"):               (R.ABORTED,          R.ABORTED),
    ("agent", "confirmed_alive",       "working"):              (None,               None),
    ("agent", "spawn_failed",          "dead"):                 (R.ABORTED,          R.ABORTED),
    ("agent", "task_finished",         "idle"):                 (R.COMPLETED,        R.COMPLETED),
    ("agent", "task_assigned",         "working"):              (None,               None),
    ("agent", "abort_raised",          "working"):              (R.ABORTED,          R.ABORTED),
    ("agent", "ended",                 "dead"):                 (R.ABORTED,          R.ABORTED),
    ("agent", "recycled",              "dead"):                 (R.COMPLETED,        R.COMPLETED),
    ("turn",  "task_claimed",          "claiming"):             (None,               None),
    ("turn",  "agent_spawned",         "spawning"):             (None,               None),
    ("turn",  "agent_spawned",         "running"):              (None,               None),
    ("turn",  "tool_started",          "tool_use"):             (None,               None),
    ("turn",  "tool_completed",        "running"):              (None,               None),
    ("turn",  "compact_needed",        "compacting"):           (None,               None),
    ("turn",  "compact_needed",        "running"):              (None,               None),
    ("turn",  "verify_requested",      "verifying"):            (None,               None),
    ("turn",  "verify_requested",      "running"):              (None,               None),
    ("turn",  "task_completed",        "completing"):           (R.COMPLETED,        R.COMPLETED),
    ("turn",  "task_failed",           "failed"):               (None,               None),
    ("turn",  "agent_reaped",          "reaped"):               (None,               None),
}
# fmt: on
NEITHER = (None, None)

# What an abort means where nobody named the reason for the transition as well.
OF_ABORT: Mapping[AbortReason, TransitionReason] = dict.fromkeys(AbortReason, R.ABORTED) | {
    AbortReason.PERMISSION_DENIED: R.PERMISSION_DENIED,
    AbortReason.SIBLING_ABORTED: R.SIBLING_ABORTED,
    AbortReason.COMPACT_FAILURE: R.COMPACTION_FAILED,
}
# Recovery says what it meant to do, an agent what it likes: where the record went tells more.
ENDS_WELL = frozenset({R.COMPLETED, R.RETRY, R.ORPHAN_RECOVERED})
CONTRADICTED: Mapping[str, frozenset[R]] = {"failed": ENDS_WELL, "cancelled": ENDS_WELL}

_TRANSITION_REASONS: Mapping[str, TransitionReason] = {str(one): one for one in TransitionReason}
_ABORT_REASONS: Mapping[str, AbortReason] = {str(one): one for one in AbortReason}
_ACTORS = frozenset(str(one) for one in Actor)


def exported(event: Event, machine_name: str) -> LifecycleEvent:
    """Return an event of the log, of a record of this machine, in its published shape."""
    actor = actor_of(event.cause.actor)
    abort = _ABORT_REASONS.get(_text(event.payload, "abort"))
    return LifecycleEvent(
        timestamp=event.at_ms / 1_000,
        entity_type=machine_name,
        entity_id=event.record_id,
        from_status=event.source,
        to_status=event.target,
        actor=actor,
        reason=_reason(event),
        transition_reason=_transition_reason(event, machine_name, actor, abort),
        abort_reason=abort,
        version=event.version,
        trigger=event.trigger,
    )


def actor_of(name: str) -> str:
    """Return who that is: a member of the closed list, or a person's name marked as one."""
    if name in _ACTORS or name.startswith(NAMED):
        return name
    return f"{NAMED}{name}" if name else Actor.PERSON


def _transition_reason(
    event: Event, machine_name: str, actor: str, abort: AbortReason | None
) -> TransitionReason | None:
    said = _TRANSITION_REASONS.get(_text(event.payload, "why"))
    if said is not None and said not in CONTRADICTED.get(event.target, ()):
        return said
    if abort is not None:
        return OF_ABORT[abort]
    by_part, by_person = REASONS.get((machine_name, event.trigger, event.target), NEITHER)
    return by_part if actor in PARTS else by_person


def _reason(event: Event) -> str:
    """Return the words of whoever fired it, the closest to the matter first."""
    told = (_text(event.payload, name) for name in ("detail", "summary"))
    return next(filter(None, (_text(event.payload, "reason"), event.cause.reason, *told)), "")


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
