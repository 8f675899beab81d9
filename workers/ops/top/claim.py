"""One claim of a task as an operator sees it: how it looks, what is done, what was said. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.kernel.event import Event, Note
from interlock.kernel.machines.tasks.visual_state import Thresholds, VisualState, classify
from interlock.kernel.reason import AbortReason
from interlock.kernel.record import Entry, Record
from interlock.workers.tasks.claim_names import ClaimNames

LeaseMs = Callable[[str, str], int]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with the records that tell of it; logs are newest first.

    `present` says that the task is about this very claim. One of task and agent is there.
    """

    place: ClaimNames
    task: Record | None = None
    agent: Record | None = None
    turn: Record | None = None
    present: bool = False
    task_log: Sequence[Event | Note] = ()
    agent_log: Sequence[Event | Note] = ()

    @property
    def delivered(self) -> bool:
        """Whether its agent has done its part, and others judge and merge it."""
        return self.present and self.task is not None and self.task.state == "done"


@dataclass(frozen=True, slots=True)
class Line:
    """What is shown of a claim. Ages are seconds; None is what nobody told."""

    look: VisualState
    agent: str
    agent_id: str
    role: str
    task: str
    number: int
    state: str
    doing: str
    age_s: float
    heartbeat_age_s: float | None
    retries: int
    tokens: int | None
    spent_micro: int | None
    said: str
    host: str
    pid: int | None
    containment: str


def line_of(claim: Claim, now_ms: int, thresholds: Thresholds, lease_ms: LeaseMs) -> Line:
    """Return what is shown of a claim; `lease_ms` tells the lease of a machine's effect."""
    task, agent, turn = claim.task, claim.agent, claim.turn
    about = task.data if task else {}
    known = agent.data if agent else {}
    counters = agent.counters if agent else {}
    spoken = [counters[name] for name in ("tokens_in", "tokens_out") if name in counters]
    beat_ms = _beat_ms(claim, lease_ms)
    begun = turn or agent  # a session's agent is older than its claim
    begun_ms = begun.created_ms if begun else task.since_ms if task else now_ms
    return Line(
        look=_look(claim, now_ms, beat_ms, thresholds),
        agent=_one_line(known.get("name") or (about.get("claim") or {}).get("owner") or "?"),
        agent_id=agent.id if agent else "",
        role=_one_line(known.get("role") or about.get("role")),
        task=claim.place.task,
        number=claim.place.number,
        state=task.state if task else "",
        doing=_one_line(_activity(claim) or (turn.state if turn else "")),
        age_s=_age_s(now_ms, begun_ms),
        heartbeat_age_s=None if beat_ms is None else _age_s(now_ms, beat_ms),
        retries=int(about.get("retries", 0)),
        tokens=sum(spoken) if spoken else None,
        spent_micro=counters.get("spent"),
        said=_said(claim),
        host=_one_line(known.get("host")),
        pid=known.get("pid"),
        containment=_one_line(known.get("containment")),
    )


def _look(claim: Claim, now_ms: int, beat_ms: int | None, thresholds: Thresholds) -> VisualState:
    task, agent = claim.task, claim.agent
    heard_s = None if beat_ms is None else _age_s(now_ms, beat_ms)
    if claim.delivered:
        # Its process has ended, or is at its next task, but the work on this one goes on: that is
        # what a look is for. Who judges and merges beats in the agent's place.
        state, born_ms, has_pid = "working", now_ms, False
    elif agent is not None:
        state, born_ms = agent.state, agent.created_ms
        has_pid = agent.data.get("pid") is not None
    else:
        assert task is not None, "a claim has a task or an agent"
        # Between a claim and its agent's record, ours is being set up. Who works for others has no
        # record of an agent at all, and was at work when it claimed.
        state, born_ms = ("starting" if task.data.get("agent") else "working"), task.since_ms
        has_pid = False
    return classify(
        state,
        activity=_activity(claim),
        spawn_age_s=_age_s(now_ms, born_ms),
        heartbeat_age_s=heard_s,
        has_pid=has_pid,
        thresholds=thresholds,
    )


def _beat_ms(claim: Claim, lease_ms: LeaseMs) -> int | None:
    """Return when somebody last showed that the work goes on; a renewal sets the lease anew."""
    task = claim.task
    if claim.delivered:
        assert task is not None, "what is delivered is a task's"
        # To come here was a sign of life as well: its judges may be busy with others.
        return max(task.since_ms, _renewed_ms(task, lease_ms) or 0)
    if claim.agent is not None:
        return _renewed_ms(claim.agent, lease_ms)
    return _renewed_ms(task, lease_ms) if task else None


def _renewed_ms(record: Record, lease_ms: LeaseMs) -> int | None:
    held = [entry for entry in record.entries if _is_held(entry)]
    return max(
        (entry.lease_until - lease_ms(record.machine, entry.name) for entry in held), default=None
    )


def _is_held(entry: Entry) -> bool:
    # Who gives a lease back ends it at that moment, grace and all: that is no heartbeat.
    lapsed = entry.state == "lapsed" and entry.kill_by > entry.lease_until
    return lapsed or entry.state in ("leased", "draining")


def _activity(claim: Claim) -> str | None:
    """Return what is done with the work in the task's present state, as its log has it last."""
    if not claim.present:
        return None
    told = (note.detail.get("word") for note in _since_event(claim.task_log, "activity"))
    return next((str(word) for word in told if word), None)


def _said(claim: Claim) -> str:
    """Return the last words: of what holds the work up, of how the agent ended, or its own."""
    if claim.delivered:
        failures = _since_event(claim.task_log, "effect_failed")
        return next((_one_line(note.detail.get("detail")) for note in failures), "")
    agent = claim.agent
    if agent is not None and agent.state == "dead":
        return _ended(agent.data.get("end") or {})
    for note in claim.agent_log:
        if isinstance(note, Note) and note.kind == "said":
            percent = note.detail.get("percent")
            words = _one_line(note.detail.get("message"))
            return words if percent is None else f"{percent} % {words}"
    return ""


def _ended(end: Mapping[str, Any]) -> str:
    if end.get("reason"):
        return _one_line(end["reason"])
    known = [end["abort"]] if end.get("abort") not in (None, AbortReason.UNKNOWN) else []
    code = end.get("exit_code")
    return _one_line(", ".join([*known, *([f"exit code {code}"] if code is not None else [])]))


def _since_event(log: Sequence[Event | Note], kind: str) -> Iterator[Note]:
    """Yield the notes of a kind since the last transition, newest first: older ones are over."""
    for line in log:
        if isinstance(line, Event):
            return
        if line.kind == kind:
            yield line


def _one_line(text: object) -> str:
    """Return a text without line breaks, and without what a terminal would obey."""
    plain = (letter if letter.isprintable() else " " for letter in str(text or ""))
    return " ".join("".join(plain).split())


def _age_s(now_ms: int, since_ms: int) -> float:
    return max(now_ms - since_ms, 0) / 1_000
