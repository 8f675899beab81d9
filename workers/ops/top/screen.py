"""The live view of agents, tasks and queues, made of plain data to fit a terminal; no fetching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from interlock.kernel.machines.tasks.visual_state import APPEARANCES, VisualState
from interlock.workers.ops.top.claim import Line
from interlock.workers.ops.top.state import Aged, Picture
from interlock.workers.terminal.screen import age, clock, state_text

LABEL = 9
FOLDED_MAX = 2
STARVED_MAX = 2
WIDE = 120
# The published names of two colours that a terminal calls otherwise.
STYLES = {"gray": "bright_black"}
QUIET = ("closed", "cancelled")
ALARMING = {"failed": "red", "orphaned": "red", "blocked": "yellow", "pending_approval": "yellow"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and for which widths of the terminal it is there; of width 0, it takes the rest.

    A cell is drawn for a line and the column's width.
    """

    header: str
    width: int
    cell: Callable[[Line, int], Text]
    right: bool = False
    least: int = 0
    most: int = 10_000


def drawn(picture: Picture, *, width: int, height: int | None, trouble: str = "") -> Group:
    """Return a picture as it fits; without a height, every line. `trouble` is told above all."""
    head = [*_title(picture, width, trouble), *_glance(picture, width), Text()]
    room = None if height is None else max(height - len(head) - 2, 0)
    lines = picture.lines if room is None else picture.lines[:room]
    unseen = len(picture.lines) - len(lines)
    body: list[RenderableType] = [_table(lines, width)] if picture.lines else [_nobody(picture)]
    return Group(*head, *body, _foot(unseen, picture.more, width))


def verdict(picture: Picture) -> Text:
    """Say in a few words whether work flows, the worst first."""
    looks, tasks = picture.looks, picture.tasks
    stalled, active = looks["stalled"], sum(n for look, n in looks.items() if look != "dead")
    if stalled:
        return Text(f"{stalled} stalled", style="bold dark_orange")
    if picture.starved:
        return Text(f"{len(picture.starved)} starved", style="bold red")
    if tasks["open"] and not active:
        return Text("tasks are open, nobody works", style="bold yellow")
    if picture.asks:
        return Text(f"{picture.asks} wait for a person", style="bold yellow")
    if active or picture.others_at_work:
        return Text("work flows", style="bold green")
    return Text("nothing to do", style="dim")


# --- the head --------------------------------------------------------------------------------


def _title(picture: Picture, width: int, trouble: str) -> list[Text]:
    left = Text.assemble(("interlock top", "bold"), "  ", picture.backlog or "all backlogs")
    right = Text.assemble(verdict(picture), (f"  {clock(picture.at_ms)[:8]} UTC", "dim"))
    gap = max(width - left.cell_len - right.cell_len, 2)
    title = _fit(Text.assemble(left, " " * gap, right), width)
    # Always there, so that nothing below moves when something goes wrong.
    return [title, _fit(Text(trouble, style="bold red"), width)]


def _glance(picture: Picture, width: int) -> list[Text]:
    looks = [
        Text(
            f"{APPEARANCES[VisualState(look)].symbol} {number} {look}",
            style=_style(VisualState(look)),
        )
        for look, number in picture.looks.items()
        if number
    ]
    least = "+" if picture.partial else ""
    states = sorted(
        ((state, number) for state, number in picture.tasks.items() if number),
        key=lambda pair: pair[0] in QUIET,
    )
    tasks = [
        Text.assemble(f"{number}{least} ", (state, _state_style(state))) for state, number in states
    ]
    queues = [Text(f"{name} {number}") for name, number in picture.queues.items() if number]
    return [
        *_row("agents", looks, "none at work", width),
        *_row("tasks", tasks, "none", width),
        *_others(picture, width),
        *_row("queues", queues, "nothing waits for a worker", width),
        *_asks(picture, width),
        *_starving(picture, width),
        *_oldest(picture.oldest, width),
    ]


def _others(picture: Picture, width: int) -> list[Text]:
    rows: list[Text] = []
    for name, counts in picture.others.items():
        states = [
            Text.assemble(f"{number} ", state_text(state)) for state, number in counts.items()
        ]
        rows += _row(f"{name}s", states, "", width)
    return rows


def _asks(picture: Picture, width: int) -> list[Text]:
    if not picture.asks:
        return _row("people", [], "nobody is asked anything", width)
    asked = [
        Text.assemble(one.id, " ", state_text(one.state), (f" {age(_ms(one.age_s))}", "dim"))
        for one in picture.asked
    ]
    number = Text(f"{picture.asks} asked", style="yellow")
    return _row("people", [number, *asked], "", width, rows_max=1)


def _starving(picture: Picture, width: int) -> list[Text]:
    shown = picture.starved[:STARVED_MAX]
    told = [Text.assemble((one.id, "red"), f": {one.why}") for one in shown]
    if not told:
        return _row("starved", [], "no open task waits in vain", width)
    if left := len(picture.starved) - len(shown):
        told.append(Text(f"and {left} more", style="dim"))
    return _row("starved", told, "", width)


def _oldest(oldest: Aged | None, width: int) -> list[Text]:
    told = []
    if oldest:
        told = [Text.assemble(oldest.id, (f" is open for {age(_ms(oldest.age_s))}", "dim"))]
    return _row("oldest", told, "no task is open", width)


