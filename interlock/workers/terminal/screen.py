"""Prints tables and sentences for people, from plain data.

Text from outside could move the cursor, or reverse the order of letters, and so repaint what a
person reads. Commands make their data visible before they show it; what is printed otherwise, the
console makes visible.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from interlock.workers.text import visible, visible_line


class Screen(Console):
    """A console that shows hidden characters as escapes."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the parts of what is drawn; those that are text are visible."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            yield segment._replace(text=text)


class Grid(Table):
    """A table whose cells are plain text, each on one line: a newline forges no further row.

    No row ends with blanks, which would fill files and pipes to the width of the table.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield the parts of the rows."""
        # A table yields nothing but segments, though its type says less.
        drawn = super().__rich_console__(console, options)
        segments = (part for part in drawn if isinstance(part, Segment))
        for line in Segment.split_lines(segments):
            yield from _without_trailing_blanks(line)
            yield Segment.line()

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*(_one_line_cell(cell) for cell in cells), **options)


def _without_trailing_blanks(line: Sequence[Segment]) -> list[Segment]:
    """Return the parts of a line up to the last character that is no blank."""
    kept = list(line)
    while kept and not kept[-1].text.strip(" "):
        kept.pop()
    return [*kept[:-1], Segment(kept[-1].text.rstrip(" "), kept[-1].style)] if kept else []


def _one_line_cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return Text(visible_line(cell))
    return Text("\\n").join(cell.split("\n")) if isinstance(cell, Text) else cell


# The width where the output is no terminal, so that nothing is cut or folded at 80 columns.
PIPED_WIDTH = 240
out = Screen(width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Screen(stderr=True)

LINE_LENGTH_MAX = 100
REASON_LENGTH_MAX = 160
COLOURS = {
    "done": "green",
    "done_cleanup_successful": "green",
    "dismissed": "bright_black",
    "handed_off": "cyan",
    "monitoring": "blue",
    "executing": "magenta",
    "closed": "green",
    "failed": "red",
    "in_progress": "magenta",
    "blocked": "yellow",
    "pending_approval": "yellow",
    "planned": "yellow",
    "success": "green",
    "canceled": "bright_black",
    "running": "magenta",
    "reviewing": "magenta",
    "review_required": "cyan",
    "approval_required": "yellow",
    "intervention_required": "yellow",
    "suspended": "yellow",
    "paused": "yellow",
    "draft": "bright_black",
}


def error(sentence: str) -> None:
    """Print an error on stderr."""
    # Not folded, so that a sentence stays one line for grep.
    err.print(f"[bold red]error[/] {escape(visible(sentence))}", highlight=False, soft_wrap=True)


def notice(sentence: str) -> None:
    """Print on stderr what a person should know; the command goes on."""
    err.print(Text(sentence, style="yellow"), soft_wrap=True)


def state_text(state: str) -> Text:
    """Return a state in its colour: green for a good end, yellow where a person is asked."""
    asks = state.startswith("awaiting_") and state != "awaiting_inference"
    asks = asks or state == "done_cleanup_unsuccessful"
    return Text(state, style="yellow" if asks else COLOURS.get(state, "white"))


def grid(*columns: str, title: str = "") -> Grid:
    """Return an empty table in the style of all commands."""
    table = Grid(
        title=title or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
        expand=True,
        show_header=any(columns),
    )
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    # The last column takes the rest of the terminal's width.
    table.add_column(columns[-1], no_wrap=True, overflow="ellipsis", ratio=1)
    return table


def submissions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what became of each submission."""
    table = grid("id", "answer")
    for row in rows:
        status = "refused" if row["error"] else "known already" if row["replayed"] else "accepted"
        table.add_row(row["id"] or "-", Text(status, style="red" if row["error"] else "green"))
    out.print(table)
    for row in (refused for refused in rows if refused["error"]):
        error(f"{row['id']}: {row['error']}" if row["id"] else row["error"])


def command_line(text: str) -> None:
    """Print a command line. It is not folded, so that it works when it is pasted into a shell."""
    out.print(Text(f"  {text}", style="dim"), soft_wrap=True)


def program() -> str:
    """Return how a shell of any folder starts this command line."""
    return shlex.quote(str(Path(sys.executable).with_name("interlock")))


def record_state(value: Mapping[str, Any]) -> None:
    """Print the state of a record, and what follows by itself."""
    out.print(Text.assemble((value["id"], "bold"), " is ", state_text(value["state"])))
    if value.get("outlook"):
        out.print(Text(value["outlook"]), soft_wrap=True, highlight=False)


def record_answer(value: Mapping[str, Any]) -> None:
    """Print a record's id and the answer to a command on it."""
    out.print(Text.assemble((value["id"], "bold"), f": {value['answer']}"))


def short(value: Any, length_max: int = LINE_LENGTH_MAX) -> str:
    """Return a value as one line."""
    if isinstance(value, Mapping):
        value = ", ".join(
            f"{name}={short(part, 60)}"
            for name, part in value.items()
            if part not in (None, "", {}, [])
        )
    text = " ".join(str(value).split())
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def one_line(value: Any) -> Text:
    """Return a value that a user or an agent wrote as one line, in which brackets are no markup."""
    return Text(short(value))


def counted(number: int, noun: str) -> str:
    """Return a number of things; the noun is in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return how many there are in each state."""
    return "  ".join(f"{state} {number}" for state, number in counts.items())


def clock(at_ms: int) -> str:
    """Return a time of day with milliseconds, UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]


def age(ms: int) -> str:
    """Return a duration in its largest unit."""
    seconds = max(ms, 0) // 1_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def fields(value: Any) -> None:
    """Print each field of a value on a line."""
    for name, field in value.items():
        out.print(Text.assemble((f"{name}: ", "dim"), short(field, LINE_LENGTH_MAX)))
