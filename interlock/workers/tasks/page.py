"""The page of coding tasks in the console: who works on what, what waits, what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock.kernel.errors import CallError
from interlock.kernel.event import Note
from interlock.kernel.machines.tasks.visual_state import APPEARANCES
from interlock.kernel.record import Record, root_of
from interlock.workers.client import Client
from interlock.workers.engine.work_sandbox import level_text
from interlock.workers.supervision.agent_output import agent_output
from interlock.workers.supervision.record_diffs import look_at_diff, shown_diff
from interlock.workers.tasks.agents import identity_row
from interlock.workers.tasks.claim_names import agent_of
from interlock.workers.tasks.claim_row import ClaimRow
from interlock.workers.tasks.client import Tasks
from interlock.workers.tasks.failed import FailedTask, FailedTasks
from interlock.workers.tasks.output_source import output_source
from interlock.workers.tasks.overview import TasksReader
from interlock.workers.tasks.screen import failure_codes
from interlock.workers.tasks.starved import find_starved
from interlock.workers.tasks.task_diff import SOURCE
from interlock.workers.terminal.page import (
    Button,
    Cell,
    PageAct,
    Part,
    Query,
    RecordLink,
    Section,
    Sentence,
    Since,
    SlowSection,
    StateName,
    SystemPage,
    Table,
    Until,
    ViewLink,
)
from interlock.workers.terminal.screen import short
from interlock.workers.text import dollars

SHOWN_MAX = 20
IDENTITIES_MAX = 50
TASKS_MAX = 200
LINES_MAX = 40
NOTES_READ = 200


def view(client: Client, query: Query) -> list[Section | SlowSection]:
    """Return the work of all backlogs, that of one `backlog`, or the `diff` of one task."""
    if task := query.get("diff"):
        return [_diff(client, task)]
    backlog = query.get("backlog", "")
    tasks = Tasks(client).of(backlog) if backlog else []  # refuses an unknown name
    found = TasksReader(client, backlog=backlog).read()
    return [
        Section("Claims", _claims(found.lines, found.more, found.at_ms)),
        SlowSection("starved", lambda: _starved(client, backlog)),
        *([_tasks(tasks, found.at_ms)] if backlog else []),
        _failed(client, backlog),
        _trust(client, backlog),
    ]


def panel(client: Client, record: Record) -> list[Section]:
    """Return the signals of a task with what was found, and the output of its agent."""
    signals = _signals(record)
    links: list[Part] = [
        Sentence(ViewLink("All tasks of its backlog", {"backlog": root_of(record.id)}))
    ]
    if record.data.get("repo") and record.data["claimed"]:
        links.insert(0, Sentence(ViewLink("The diff of its work", {"diff": record.id})))
    parts = [*links, *signals, *_owner(client, record)]
    return [Section("Work", parts), *_output(client, record)]


def replay(client: Client, fields: Query) -> RecordLink:
    """Open a failed task again, as `interlock task replay` does."""
    task = fields.get("task", "")
    result = FailedTasks(client).replay([task])[0]
    if not result.replayed:
        raise CallError(f"{task} was not replayed: {result.reason}")
    return RecordLink(task)


def _claims(rows: Iterable[ClaimRow], more: int, now_ms: int) -> list[Part]:
    table = Table(
        (
            "Condition",
            "Agent",
            "Task",
            "State",
            "Does",
            "Claimed",
            "Heartbeat",
            "Deadline",
            "Cost",
            "Said",
        ),
        [_claim(row, now_ms) for row in rows],
        "No agent has a task. `interlock task submit` submits one.",
    )
    end = [Sentence(f"At least {more} more claims are not shown.", "soft")] if more else []
    return [table, *end]


def _claim(row: ClaimRow, now_ms: int) -> tuple[Cell, ...]:
    dead = "ended well" if row.succeeded else str(row.look)
    spent = "" if row.spent_micro is None else dollars(row.spent_micro)
    return (
        f"{APPEARANCES[row.look].symbol} {dead}",
        RecordLink(row.agent_id, row.agent) if row.agent_id else row.agent,
        RecordLink(row.task),
        StateName(row.state) if row.state else "",
        row.doing,
        Since(now_ms - round(row.age_s * 1_000)),
        "" if row.heartbeat_age_s is None else Since(now_ms - round(row.heartbeat_age_s * 1_000)),
        "" if row.left_s is None else Until(now_ms + round(row.left_s * 1_000)),
        spent,
        short(row.said),
    )


def _starved(client: Client, backlog: str) -> Section | None:
    found = find_starved(client.dispatch, backlog)
    rows = [
        (RecordLink(one.id), Since(found.at_ms - round(one.age_s * 1_000)), one.why)
        for one in found.tasks[:TASKS_MAX]
    ]
    parts: list[Part] = [Table(("Task", "Open for", "Why"), rows)] if rows else []
    if more := len(found.tasks) - len(rows):
        parts.append(Sentence(f"{more} more are starved.", "soft"))
    if found.is_partial:
        parts.append(Sentence("Not all open tasks were looked at.", "soft"))
    return Section("Starved: no agent will ever claim these", parts) if parts else None


def _tasks(tasks: Sequence[Mapping[str, Any]], now_ms: int) -> Section:
    rows = [
        (
            RecordLink(row["id"], row["title"]),
            StateName(row["state"]),
            f"{row['retries']} of {row['max_retries']}",
            "asks a person" if row["asks"] else _next(row["next_try_s"], now_ms),
            row["why"],
        )
        for row in tasks[:TASKS_MAX]
    ]
    return Section("Tasks", (Table(("Task", "State", "Retries", "Next", "Why"), rows),))


def _next(in_s: float | None, now_ms: int) -> Cell:
    return "" if in_s is None else Until(now_ms + round(in_s * 1_000), "tried again")


def _failed(client: Client, backlog: str) -> Section:
    found = FailedTasks(client).find(backlog or None, limit=SHOWN_MAX)
    rows = [_failed_row(one) for one in found]
    table = Table(("Task", "For", "Retries", "Why", "Codes", "Do"), rows, "No task has failed.")
    full = f"These are the {SHOWN_MAX} that failed first. `interlock task list-failed` has all."
    parts: list[Part] = [table]
    if len(found) >= SHOWN_MAX:
        parts.append(Sentence(full, "soft"))
    return Section("Failed tasks that are not tried again", parts)


def _failed_row(task: FailedTask) -> tuple[Cell, ...]:
    return (
        RecordLink(task.id, task.title),
        Since(round(task.since * 1_000)),
        f"{task.retries} of {task.max_retries}",
        task.reason or "no reason was given",
        failure_codes(task.as_data()),
        Button("replay", "Replay", {"task": task.id}),
    )


def _trust(client: Client, backlog: str) -> Section:
    prefix = f"{backlog}/" if backlog else ""
    listed = client.list(machine="identity", limit=IDENTITIES_MAX, id_prefix=prefix)
    dispatch = client.dispatch
    ids = (row.id for row in listed)
    records = dispatch.views.each_record(ids, readable_by=dispatch.machines)
    rows = [
        (
            RecordLink(row["id"], row["name"]),
            ViewLink(root_of(row["id"]), {"backlog": root_of(row["id"])}),
            row["role"],
            StateName(row["trust"]),
            row["successes"],
            row["failures"],
            row["violations"],
            ", ".join(row["may"]).replace("_", " "),
        )
        for row in map(identity_row, records)
    ]
    columns = ("Agent", "Backlog", "Role", "Trust", "Good", "Bad", "Violations", "May")
    return Section("Trust in agents", (Table(columns, rows, "No agent has claimed a task yet."),))


def _diff(client: Client, task: str) -> Section:
    record = client.show(task)
    if record.machine != "task":
        raise CallError(f"{task} is a {record.machine}, not a task")
    found = shown_diff(client.dispatch, record.id, look_at_diff(client.dispatch, record, SOURCE))
    parts = (Sentence(RecordLink(record.id, record.title)), found)
    return Section("Diff", parts, is_live=False)


def _signals(record: Record) -> Iterator[Part]:
    """Yield the conditions of finished work, each with what its last check found."""
    checked = {(one["type"], one["value"]): one for one in record.data.get("checked", ())}
    rows = [
        (each["type"].replace("_", " "), each["value"], *_result(checked, each))
        for each in record.data["signals"]
    ]
    if rows:
        yield Table(("Signal", "Value", "Result", "Evidence", "Took"), rows)


def _result(
    checked: Mapping[tuple[str, str], Mapping[str, object]], signal: Mapping[str, str]
) -> tuple[str, str, str]:
    found = checked.get((signal["type"], signal["value"]))
    if found is None:
        return ("not checked yet", "", "")
    sure = f", {found['confidence']} sure" if found.get("confidence") is not None else ""
    unsure = "; a person should look" if found.get("flagged") else ""
    result = "✓ passed" if found["passed"] else "✗ failed"
    return (f"{result}{sure}{unsure}", str(found["detail"]), f"{found.get('seconds', 0):.1f} s")


def _owner(client: Client, record: Record) -> Iterator[Part]:
    """Yield the trust in the agent that has the task, and its sandbox."""
    identity = str((record.data.get("claim") or {}).get("identity") or "")
    for found in client.dispatch.views.records([identity] if identity else []).values():
        row = identity_row(found)
        counts = f"{row['successes']} good, {row['failures']} bad, {row['violations']} violations"
        link, trust = RecordLink(row["id"], row["name"]), StateName(row["trust"])
        cells = (link, trust, counts, level_text(record.data.get("claim")))
        yield Table(("Its agent", "Trust", "So far", "Sandbox"), [cells])


def _output(client: Client, record: Record) -> Iterator[Section]:
    """Yield the end of an agent's output, and its last reports."""
    if not record.data.get("agent") or not record.data["claimed"]:
        return
    parts: list[Part] = [agent_output(client.dispatch, record.id, output_source(client, record))]
    agent = agent_of(record, int(record.data["claimed"]))
    log = client.dispatch.views.latest([agent], NOTES_READ)[agent]
    notes = [one for one in log if isinstance(one, Note) and one.kind == "progress"]
    rows = [(Since(one.at_ms), str(one.detail["message"])) for one in notes[:LINES_MAX]]
    if rows:
        parts.append(Table(("Age", "The agent reported"), rows))
    yield Section("Output of its agent", parts)


PAGE = SystemPage(
    title="Coding tasks",
    question="Who works on what?",
    machines=("task", "agent", "turn", "identity"),
    view=view,
    panels={"task": panel},
    acts={"replay": PageAct("operate", replay)},
)