def _row(
    label: str, items: Sequence[Text], nothing: str, width: int, *, rows_max: int = FOLDED_MAX
) -> list[Text]:
    """Return a label and its items, folded between items and cut at the last row."""
    rows = [Text(label.ljust(LABEL), style="dim")]
    if not items:
        rows[0].append(nothing)
        return [_fit(rows[0], width)]
    for item in items:
        gap = "  " if rows[-1].cell_len > LABEL else ""
        if gap and rows[-1].cell_len + 2 + item.cell_len > width and len(rows) < rows_max:
            rows.append(Text(" " * LABEL))
            gap = ""
        rows[-1] = Text.assemble(rows[-1], gap, item)
    return [_fit(row, width) for row in rows]


# --- the lines -------------------------------------------------------------------------------


def _table(lines: Sequence[Line], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    shown = [column for column in COLUMNS if column.least <= width <= column.most]
    rest = width - sum(column.width for column in shown) - len(shown) + 1
    widths = [column.width or max(rest, 1) for column in shown]
    for column, cells in zip(shown, widths, strict=True):
        side: JustifyMethod = "right" if column.right else "left"
        table.add_column(
            column.header, justify=side, no_wrap=True, overflow="ellipsis", width=cells
        )
    for line in lines:
        pairs = zip(shown, widths, strict=True)
        over = line.look in (VisualState.IDLE, VisualState.DEAD)
        table.add_row(
            *(column.cell(line, cells) for column, cells in pairs), style="dim" if over else ""
        )
    return table


def _nobody(picture: Picture) -> Text:
    where = f" in {picture.backlog}" if picture.backlog else ""
    return Text(f"no task is claimed{where}", style="dim")


def _foot(unseen: int, more: int, width: int) -> Text:
    told = []
    if unseen:
        told.append(f"{unseen} more below: a taller terminal shows them")
    if more:
        told.append(f"at least {more} more are not read")
    return _fit(Text("  ".join(told), style="dim"), width)


def _symbol(line: Line) -> Text:
    return Text(APPEARANCES[line.look].symbol, style=_style(line.look))


def _claim(line: Line, cells: int) -> Text:
    """Return agent and task in one, where there is no room for both: ours are named by tasks."""
    mine = line.agent == line.task.partition("/")[2].replace("/", ".") + f"~{line.number}"
    return Text(
        middle(f"{line.task}~{line.number}" if mine else f"{line.agent} {line.task}", cells)
    )


def _agent(line: Line, cells: int) -> Text:
    return Text(middle(line.agent, cells))


def _role(line: Line, cells: int) -> Text:
    return Text(middle(line.role, cells), style="dim")


def _task(line: Line, cells: int) -> Text:
    return Text(middle(line.task, cells))


def _beat(line: Line) -> Text:
    return NOTHING if line.heartbeat_age_s is None else Text(brief(line.heartbeat_age_s))


def _doing(line: Line) -> Text:
    merging = line.look is VisualState.MERGING
    return Text(line.doing, style=_style(line.look) if merging else "") if line.doing else NOTHING


def _tries(line: Line) -> Text:
    return Text(str(line.retries), style="yellow" if line.retries else "dim")


def _tokens(line: Line) -> Text:
    return NOTHING if line.tokens is None else Text(amount(line.tokens))


def _cost(line: Line) -> Text:
    return NOTHING if line.spent_micro is None else Text(dollars(line.spent_micro))


def _process(line: Line, cells: int) -> Text:
    place = f"{line.host}:{line.pid}" if line.pid is not None else line.host
    return Text(middle(place, cells), style="dim")


NOTHING = Text("-", style="dim")
# fmt: off
COLUMNS = (
    Column("",               1, lambda line, _: _symbol(line)),
    Column("AGENT ON TASK",  0, _claim,                                  most=WIDE - 1),
    Column("AGENT",         22, _agent,                                  least=WIDE),
    Column("ROLE",           8, _role,                                   least=80),
    Column("TASK",          22, _task,                                   least=WIDE),
    Column("STATE",         11, lambda line, _: state_text(line.state)),
    Column("DOING",         10, lambda line, _: _doing(line)),
    Column("AGE",            3, lambda line, _: Text(brief(line.age_s)), right=True),
    Column("HB",             3, lambda line, _: _beat(line),             right=True),
    Column("TRY",            3, lambda line, _: _tries(line),            right=True, least=64),
    Column("TOK",            5, lambda line, _: _tokens(line),           right=True, least=70),
    Column("COST",           6, lambda line, _: _cost(line),             right=True, least=76),
    Column("PROCESS",       20, _process,                                least=180),
    Column("SAID",           0, lambda line, _: Text(line.said, style="dim"), least=WIDE),
)
# fmt: on


# --- words -----------------------------------------------------------------------------------


def brief(seconds: float) -> str:
    """Return a duration in at most three characters; what is longer than 99 days is old."""
    for unit, size, least in (("d", 86_400, 86_400), ("h", 3_600, 6_000), ("m", 60, 100)):
        if seconds >= least:
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


def middle(text: str, width: int) -> str:
    """Return a text that fits: its beginning and its end tell it from others."""
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
    return STYLES.get(colour, colour)


def _state_style(state: str) -> str:
    return "dim" if state in QUIET else ALARMING.get(state, "")


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
