"""Makes the row of one claim of a task, which `interlock top` and the console show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock import Event, Note
from interlock.system.tables import AbortReason, Record
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.visual_state import Thresholds, VisualState, classify

LeaseMs = Callable[[str, str], int]


def age_s(now_ms: int, since_ms: int) -> float:
    """Return how long ago a time was, in seconds."""
    return max(now_ms - since_ms, 0) / 1_000


@dataclass(frozen=True, slots=True)
class ClaimRecords:
    """A claim, and the records of its task, agent and turn. Logs are newest first.

    `present` means that this is the task's current claim. There is a task or an agent, or both.
    """

    names: ClaimNames
    task: Record[TaskData] | None = None
    agent: Record[AgentData] | None = None
    turn: Record | None = None
    present: bool = False
    task_log: Sequence[Event | Note] = ()
    agent_log: Sequence[Event | Note] = ()

    @property
    def delivered(self) -> bool:
        """Whether the agent has delivered its work, which is now verified and merged."""
        return self.present and self.task is not None and self.task.state == State.DONE


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """The fields of a claim that are shown. Ages are in seconds; None means not known.

    `silent_s` is how long ago the agent last printed or reported something, `left_s` how much time
    is left until the task's deadline. `succeeded` says that the agent has ended, and ended well.
    """

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
    silent_s: float | None
    left_s: float | None
    retries: int
    tokens: int | None
    spent_micro: int | None
    said: str
    host: str
    pid: int | None
    containment: str
    succeeded: bool = False


def row_of(claim: ClaimRecords, now_ms: int, thresholds: Thresholds, lease_ms: LeaseMs) -> ClaimRow:
    """Return the row of a claim. `lease_ms` returns the length of an effect's lease."""
    task, agent, turn = claim.task, claim.agent, claim.turn
    counters = agent.counters if agent else {}
    token_counts = [counters[name] for name in ("tokens_in", "tokens_out") if name in counters]
    beat_ms = _beat_ms(claim, lease_ms)
    started = turn or agent  # the agent of a session is older than its claim
    started_ms = started.created_ms if started else task.since_ms if task else now_ms
    return ClaimRow(
        look=_look(claim, now_ms, beat_ms, thresholds),
        agent=_one_line(agent.data["name"] if agent else _owner(task)),
        agent_id=agent.id if agent else "",
        role=_one_line(agent.data["role"] if agent else task.data["role"] if task else ""),
        task=claim.names.task,
        number=claim.names.number,
        state=task.state if task else "",
        doing=_doing(claim),
        age_s=age_s(now_ms, started_ms),
        heartbeat_age_s=None if beat_ms is None else age_s(now_ms, beat_ms),
        silent_s=_silent_s(claim, now_ms),
        left_s=_left_s(claim, now_ms),
        retries=task.data["retries"] if task else 0,
        tokens=sum(token_counts) if token_counts else None,
        spent_micro=counters.get("spent"),
        said=_last_message(claim),
        host=_one_line(agent.data.get("host") if agent else ""),
        pid=agent.data.get("pid") if agent else None,
        containment=_one_line(agent.data.get("containment") if agent else ""),
        succeeded=_has_succeeded(agent),
    )


def _owner(task: Record[TaskData] | None) -> str:
    """Return who has claimed a task that has no agent of Interlock."""
    return task.data.get("claim", {}).get("owner", "?") if task else "?"


def _doing(claim: ClaimRecords) -> str:
    """Return what is done with the task now; nothing is while a person is asked."""
    if claim.task is not None and claim.task.state == State.PENDING_APPROVAL:
        return "asks you"
    if claim.task is not None and claim.agent is None and _is_unstarted(claim.task):
        return "not started"
    return _one_line(_activity(claim) or (claim.turn.state if claim.turn else ""))


def _is_unstarted(task: Record[TaskData]) -> bool:
    """Whether an external agent has claimed a task and has not reported that it works on it."""
    return task.state == State.CLAIMED and not task.data.get("agent")


def _has_succeeded(agent: Record[AgentData] | None) -> bool:
    if agent is None or agent.state != AgentState.DEAD:
        return False
    end = agent.data.get("end") or {}
    return not (end.get("exit_code") or end.get("abort") or end.get("code"))


