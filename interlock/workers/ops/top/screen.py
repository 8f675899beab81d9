"""Draws a snapshot of agents, tasks and queues so that it fits a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from interlock.kernel.machines.tasks.visual_state import APPEARANCES, VisualState
from interlock.workers.ops.top.snapshot import Snapshot
from interlock.workers.tasks.claim_row import ClaimRow
from interlock.workers.tasks.overview import AgedRecord
from interlock.workers.terminal.screen import age, clock, state_text

LABEL_WIDTH = 9
LABEL_LINES_MAX = 2
STARVED_SHOWN_MAX = 2
SLOTS_SHOWN_MAX = 2
OWED_MS = 60_000  # longer no effect waits where work flows
SILENCE_S_MIN = 60  # a shorter silence of an agent is not worth a remark
WIDE_COLUMNS = 120
# Published names of colours that have another name in a terminal.
TERMINAL_COLOURS = {"gray": "bright_black"}
QUIET_STATES = ("closed", "cancelled")
ALARM_COLOURS = {
    "failed": "red",
    "orphaned": "red",
    "blocked": "yellow",
    "pending_approval": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table. Width 0 takes the rest of the terminal's width.

    It is shown if the terminal is between `minimum` and `maximum` wide. `cell` draws the
    cell of a row in the column's width.
    """

    header: str
    width: int
    cell: Callable[[ClaimRow, int], Text]
    right: bool = False
    minimum: int = 0
    maximum: int = 10_000


def rendered(snapshot: Snapshot, *, width: int, height: int | None, trouble: str = "") -> Group:
    """Return a snapshot that fits; without a height with every row. `trouble` follows the title."""
    head = [*_title(snapshot, width, trouble), *_summary(snapshot, width), Text()]
    room = None if height is None else max(height - len(head) - 2, 0)
    rows = snapshot.lines if room is None else snapshot.lines[:room]
    hidden = len(snapshot.lines) - len(rows)
    body: list[RenderableType] = [_table(rows, width)] if snapshot.lines else []
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
        Text.assemble(f"{number}{plus} ", (state, _state_style(state))) for state, number in states
    ]
    queues = [Text(f"{name} {number}") for name, number in snapshot.queues.items() if number]
    queues += [Text(said) for said in snapshot.slots[:SLOTS_SHOWN_MAX]]
    if snapshot.owed and (waited_ms := snapshot.at_ms - snapshot.owed.since_ms) > OWED_MS:
        name, record_id = snapshot.owed.name, snapshot.owed.record_id
        queues.append(Text(f"{name} of {record_id} has waited for {age(waited_ms)}", "bold red"))
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
            style=_style(VisualState(look)),
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
            Text.assemble(f"{number} ", state_text(state)) for state, number in counts.items()
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


