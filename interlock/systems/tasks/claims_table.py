"""Draws the table of claims in `interlock top`: a row for each, with columns by the width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from interlock.system.pages import StateName
from interlock.system.tables import dollars, shortened
from interlock.system.text import age
from interlock.systems.tasks.claim_row import ClaimRow
from interlock.systems.tasks.machines.visual_state import APPEARANCES, VisualState

SILENCE_S_MIN = 60  # a shorter silence of an agent is not worth a remark
WIDE_COLUMNS = 120
# Published names of colours that have another name in a terminal.
TERMINAL_COLOURS = {"gray": "bright_black"}


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


def claims_table(rows: Sequence[ClaimRow], width: int) -> Table:
    """Return the table of these claims, as wide as the terminal."""
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


def _symbol(row: ClaimRow) -> Text:
    return Text(APPEARANCES[row.look].symbol, style="dim" if row.succeeded else style_of(row.look))


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
    if seconds is None:
        return NOTHING
    # Without its blank it has four characters up to 999 days.
    return Text(age(seconds * 1_000).replace(" ", "").removesuffix("in"))


def _said(row: ClaimRow) -> Text:
    """Return what the agent said last, or that it has printed nothing for a long time."""
    silent_s = row.silent_s or 0
    silence = f"no output for {age(silent_s * 1_000)}" if silent_s >= SILENCE_S_MIN else ""
    return Text(row.said or silence, style="dim")


def _doing(row: ClaimRow) -> Text:
    merging = row.look is VisualState.MERGING
    return Text(row.doing, style=style_of(row.look) if merging else "") if row.doing else NOTHING


def _tries(row: ClaimRow) -> Text:
    return Text(str(row.retries), style="yellow" if row.retries else "dim")


def _tokens(row: ClaimRow) -> Text:
    return NOTHING if row.tokens is None else Text(amount(row.tokens))


def _state(row: ClaimRow) -> Text:
    return StateName("task", row.state).as_text() if row.state else NOTHING


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
    Column("STATE",         13, lambda row, _: _state(row)),
    Column("DOING",         10, lambda row, _: _doing(row)),
    Column("AGE",            4, lambda row, _: _seconds(row.age_s), right=True),
    Column("HB",             4, lambda row, _: _seconds(row.heartbeat_age_s), right=True),
    Column("OUT",            4, lambda row, _: _seconds(row.silent_s), right=True, minimum=60),
    Column("DUE",            4, lambda row, _: _seconds(row.left_s),   right=True, minimum=60),
    Column("TRY",            3, lambda row, _: _tries(row),            right=True, minimum=64),
    Column("TOK",            5, lambda row, _: _tokens(row),           right=True, minimum=70),
    Column("COST",           7, lambda row, _: _cost(row),             right=True, minimum=76),
    Column("PROCESS",       20, _process,                                minimum=180),
    Column("SAID",           0, lambda row, _: _said(row),              minimum=WIDE_COLUMNS),
)
# fmt: on


def amount(number: int) -> str:
    """Return a number in at most five characters."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            part = number / size
            return f"{part:.1f}{unit}" if part < 99.95 else f"{part:.0f}{unit}"  # noqa: PLR2004
    return str(number)


def style_of(look: VisualState) -> str:
    """Return the colour of an agent's look, as terminals call it."""
    colour = APPEARANCES[look].colour
    return TERMINAL_COLOURS.get(colour, colour)
