"""Draws a snapshot of agents, tasks and queues so that it fits a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.systems.tasks.machines.visual_state import APPEARANCES, VisualState
from interlock.systems.tasks.overview import AgedRecord
from interlock.workers.ops.top.claims import claims_table, in_ms, style_of
from interlock.workers.ops.top.snapshot import Snapshot
from interlock.workers.terminal.page_parts import text_of_state
from interlock.workers.terminal.screen import counted
from interlock.workers.text import age, clock

LABEL_WIDTH = 9
LABEL_LINES_MAX = 2
STARVED_SHOWN_MAX = 2
SLOTS_SHOWN_MAX = 2
PROBLEMS_SHOWN_MAX = 2
QUIET_STATES = ("closed", "cancelled")  # they come last


def rendered(snapshot: Snapshot, *, width: int, height: int | None, trouble: str = "") -> Group:
    """Return a snapshot that fits; without a height with every row. `trouble` follows the title."""
    head = [*_title(snapshot, width, trouble), *_summary(snapshot, width), Text()]
    room = None if height is None else max(height - len(head) - 2, 0)
    rows = snapshot.lines if room is None else snapshot.lines[:room]
    hidden = len(snapshot.lines) - len(rows)
    body: list[RenderableType] = [claims_table(rows, width)] if snapshot.lines else []
    if not body and _has_tasks(snapshot):
        body = [_no_claims(snapshot)]
    return Group(*head, *body, _foot(hidden, snapshot.more, width))


def verdict(snapshot: Snapshot) -> Text:
    """Return in a few words whether work flows. The most serious problem is named."""
    looks, tasks = snapshot.looks, snapshot.tasks
    stalled, active = looks["stalled"], sum(n for look, n in looks.items() if look != "dead")
    starved, asks = len(snapshot.starved), snapshot.asks
    verdicts = (
        (snapshot.late_sweeps, "sweeps are late", "bold red"),
        (stalled, f"{stalled} stalled", "bold dark_orange"),
        (snapshot.problems, counted(len(snapshot.problems), "problem"), "bold red"),
        (starved, f"{starved} starved", "bold red"),
        (tasks["open"] and not active, "tasks are open, but no agent works", "bold yellow"),
        (asks, f"{asks} wait for a person", "bold yellow"),
        (active or snapshot.others_at_work, "work flows", "bold green"),
        (True, "nothing to do", "dim"),
    )
    return next(Text(words, style) for holds, words, style in verdicts if holds)


def _title(snapshot: Snapshot, width: int, trouble: str) -> list[Text]:
    left = Text.assemble(("interlock top", "bold"), "  ", snapshot.backlog or "all backlogs")
    right = Text.assemble(verdict(snapshot), (f"  {clock(snapshot.at_ms)[:8]} UTC", "dim"))
    gap = max(width - left.cell_len - right.cell_len, 2)
    title = _fit(Text.assemble(left, " " * gap, right), width)
    # Without trouble the line is empty, so that the rows below keep their places.
    return [title, _fit(Text(trouble, style="bold red"), width)]


def _summary(snapshot: Snapshot, width: int) -> list[Text]:
    looks = _looks(snapshot)
    plus = "+" if snapshot.partial else ""
    states = sorted(
        ((state, number) for state, number in snapshot.tasks.items() if number),
        key=lambda pair: pair[0] in QUIET_STATES,
    )
    tasks = [
        Text.assemble(f"{number}{plus} ", text_of_state("task", state)) for state, number in states
    ]
    queues = [Text(f"{name} {number}") for name, number in snapshot.queues.items() if number]
    queues += [Text(said) for said in snapshot.slots[:SLOTS_SHOWN_MAX]]
    agents = [
        *_row("agents", looks, "none at work", width),
        *_row("tasks", tasks, "none", width),
    ]
    waiting = [*_starving(snapshot, width), *_oldest(snapshot.oldest, width)]
    return [
        *(agents if _has_tasks(snapshot) else ()),
        *_others(snapshot, width),
        *_working(snapshot, width),
        *_row("queues", queues, "nothing waits for a worker", width),
        *_problems(snapshot.problems, width),
        *_asks(snapshot, width),
        *_next_tries(snapshot, width),
        *(waiting if _has_tasks(snapshot) else ()),
        *_late_sweeps(snapshot.late_sweeps, width),
    ]


def _looks(snapshot: Snapshot) -> list[Text]:
    """Return how many agents have each look; those that ended well are no dead ones."""
    succeeded = sum(row.succeeded for row in snapshot.lines)
    counts = {**snapshot.looks}
    counts["dead"] -= succeeded
    looks = [
        Text(
            f"{APPEARANCES[VisualState(look)].symbol} {number} {look}",
            style=style_of(VisualState(look)),
        )
        for look, number in counts.items()
        if number
    ]
    ended = Text(f"{APPEARANCES[VisualState.DEAD].symbol} {succeeded} ended well", style="dim")
    return [*looks, ended] if succeeded else looks


def _others(snapshot: Snapshot, width: int) -> list[Text]:
    rows: list[Text] = []
    for name, counts in snapshot.others.items():
        states = [
            Text.assemble(f"{number} ", text_of_state(name, state))
            for state, number in counts.items()
        ]
        rows += _row(name, states, "", width)
    return rows


def _working(snapshot: Snapshot, width: int) -> list[Text]:
    """Say which of their effects are at work; no row where there is none."""
    items = [
        Text.assemble(
            one.record_id, f" {one.name}", (f" {age(snapshot.at_ms - one.since_ms)}", "dim")
        )
        for one in snapshot.working
    ]
    return _row("at work", items, "", width) if items else []


def _has_tasks(snapshot: Snapshot) -> bool:
    """Whether there are coding tasks, or nothing else that could be shown."""
    return bool(any(snapshot.tasks.values()) or snapshot.lines or not snapshot.others)


def _problems(problems: Sequence[str], width: int) -> list[Text]:
    """Say which effects do not go on as they should; no row where each does."""
    rows = []
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        rows += [Text(line, "red") for line in wrap(problem, max(width - LABEL_WIDTH, LABEL_WIDTH))]
    if (left := len(problems) - PROBLEMS_SHOWN_MAX) > 0:
        rows.append(Text(f"and {left} more: `interlock doctor` names each", "dim"))
    labels = ["problems", *[""] * len(rows)]
    return [
        _fit(Text.assemble((label.ljust(LABEL_WIDTH), "dim"), row), width)
        for label, row in zip(labels, rows, strict=False)
    ]


def _asks(snapshot: Snapshot, width: int) -> list[Text]:
    if not snapshot.asks:
        return _row("people", [], "no record waits for a person", width)
    asked = [
        Text.assemble(
            record.id,
            " ",
            text_of_state(record.machine, record.state, asks=True),
            (f" {age(in_ms(record.age_s))}", "dim"),
        )
        for record in snapshot.asked
    ]
    number = Text(f"{snapshot.asks} asked", style="yellow")
    return _row("people", [number, *asked], "", width, rows_max=1)


def _next_tries(snapshot: Snapshot, width: int) -> list[Text]:
    """Say which failed tasks are tried again by themselves; no row where there is none."""
    items = [
        Text.assemble(
            task.id,
            f" in {age(in_ms(task.in_s))}",
            (f" ({task.retries} of {task.max_retries} used)", "dim"),
        )
        for task in snapshot.next_tries
    ]
    return _row("retries", items, "", width, rows_max=1) if items else []


def _starving(snapshot: Snapshot, width: int) -> list[Text]:
    shown = snapshot.starved[:STARVED_SHOWN_MAX]
    items = [Text.assemble((record.id, "red"), f": {record.why}") for record in shown]
    if not items and not snapshot.starved_partial:
        return _row("starved", [], "no open task is starved", width)
    if not items:
        items.append(Text("none found"))
    if left := len(snapshot.starved) - len(shown):
        items.append(Text(f"and {left} more", style="dim"))
    if snapshot.starved_partial:
        items.append(Text("not all open tasks were looked at", style="dim"))
    return _row("starved", items, "", width)


def _oldest(oldest: AgedRecord | None, width: int) -> list[Text]:
    parts = []
    if oldest:
        parts = [Text.assemble(oldest.id, (f" is open for {age(in_ms(oldest.age_s))}", "dim"))]
    return _row("oldest", parts, "no task is open", width)


def _late_sweeps(late: Mapping[str, int | None], width: int) -> list[Text]:
    """Say that nothing lost is found and no timer fires; no row while all sweeps run."""
    if not late:
        return []
    items = [
        Text(
            f"{name} never ran" if age_s is None else f"{name} ran {age(in_ms(age_s))} ago",
            "red",
        )
        for name, age_s in late.items()
    ]
    return _row("sweeps", [*items, Text("start beat and a worker of the sweeps")], "", width)


def _row(
    label: str, items: Sequence[Text], nothing: str, width: int, *, rows_max: int = LABEL_LINES_MAX
) -> list[Text]:
    """Return a label and its items, folded between items and cut at the last row."""
    # The name of a machine may be longer than the column.
    rows = [Text(label.ljust(LABEL_WIDTH - 1) + " ", style="dim")]
    if not items:
        rows[0].append(nothing)
        return [_fit(rows[0], width)]
    for item in items:
        gap = "  " if rows[-1].cell_len > LABEL_WIDTH else ""
        if gap and rows[-1].cell_len + 2 + item.cell_len > width and len(rows) < rows_max:
            rows.append(Text(" " * LABEL_WIDTH))
            gap = ""
        rows[-1] = Text.assemble(rows[-1], gap, item)
    return [_fit(row, width) for row in rows]


def _no_claims(snapshot: Snapshot) -> Text:
    where = f" in {snapshot.backlog}" if snapshot.backlog else ""
    return Text(f"no task is claimed{where}", style="dim")


def _foot(hidden: int, more: int, width: int) -> Text:
    parts = []
    if hidden:
        parts.append(f"{hidden} more below: a taller terminal shows them")
    if more:
        parts.append(f"at least {more} more claims are not shown")
    return _fit(Text("  ".join(parts), style="dim"), width)


def _fit(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text