def _asks(snapshot: Snapshot, width: int) -> list[Text]:
    if not snapshot.asks:
        return _row("people", [], "no record waits for a person", width)
    asked = [
        Text.assemble(
            record.id, " ", state_text(record.state), (f" {age(_ms(record.age_s))}", "dim")
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
            f" in {age(_ms(task.in_s))}",
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
        parts = [Text.assemble(oldest.id, (f" is open for {age(_ms(oldest.age_s))}", "dim"))]
    return _row("oldest", parts, "no task is open", width)


def _late_sweeps(late: Mapping[str, int | None], width: int) -> list[Text]:
    """Say that nothing lost is found and no timer fires; no row while all sweeps run."""
    if not late:
        return []
    items = [
        Text(f"{name} never ran" if age_s is None else f"{name} ran {age(_ms(age_s))} ago", "red")
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


def _table(rows: Sequence[ClaimRow], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    shown = [column for column in TABLE_COLUMNS if column.minimum <= width <= column.maximum]
    rest = width - sum(column.width for column in shown) - len(shown) + 1
    widths = [column.width or max(rest, 1) for column in shown]
    for column, cells in zip(shown, widths, strict=True):
        side: JustifyMethod = "right" if column.right else "left"
        table.add_column(
            column.header, justify=side, no_wrap=True, overflow="ellipsis", width=cells
        )
    for row in rows:
        pairs = zip(shown, widths, strict=True)
        ended = row.look in (VisualState.IDLE, VisualState.DEAD)
        table.add_row(
            *(column.cell(row, cells) for column, cells in pairs), style="dim" if ended else ""
        )
    return table


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


def _symbol(row: ClaimRow) -> Text:
    return Text(APPEARANCES[row.look].symbol, style="dim" if row.succeeded else _style(row.look))


def _claim(row: ClaimRow, cells: int) -> Text:
    """Return agent and task in one cell. The id of a local agent already contains its task's id."""
    local = row.agent == row.task.partition("/")[2].replace("/", ".") + f"~{row.number}"
    return Text(
        shortened(f"{row.task}~{row.number}" if local else f"{row.agent} {row.task}", cells)
    )


def _agent(row: ClaimRow, cells: int) -> Text:
    return Text(shortened(row.agent, cells))


def _role(row: ClaimRow, cells: int) -> Text:
    return Text(shortened(row.role, cells), style="dim")


def _task(row: ClaimRow, cells: int) -> Text:
    return Text(shortened(row.task, cells))


def _seconds(seconds: float | None) -> Text:
    return NOTHING if seconds is None else Text(duration(seconds))


def _said(row: ClaimRow) -> Text:
    """Return what the agent said last, or that it has printed nothing for a long time."""
    silent_s = row.silent_s or 0
    silence = f"no output for {age(_ms(silent_s))}" if silent_s >= SILENCE_S_MIN else ""
    return Text(row.said or silence, style="dim")


def _doing(row: ClaimRow) -> Text:
    merging = row.look is VisualState.MERGING
    return Text(row.doing, style=_style(row.look) if merging else "") if row.doing else NOTHING


def _tries(row: ClaimRow) -> Text:
    return Text(str(row.retries), style="yellow" if row.retries else "dim")


def _tokens(row: ClaimRow) -> Text:
    return NOTHING if row.tokens is None else Text(amount(row.tokens))


def _cost(row: ClaimRow) -> Text:
    return NOTHING if row.spent_micro is None else Text(dollars(row.spent_micro))


def _process(row: ClaimRow, cells: int) -> Text:
    process = f"{row.host}:{row.pid}" if row.pid is not None else row.host
    return Text(shortened(process, cells), style="dim")


NOTHING = Text("-", style="dim")
# fmt: off
TABLE_COLUMNS = (
    Column("",               1, lambda row, _: _symbol(row)),
    Column("AGENT ON TASK",  0, _claim,                                  maximum=WIDE_COLUMNS - 1),
    Column("AGENT",         22, _agent,                                  minimum=WIDE_COLUMNS),
    Column("ROLE",           8, _role,                                   minimum=90),
    Column("TASK",          22, _task,                                   minimum=WIDE_COLUMNS),
    Column("STATE",         11, lambda row, _: state_text(row.state)),
    Column("DOING",         10, lambda row, _: _doing(row)),
    Column("AGE",            3, lambda row, _: Text(duration(row.age_s)), right=True),
    Column("HB",             3, lambda row, _: _seconds(row.heartbeat_age_s), right=True),
    Column("OUT",            3, lambda row, _: _seconds(row.silent_s), right=True, minimum=60),
    Column("DUE",            3, lambda row, _: _seconds(row.left_s),   right=True, minimum=60),
    Column("TRY",            3, lambda row, _: _tries(row),            right=True, minimum=64),
    Column("TOK",            5, lambda row, _: _tokens(row),           right=True, minimum=70),
    Column("COST",           6, lambda row, _: _cost(row),             right=True, minimum=76),
    Column("PROCESS",       20, _process,                                minimum=180),
    Column("SAID",           0, lambda row, _: _said(row),              minimum=WIDE_COLUMNS),
)
# fmt: on


def duration(seconds: float) -> str:
    """Return a duration in at most three characters. From 99 days on it is always 99d."""
    for unit, size, minimum in (("d", 86_400, 86_400), ("h", 3_600, 6_000), ("m", 60, 100)):
        if seconds >= minimum:
            return f"{min(int(seconds // size), 99)}{unit}"
    return f"{int(seconds)}s"


def amount(number: int) -> str:
    """Return a number in at most five characters."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            part = number / size
            return f"{part:.1f}{unit}" if part < 99.95 else f"{part:.0f}{unit}"  # noqa: PLR2004
    return str(number)


def dollars(micro: int) -> str:
    """Return micro-dollars in at most six characters."""
    whole = micro / 1e6
    if whole < 0.9995:  # noqa: PLR2004
        return f"${whole:.3f}".replace("0.", ".", 1)
    return f"${whole:.2f}" if whole < 99.995 else f"${amount(round(whole))}"  # noqa: PLR2004


def shortened(text: str, width: int) -> str:
    """Return a text that fits: its beginning and its end, which together identify it."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def _fit(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text


def _style(look: VisualState) -> str:
    colour = APPEARANCES[look].colour
    return TERMINAL_COLOURS.get(colour, colour)


def _state_style(state: str) -> str:
    return "dim" if state in QUIET_STATES else ALARM_COLOURS.get(state, "")


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
