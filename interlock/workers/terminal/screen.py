"""Prints tables and sentences for people, from plain data.

Text from outside could move the cursor, or reverse the order of letters, and so repaint what a
person reads. Commands make their data visible before they show it; what is printed otherwise, the
console makes visible.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from interlock.kernel.meaning import Meaning
from interlock.kernel.shortened import ELLIPSIS, fits, kept_ends
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


class ShortenedCell:
    """The text of a cell; in a column that does not fold it, it is shortened to the column."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the text, or as much of its ends as fits."""
        text, width = self._text, options.max_width
        if not options.no_wrap or fits(text.plain, width):
            yield text
            return
        head, tail = kept_ends(text.plain, width)
        yield Text.assemble(text[:head], ELLIPSIS, text[len(text) - tail :])

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the width that the text has, and the least that it can have."""
        return Measurement.get(console, options, self._text)


def _one_line_cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return ShortenedCell(Text(visible_line(cell)))
    if isinstance(cell, Text):
        return ShortenedCell(Text("\\n").join(cell.split("\n")))
    return cell


# The width where the output is no terminal, so that nothing is cut or folded at 80 columns.
PIPED_WIDTH = 240
out = Screen(width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Screen(stderr=True)

# The shape before a state, which the stylesheet of the console has too, and its colour.
LOOKS: Mapping[Meaning, tuple[str, str]] = {
    Meaning.ASKS: ("◆", "yellow"),
    Meaning.WORKS: ("▶", "cyan"),
    Meaning.WAITS: ("○", ""),
    Meaning.FAILED: ("✗", "red"),
    Meaning.DONE: ("✓", "green"),
    Meaning.ENDED: ("■", "dim"),
}


def error(sentence: str) -> None:
    """Print an error on stderr."""
    # Not folded, so that a sentence stays one line for grep.
    err.print(f"[bold red]error[/] {escape(visible(sentence))}", highlight=False, soft_wrap=True)


def notice(sentence: str) -> None:
    """Print on stderr what a person should know; the command goes on."""
    err.print(Text(sentence, style="yellow"), soft_wrap=True)


def state_text(words: str, meaning: Meaning | None) -> Text:
    """Return what people call a state, in the shape and colour of what it means."""
    shape, colour = LOOKS[meaning] if meaning else ("", "")
    return Text(f"{shape} {words}".strip(), style=colour)


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


def command_line(text: str) -> None:
    """Print a command line. It is not folded, so that it works when it is pasted into a shell."""
    out.print(Text(f"  {text}", style="dim"), soft_wrap=True)


def program() -> str:
    """Return how a shell of any folder starts this command line."""
    return shlex.quote(str(Path(sys.executable).with_name("interlock")))


def counted(number: int, noun: str) -> str:
    """Return a number of things; the noun is in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return how many there are in each state."""
    return "  ".join(f"{state} {number}" for state, number in counts.items())
