"""What `interlock show` says of a task: where its work is, who does it, and what comes next."""

from __future__ import annotations

from interlock import Client
from interlock.system.tables import Record
from interlock.system.text import age, duration
from interlock.systems.tasks.claim_names import CLAIM_STATES, ClaimNames
from interlock.systems.tasks.claim_sandbox import level_text
from interlock.systems.tasks.left_work import left_work
from interlock.systems.tasks.machines.task.changes import awaited
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.task.questions import counts_text
from interlock.systems.tasks.machines.task.stages import deadline, subtasks_limit
from interlock.systems.tasks.next_try import next_try_s
from interlock.systems.tasks.waits import Waits

COMMIT_LENGTH = 12  # characters of the id of a commit that are shown
ANYONE = "anyone who claims it"


def details(client: Client, record: Record[TaskData]) -> dict[str, str]:
    """Return what is shown of a task, by its name. What a task does not have is left out."""
    data, now_ms = record.data, client.now_ms()
    rows = {
        "title": data["title"],
        "repository": _repository(data),
        "branch": _branch(record),
        "role": data["role"] if data["role"] != "any" else "",
        "agent": data.get("agent") or _owner(data),
        "sandbox": level_text(data.get("claim")),
        "output": f"interlock task logs {record.id}" if _has_output(data) else "",
        "verify": "; ".join(f"{each['type']} {each['value']}" for each in data["signals"]),
        "owns": ", ".join(data["owned_files"]),
        "after": ", ".join(awaited(data)),
        "deadline": _deadline(record, now_ms),
        "subtasks": _subtasks(record, now_ms),
        "retries": _retries(record, now_ms),
        "changes": counts_text(data["changes"]) if data.get("changes") else "",
        "merged": str(data.get("merged") or "")[:COMMIT_LENGTH],
        "summary": data.get("summary", ""),
        "left": "\n".join(left.sentence for left in left_work(client.records, record)),
        "why": Waits(client.records, [record]).why(record),
        "reason": data.get("reason", ""),
    }
    return {name: str(text) for name, text in rows.items() if text}


def _repository(data: TaskData) -> str:
    if not data.get("repo"):
        return ""
    into = f"{data['repo']}, merged into {data['target']}"
    return f"{into}, then pushed to {data['push']}" if data.get("push") else into


def _branch(record: Record[TaskData]) -> str:
    """Return the branch of the current claim, whose agent works on it or has worked on it."""
    claim = record.data.get("claim")
    if not claim or not record.data.get("repo") or record.state not in CLAIM_STATES:
        return ""
    return ClaimNames(record.id, int(claim["number"])).branch


def _owner(data: TaskData) -> str:
    claim = data.get("claim")
    return f"{claim['owner']}, who claimed it" if claim else data.get("kept_for") or ANYONE


def _has_output(data: TaskData) -> bool:
    return bool(data.get("agent")) and int(data["claimed"]) > 0


def _deadline(record: Record[TaskData], now_ms: int) -> str:
    """Return how long a try may take and why, and how much of that is left."""
    data, claim = record.data, record.data.get("claim", {})
    if not (data.get("deadline_s") or claim):
        return ""
    reasons = "; ".join(claim.get("deadline_reasons", ()))
    why = f" ({reasons})" if reasons else ""
    whose = "for each try" if data.get("deadline_s") else f"for this try{why}"
    return f"{duration(deadline(data) or 0)} {whose}{_left(record, 'deadline', now_ms)}"


def _subtasks(record: Record[TaskData], now_ms: int) -> str:
    """Return how many subtasks a task waits for, and how long it does before a person is asked."""
    if record.state != State.WAITING_FOR_SUBTASKS:
        return ""
    number = len(record.data["children"])
    limit = duration(subtasks_limit(record.data) or 0)
    return f"{number}, which may take {limit}{_left(record, 'wait', now_ms)}"


def _left(record: Record[TaskData], timer_name: str, now_ms: int) -> str:
    """Return how much time is left before a timer of a record is due, with a semicolon before."""
    due = (timer.due_at for timer in record.timers if timer.name == timer_name)
    due_ms = None if record.paused else next(due, None)
    return "" if due_ms is None else f"; {age(due_ms - now_ms)} left"


def _retries(record: Record[TaskData], now_ms: int) -> str:
    """Return how many retries are used, and when the next try begins."""
    data = record.data
    used = f"{data['retries']} of {data['max_retries']} used"
    in_s = next_try_s(record, now_ms)
    crashes = f"; agents lost: {data['crashes']}" if data["crashes"] else ""
    return used + crashes + (f"; next try in {age(in_s * 1_000)}" if in_s is not None else "")