def _look(
    claim: ClaimRecords, now_ms: int, beat_ms: int | None, thresholds: Thresholds
) -> VisualState:
    task, agent = claim.task, claim.agent
    heartbeat_s = None if beat_ms is None else age_s(now_ms, beat_ms)
    if claim.delivered:
        # The agent's process has ended or has its next task, while this task is being verified and
        # merged. The heartbeat is that of the effects that do so.
        state, created_ms, has_pid = str(AgentState.WORKING), now_ms, False
    elif agent is not None:
        state, created_ms = agent.state, agent.created_ms
        has_pid = agent.data.get("pid") is not None
    else:
        assert task is not None, "a claim has a task or an agent"
        # A task that names an agent is claimed before the agent's record exists: it is starting.
        # An external agent has no record of its own: it starts until it reports that it works. It
        # may take its time, since the claim is released when it stops renewing the lease.
        starting = bool(task.data.get("agent")) or _is_unstarted(task)
        state = AgentState.STARTING if starting else AgentState.WORKING
        created_ms = now_ms if _is_unstarted(task) else task.since_ms
        has_pid = False
    return classify(
        state,
        activity=_activity(claim),
        spawn_age_s=age_s(now_ms, created_ms),
        heartbeat_age_s=heartbeat_s,
        has_pid=has_pid,
        thresholds=thresholds,
    )


def _beat_ms(claim: ClaimRecords, lease_ms: LeaseMs) -> int | None:
    """Return the time of the last heartbeat, computed from the end of the lease that it renewed."""
    task = claim.task
    if claim.delivered:
        assert task is not None, "only a task can be delivered"
        # The delivery counts as a heartbeat too: the workers may verify other tasks first.
        return max(task.since_ms, _renewed_ms(task, lease_ms) or 0)
    if claim.agent is not None:
        return _renewed_ms(claim.agent, lease_ms)
    return _renewed_ms(task, lease_ms) if task else None


def _renewed_ms(record: Record, lease_ms: LeaseMs) -> int | None:
    # A lease that was given back has no grace, and its end tells no time of a heartbeat.
    held = [
        entry
        for entry in record.entries
        if entry.state in ("leased", "draining")
        or (entry.state == "lapsed" and entry.kill_by > entry.lease_until)
    ]
    return max(
        (entry.lease_until - lease_ms(record.machine, entry.name) for entry in held), default=None
    )


def _silent_s(claim: ClaimRecords, now_ms: int) -> float | None:
    """Return how long the agent has been silent, computed from the limit of its silence."""
    agent = claim.agent
    due_ms = None if claim.delivered or agent is None else _due_ms(agent, "progress")
    if agent is None or due_ms is None:
        return None
    return age_s(now_ms, due_ms - int(agent.data["progress_limit_s"]) * 1_000)


def _left_s(claim: ClaimRecords, now_ms: int) -> float | None:
    due_ms = _due_ms(claim.task, "deadline") if claim.present and claim.task else None
    return None if due_ms is None else age_s(due_ms, now_ms)


def _due_ms(record: Record, name: str) -> int | None:
    """Return when a timer of a record is due; None while the record is paused."""
    due = (timer.due_at for timer in record.timers if timer.name == name and not record.paused)
    return next(due, None)


def _activity(claim: ClaimRecords) -> str | None:
    """Return the last activity that the task's log has since its last transition."""
    if not claim.present:
        return None
    notes = (note for note in _since_event(claim.task_log) if note.kind == "activity")
    found = (note.detail.get("doing") for note in notes)
    return next((str(activity) for activity in found if activity), None)


def _last_message(claim: ClaimRecords) -> str:
    """Return the last error of a delivered task, the end of a dead agent, or its last report."""
    if claim.delivered:
        failures = (note for note in _since_event(claim.task_log) if note.is_failed_attempt)
        return next((_one_line(note.detail.get("detail")) for note in failures), "")
    agent = claim.agent
    if agent is not None and agent.state == AgentState.DEAD:
        return _end_of(agent.data.get("end") or {})
    for note in claim.agent_log:
        if isinstance(note, Note) and note.kind == "report_refused":
            return f"a report of it was refused: {_one_line(note.detail.get('reason'))}"
        if isinstance(note, Note) and note.kind == "progress":
            percent = note.detail.get("percent")
            message = _one_line(note.detail.get("message"))
            return message if percent is None else f"{percent} % {message}"
    return ""


def _end_of(end: Mapping[str, Any]) -> str:
    if end.get("reason"):
        return _one_line(end["reason"])
    parts = [end["abort"]] if end.get("abort") not in (None, AbortReason.UNKNOWN) else []
    code = end.get("exit_code")
    return _one_line(", ".join([*parts, *([f"exit code {code}"] if code is not None else [])]))


def _since_event(log: Sequence[Event | Note]) -> Iterator[Note]:
    """Yield the notes since the last transition, newest first."""
    for line in log:
        if isinstance(line, Event):
            return
        yield line


def _one_line(text: object) -> str:
    """Return a text as one line, without control characters."""
    printable = (char if char.isprintable() else " " for char in str(text or ""))
    return " ".join("".join(printable).split())
