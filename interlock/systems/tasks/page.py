"""Coding tasks as people see them: who works on what, what waits, what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock import CallError, Client, Note
from interlock.system.pages import (
    Button,
    Link,
    LivePart,
    PageAct,
    Part,
    Section,
    Sentence,
    StateName,
    SystemPage,
    Table,
    Time,
    Verbatim,
)
from interlock.system.tables import Record, dollars, root_of
from interlock.system.text import LINE_LENGTH_MAX, duration, one_line
from interlock.systems.tasks.agents import identity_row
from interlock.systems.tasks.claim_names import agent_of
from interlock.systems.tasks.claim_row import ClaimRow
from interlock.systems.tasks.claim_sandbox import level_text
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.failed import FailedTask, FailedTasks
from interlock.systems.tasks.machines.task.data import SignalData, SignalResultData, TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.visual_state import APPEARANCES
from interlock.systems.tasks.overview import TasksReader
from interlock.systems.tasks.starved import find_starved

SHOWN_MAX = 20
REASON_LENGTH_MAX = 160
IDENTITIES_MAX = 50
TASKS_MAX = 200
LINES_MAX = 40
NOTES_READ = 200
STARVED = "Starved: no agent will ever claim these"
NO_IDENTITY = "No agent has claimed a task yet."
PATHS_SHOWN = 5
TRIES_SHOWN = 10
Row = Mapping[str, Any]


def view(client: Client, query: Mapping[str, str]) -> list[Section]:
    """Return the work of all backlogs, that of one `backlog`, or the `diff` of one task."""
    if task := query.get("diff"):
        return [_diff(client, task)]
    backlog = query.get("backlog", "")
    tasks = Tasks(client).of(backlog) if backlog else []  # refuses an unknown name
    found = TasksReader(client, backlog=backlog).read()
    return [
        Section("Claims", _claims(found.lines, found.more, found.at_ms)),
        Section(STARVED, read=lambda: _starved(client, backlog)),
        *([Section("Tasks", [table_of(tasks[:TASKS_MAX], found.at_ms)])] if backlog else []),
        _failed(client, backlog),
        _trust(client, backlog),
    ]


def panel(client: Client, record: Record[TaskData]) -> list[Section]:
    """Return the signals of a task with what was found, and the output of its agent."""
    signals = _signals(record)
    links: list[Part] = [Sentence(Link({"backlog": record.root}, "All tasks of its backlog"))]
    if record.data.get("repo") and record.data["claimed"]:
        links.insert(0, Sentence(Link({"diff": record.id}, "The diff of its work")))
    parts = [*links, *signals, *_owner(client, record)]
    return [Section("Work", parts), *_output(client, record)]


def replay(client: Client, fields: Mapping[str, str]) -> Link:
    """Open a failed task again, as `interlock task replay` does."""
    task = fields.get("task", "")
    result = FailedTasks(client).replay([task])[0]
    if not result.replayed:
        raise CallError(f"{task} was not replayed: {result.reason}")
    return Link(task)


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


def _claim(row: ClaimRow, now_ms: int) -> tuple[object, ...]:
    dead = "ended well" if row.succeeded else str(row.look)
    spent = "" if row.spent_micro is None else dollars(row.spent_micro)
    return (
        f"{APPEARANCES[row.look].symbol} {dead}",
        Link(row.agent_id, row.agent) if row.agent_id else row.agent,
        Link(row.task),
        StateName("task", row.state) if row.state else "",
        row.doing,
        Time(now_ms - round(row.age_s * 1_000)),
        "" if row.heartbeat_age_s is None else Time(now_ms - round(row.heartbeat_age_s * 1_000)),
        "" if row.left_s is None else Time(now_ms + round(row.left_s * 1_000), "left"),
        spent,
        one_line(row.said, length_max=LINE_LENGTH_MAX),
    )


def _starved(client: Client, backlog: str) -> list[Part]:
    found = find_starved(client.records, backlog)
    rows = [
        (Link(one.id), Time(found.at_ms - round(one.age_s * 1_000)), one.why)
        for one in found.tasks[:TASKS_MAX]
    ]
    parts: list[Part] = [Table(("Task", "Open for", "Why"), rows)] if rows else []
    if more := len(found.tasks) - len(rows):
        parts.append(Sentence(f"{more} more are starved.", "soft"))
    if found.is_partial:
        parts.append(Sentence("Not all open tasks were looked at.", "soft"))
    return parts


def table_of(tasks: Sequence[Row], now_ms: int) -> Table:
    """Return tasks with their states, the retries that are used, what comes next, and why."""
    rows = [
        (
            Link(row["id"], row["title"]),
            StateName("task", row["state"], asks=row["asks"]),
            f"{row['retries']} of {row['max_retries']}",
            Sentence("asks a person", "ask") if row["asks"] else _next(row["next_try_s"], now_ms),
            Sentence(row["why"], "bad") if row["state"] == State.FAILED else row["why"],
        )
        for row in tasks
    ]
    return Table(("Task", "State", "Retries", "Next", "Why"), rows)


def _next(in_s: float | None, now_ms: int) -> object:
    if in_s is None:
        return ""
    return Sentence(("tried again ", Time(now_ms + round(in_s * 1_000), "left")))


def _failed(client: Client, backlog: str) -> Section:
    found = FailedTasks(client).find(backlog or None, limit=SHOWN_MAX)
    rows = [_failed_row(one) for one in found]
    table = Table(("Task", "For", "Retries", "Why", "Codes", "Do"), rows, "No task has failed.")
    full = f"These are the {SHOWN_MAX} that failed first. `interlock task list-failed` has all."
    parts: list[Part] = [table]
    if len(found) >= SHOWN_MAX:
        parts.append(Sentence(full, "soft"))
    return Section("Failed tasks that are not tried again", parts)


def _failed_row(task: FailedTask) -> tuple[object, ...]:
    return (
        Link(task.id, task.title),
        Time(round(task.since * 1_000)),
        f"{task.retries} of {task.max_retries}",
        task.reason or "no reason was given",
        _codes(task.as_data()),
        Button("replay", "Replay", {"task": task.id}, task.replay),
    )


def _trust(client: Client, backlog: str) -> Section:
    prefix = f"{backlog}/" if backlog else ""
    listed = client.list(machine="identity", limit=IDENTITIES_MAX, id_prefix=prefix)
    ids = (row.id for row in listed)
    records = client.records.views.each_record(ids, readable_by=client.records.machines)
    rows = [
        (
            Link(row["id"], row["name"]),
            Link({"backlog": root_of(row["id"])}, root_of(row["id"])),
            row["role"],
            StateName("identity", row["trust"]),
            row["successes"],
            row["failures"],
            row["violations"],
            ", ".join(row["may"]).replace("_", " "),
        )
        for row in map(identity_row, records)
    ]
    columns = ("Agent", "Backlog", "Role", "Trust", "Good", "Bad", "Violations", "May")
    return Section("Trust in agents", (Table(columns, rows, NO_IDENTITY),))


def _who(row: Row) -> str:
    command = one_line(row["command"], length_max=LINE_LENGTH_MAX)
    return f"{row['name']} ({row['role']})  {command}"


def identities(rows: Iterable[Row]) -> Table:
    """Return the identities of one backlog: trust, what their tasks came to, and who they are."""
    found = [
        (
            Link(row["id"]),
            StateName("identity", row["trust"]),
            row["successes"],
            row["failures"],
            row["violations"],
            _who(row),
        )
        for row in rows
    ]
    return Table(("Identity", "Trust", "Good", "Bad", "Violations", "Who"), found, NO_IDENTITY)


def agents(rows: Iterable[Row]) -> Table:
    """Return agents with their states, processes and tasks."""
    found = [
        (
            Link(row["id"]),
            StateName("agent", row["state"]),
            f"{row['pid']} on {row['host']}, {row['containment']}" if row["pid"] else "",
            Link(row["task"]),
        )
        for row in rows
    ]
    return Table(("Agent", "State", "Process", "Task"), found, "No agent is at work on a task.")


def states_text(counts: Mapping[str, int]) -> str:
    """Return how many tasks there are in each state."""
    return "  ".join(f"{state} {number}" for state, number in counts.items())


def backlogs(rows: Iterable[Row]) -> Table:
    """Return the backlogs with the states of their tasks."""
    found = [(row["backlog"], row["tasks"], states_text(row["states"])) for row in rows]
    return Table(("Backlog", "Tasks", "States"), found, "There is no backlog.")


def failed_tasks(rows: Sequence[Row]) -> list[Section | Sentence]:
    """Return failed tasks: why each failed, how each try ended, and how to replay it."""
    none = Sentence("No task has failed.", "soft")
    return [_failed_task(row) for row in rows] or [none]


def _failed_task(row: Row) -> Section:
    crashes = f", {row['crashes']} crashes" if row["crashes"] else ""
    facts: dict[str, object] = {
        "since": Time(row["since"] * 1_000, "date"),
        "retries": f"{row['retries']} of {row['max_retries']}{crashes}",
        "codes": _codes(row),
        "files": ", ".join(row["paths"][:PATHS_SHOWN]),
    }
    parts: list[Part] = [
        Sentence(row["reason"] or "no reason was given", "bad"),
        facts,
        *(_failed_try(each) for each in row["tries"][-TRIES_SHOWN:]),
        Sentence(Verbatim(row["replay"])),
    ]
    return Section(f"{row['id']}  {row['title']}", parts)


def _failed_try(row: Row) -> Sentence:
    cause = f"  claim {row['number']}  {row['trigger']} by {row['actor']}"
    why = f"  {one_line(row['reason'], length_max=REASON_LENGTH_MAX)}" if row["reason"] else ""
    codes = f"  ({codes})" if (codes := _codes(row)) else ""
    at = Sentence(Time(row["timestamp"] * 1_000, "date"), "soft")
    return Sentence((at, cause, Sentence(why, "bad"), Sentence(codes, "soft")))


def _codes(failure: Row) -> str:
    """Return the codes of a failure, each once."""
    codes = (failure["code"], failure["transition_reason"], failure["abort_reason"])
    return ", ".join(dict.fromkeys(str(code) for code in codes if code))


def claimed(value: Row, lease_s: int, program: str) -> list[Part]:
    """Return a claimed task, and the commands with which its agent reports."""
    limit_ms = value["claim"]["deadline_s"] * 1_000
    facts: dict[str, object] = {
        "title": value["title"],
        "text": value["text"],
        "before": value["before"],
        "owns": ", ".join(value["owned_files"]),
        "deadline": f"{duration(limit_ms)} after its start",
    }
    keys = f"export INTERLOCK_KEY={value['key']} INTERLOCK_TOKEN={value['token']}"
    task = f"{program} task"
    beat = f"Renew the claim at least every {lease_s} s, or the task is offered to others:"
    return [
        Sentence((Link(value["id"]), " is claimed")),
        facts,
        Sentence(Verbatim(keys)),
        Sentence(Verbatim(f"{task} start")),
        Sentence("Do the work, and report how it ended:", "soft"),
        Sentence(Verbatim(f"{task} done --summary '...'")),
        Sentence(Verbatim(f"{task} fail --reason '...'")),
        Sentence(beat, "soft"),
        Sentence(Verbatim(f"{task} heartbeat")),
    ]


def unclaimed(backlog: str, found: Mapping[str, Mapping[str, int]], program: str) -> Iterator[Part]:
    """Yield that no task can be claimed now, and why those that are open cannot."""
    states = states_text(found["states"])
    yield Sentence(f"No task of {backlog} can be claimed by this agent now. Its tasks: {states}")
    if found["reasons"]:
        counts = (f"{number} {reason}" for reason, number in found["reasons"].items())
        yield Sentence(f"Of those that are open: {', '.join(counts)}.")
    yield Sentence("Why each of them waits:", "soft")
    yield Sentence(Verbatim(f"{program} task list {backlog}"))


def _diff(client: Client, task: str) -> Section:
    record = client.show(task, machine="task")
    parts = (Sentence(Link(record.id, record.title)), LivePart("diff", record))
    return Section("Diff", parts, is_live=False)


def _signals(record: Record[TaskData]) -> Iterator[Part]:
    """Yield the conditions of finished work, each with what its last check found."""
    checked = {(one["type"], one["value"]): one for one in record.data.get("checked", ())}
    rows = [
        (each["type"].replace("_", " "), each["value"], *_result(checked, each))
        for each in record.data["signals"]
    ]
    if rows:
        yield Table(("Signal", "Value", "Result", "Evidence", "Took"), rows)


def _result(
    checked: Mapping[tuple[str, str], SignalResultData], signal: SignalData
) -> tuple[str, str, str]:
    found = checked.get((signal["type"], signal["value"]))
    if found is None:
        return ("not checked yet", "", "")
    sure = f", {found['confidence']} sure" if found.get("confidence") is not None else ""
    unsure = "; a person should look" if found.get("flagged") else ""
    result = "✓ passed" if found["passed"] else "✗ failed"
    return (
        f"{result}{sure}{unsure}",
        str(found["detail"]),
        duration(found.get("seconds", 0) * 1_000),
    )


def _owner(client: Client, record: Record[TaskData]) -> Iterator[Part]:
    """Yield the trust in the agent that has the task, and its sandbox."""
    identity = str(record.data.get("claim", {}).get("identity") or "")
    for found in client.records.views.records([identity] if identity else []).values():
        row = identity_row(found)
        counts = f"{row['successes']} good, {row['failures']} bad, {row['violations']} violations"
        link, trust = Link(row["id"], row["name"]), StateName("identity", row["trust"])
        cells = (link, trust, counts, level_text(record.data.get("claim")))
        yield Table(("Its agent", "Trust", "So far", "Sandbox"), [cells])


def _output(client: Client, record: Record[TaskData]) -> Iterator[Section]:
    """Yield the end of an agent's output, and its last reports."""
    if not record.data.get("agent") or not record.data["claimed"]:
        return
    parts: list[Part] = [LivePart("output", record)]
    agent = agent_of(record, int(record.data["claimed"]))
    log = client.records.views.latest([agent], NOTES_READ)[agent]
    notes = [one for one in log if isinstance(one, Note) and one.kind == "progress"]
    rows = [(Time(one.at_ms), str(one.detail["message"])) for one in notes[:LINES_MAX]]
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
