"""Draws a snapshot of records, queues and what systems add, so that it fits a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.workers.ops.top.snapshot import Snapshot
from interlock.workers.systems import top_parts
from interlock.workers.terminal.page import StateName
from interlock.workers.terminal.screen import counted
from interlock.workers.terminal.top_part import TopPart, TopRow
from interlock.workers.text import age, clock

LABEL_WIDTH = 9
SLOTS_SHOWN_MAX = 2
PROBLEMS_SHOWN_MAX = 2


def rendered(snapshot: Snapshot, *, width: int, height: int | None, trouble: str = "") -> Group:
    """Return a snapshot that fits; without a height with every row. `trouble` follows the title."""
    head = [*_title(snapshot, width, trouble), *_summary(snapshot, width), Text()]
    room = None if height is None else max(height - len(head) - 2, 0)
    tables = [part.table(value, room, width) for part, value in _shown_parts(snapshot)]
    body: list[RenderableType] = [each for table in tables for each in table[0]]
    foot = "  ".join(sentence for table in tables for sentence in table[1])
    return Group(*head, *body, _fit(Text(foot, style="dim"), width))


def verdict(snapshot: Snapshot) -> Text:
    """Return in a few words whether work flows. The most serious problem is named."""
    asks, problems = snapshot.asks, len(snapshot.problems)
    own = (
        (snapshot.late_sweeps, (0, "sweeps are late", "bold red")),
        (problems, (20, counted(problems, "problem"), "bold red")),
        (asks, (50, f"{asks} wait for a person", "bold yellow")),
        (snapshot.others_at_work, (60, "work flows", "bold green")),
        (True, (100, "nothing to do", "dim")),
    )
    found = [one for holds, one in own if holds]
    found += [one for part, value in _parts(snapshot) for one in part.verdicts(value)]
    _, words, style = min(found)
    return Text(words, style)


def _parts(snapshot: Snapshot) -> Iterator[tuple[TopPart, Any]]:
    """Yield the part of each system, with what was read for it."""
    yield from ((part, snapshot.parts[name]) for name, part in top_parts().items())


def _shown_parts(snapshot: Snapshot) -> Iterator[tuple[TopPart, Any]]:
    """Yield those that have something to show, or all if nothing else could be shown."""
    for part, value in _parts(snapshot):
        if part.has_any(value) or not snapshot.others:
            yield part, value


def _title(snapshot: Snapshot, width: int, trouble: str) -> list[Text]:
    left = Text.assemble(("interlock top", "bold"), "  ", snapshot.backlog or "all backlogs")
    right = Text.assemble(verdict(snapshot), (f"  {clock(snapshot.at_ms)[:8]} UTC", "dim"))
    gap = max(width - left.cell_len - right.cell_len, 2)
    title = _fit(Text.assemble(left, " " * gap, right), width)
    # Without trouble the line is empty, so that the rows below keep their places.
    return [title, _fit(Text(trouble, style="bold red"), width)]


def _summary(snapshot: Snapshot, width: int) -> list[Text]:
    queues = [Text(f"{name} {number}") for name, number in snapshot.queues.items() if number]
    queues += [Text(said) for said in snapshot.slots[:SLOTS_SHOWN_MAX]]
    parts = list(_shown_parts(snapshot))
    rows = [
        *(row for part, value in parts for row in part.above(value)),
        *_others(snapshot),
        *_working(snapshot),
        TopRow("queues", queues, "nothing waits for a worker"),
    ]
    further = [
        _asks(snapshot),
        *(row for part, value in parts for row in part.below(value)),
        *_late_sweeps(snapshot.late_sweeps),
    ]
    return [
        *(line for row in rows for line in _lines(row, width)),
        *_problems(snapshot.problems, width),
        *(line for row in further for line in _lines(row, width)),
    ]


def _others(snapshot: Snapshot) -> Iterator[TopRow]:
    for name, counts in snapshot.others.items():
        states = [
            Text.assemble(f"{number} ", StateName(name, state).as_text())
            for state, number in counts.items()
        ]
        yield TopRow(name, states)


def _working(snapshot: Snapshot) -> Iterator[TopRow]:
    """Say which of their effects are at work; no row where there is none."""
    items = [
        Text.assemble(
            one.record_id, f" {one.name}", (f" {age(snapshot.at_ms - one.since_ms)}", "dim")
        )
        for one in snapshot.working
    ]
    if items:
        yield TopRow("at work", items)


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


def _asks(snapshot: Snapshot) -> TopRow:
    if not snapshot.asks:
        return TopRow("people", [], "no record waits for a person")
    asked = [
        Text.assemble(
            record.id,
            " ",
            StateName(record.machine, record.state, asks=True).as_text(),
            (f" {age(record.age_s * 1_000)}", "dim"),
        )
        for record in snapshot.asked
    ]
    number = Text(f"{snapshot.asks} asked", style="yellow")
    return TopRow("people", [number, *asked], lines_max=1)


def _late_sweeps(late: Mapping[str, int | None]) -> Iterator[TopRow]:
    """Say that nothing lost is found and no timer fires; no row while all sweeps run."""
    items = [
        Text(
            f"{name} never ran" if age_s is None else f"{name} ran {age(age_s * 1_000)} ago", "red"
        )
        for name, age_s in late.items()
    ]
    if items:
        yield TopRow("sweeps", [*items, Text("start beat and a worker of the sweeps")])


def _lines(row: TopRow, width: int) -> list[Text]:
    """Return a label and its items, folded between items and cut at the last line."""
    # The name of a machine may be longer than the column.
    lines = [Text(row.label.ljust(LABEL_WIDTH - 1) + " ", style="dim")]
    if not row.items:
        lines[0].append(row.nothing)
        return [_fit(lines[0], width)]
    for item in row.items:
        gap = "  " if lines[-1].cell_len > LABEL_WIDTH else ""
        if gap and lines[-1].cell_len + 2 + item.cell_len > width and len(lines) < row.lines_max:
            lines.append(Text(" " * LABEL_WIDTH))
            gap = ""
        lines[-1] = Text.assemble(lines[-1], gap, item)
    return [_fit(line, width) for line in lines]


def _fit(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text
