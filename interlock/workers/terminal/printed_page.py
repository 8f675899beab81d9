"""Prints the parts of a page in a terminal, as the templates of the console draw them in a browser.

What only a browser can do is left out: links to other views, forms, drawings. In place of a button
the command is printed that does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.padding import Padding
from rich.text import Text

from interlock.workers.terminal.page import (
    Bar,
    Button,
    Link,
    LivePart,
    Part,
    Section,
    Sentence,
    StateName,
    Table,
    Time,
    Tone,
    Verbatim,
)
from interlock.workers.terminal.screen import Grid, command_line, grid, out
from interlock.workers.text import age, clock, visible, visible_line

STYLES: Mapping[Tone, str] = {
    "": "",
    "bad": "red",
    "ask": "yellow",
    "soft": "dim",
    "strong": "bold",
    "good": "green",
}
QUOTE_PADDING = (0, 0, 0, 4)
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class PagePrinter:
    """Prints pages. Times are counted from `now_ms` on; without it, they have their dates.

    What others wrote is made visible, and one line where a second one could be taken for ours.
    """

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = now_ms

    def print(self, page: Iterable[Part]) -> None:
        """Print the parts of a page, one below the other."""
        for part in page:
            self._print_part(part)

    def _print_part(self, part: Part) -> None:
        match part:
            case Section():
                # Nothing is folded here, so the title of what is to be opened would say nothing.
                if not part.is_folded:
                    out.print(Text(visible_line(part.title), "bold"))
                self.print(part.parts)
            case Sentence():
                self._print_sentence(part)
            case Mapping():
                out.print(self._named(part))
            case Table(is_strip=True):
                out.print(self._steps(part))
            case Table():
                self._print_table(part)
            case Verbatim():
                self._print_text(part)
            case Bar():
                _print_line(f"{part.name}: {part.text}", STYLES[part.tone])
            case LivePart():
                self.print(part.parts)

    def _print_sentence(self, part: Sentence) -> None:
        match part.text:
            case Link(to=Mapping()):
                pass
            case Verbatim(text=command):
                command_line(visible_line(command))
            case _ if part.is_quoted:
                out.print(Padding(self._cell(part), QUOTE_PADDING, expand=False))
            case _:
                # Not folded, so that it is one line for grep, and a command in it works when it is
                # pasted into a shell.
                out.print(self._cell(part), soft_wrap=True)

    def _named(self, cells: Mapping[str, object]) -> Grid:
        facts = grid("", "")
        # Folded, so that no path and no command is cut.
        facts.columns[-1].no_wrap, facts.columns[-1].overflow = False, "fold"
        for name, cell in cells.items():
            if cell not in ("", None):
                facts.add_row(name, self._cell(cell))
        return facts

    def _print_table(self, part: Table) -> None:
        if not part.rows:
            if part.empty:
                _print_line(part.empty, "dim")
            return
        # Commands are the last column. They are printed below, where nothing is cut or folded.
        commands = [cell for row in part.rows if isinstance(cell := row[-1], Button | Verbatim)]
        width = len(part.columns) - bool(commands)
        titles = [_title_in(row) for row in part.rows]
        names = [name.lower() for name in part.columns[:width]]
        table = grid(*names[:-1], f"title, {names[-1]}" if any(titles) else names[-1])
        for column, cell in zip(table.columns[:-1], part.rows[0], strict=False):
            column.justify = "right" if isinstance(cell, int) else "left"
        for row, title in zip(part.rows, titles, strict=True):
            # The title stands in the last column, which alone is cut where the terminal is narrow.
            *shown, last = (self._cell(_id_of(cell)) for cell in row[:width])
            # An empty cell has a dash, so that each text stands below its column's name.
            about = Text.assemble(title, "  " if title and last else "", last)
            table.add_row(*(cell or Text("-", "dim") for cell in shown), about)
        out.print(table)
        for one in commands:
            if command := one.command if isinstance(one, Button) else one.text:
                command_line(visible_line(command))

    def _print_text(self, part: Verbatim) -> None:
        if part.name:
            _print_line(part.name, "dim")
        for line in visible(part.text.expandtabs()).splitlines():
            style = DIFF_STYLES.get(line[:1], "") if part.path else ""
            out.print(Text(line, style), soft_wrap=True)

    def _steps(self, part: Table) -> Grid:
        table = grid(*[""] * len(part.columns))
        for name, *cells in part.rows:
            step = name.text if isinstance(name, Link) else name
            table.add_row(*map(self._cell, (step, *cells)))
        return table

    def _inline(self, cell: object) -> Text:
        """Return a cell of a line, in which the id of a record is what the line is about."""
        text = self._cell(cell)
        text.style = text.style if _id_of(cell) is cell else "bold"
        return text

    def _cell(self, cell: object) -> Text:
        match cell:
            case StateName():
                return cell.as_text()
            case Sentence(text=about, tone=tone):
                text = self._cell(about)
                text.style = text.style or STYLES[tone]
                return text
            case list() | tuple():
                return Text.assemble(*map(self._inline, cell))
        return Text(visible_line(self._words(cell)))

    def _words(self, cell: object) -> str:
        match cell:
            case Link(to=str() as record, text=title):
                return f"{record}  {title}" if title not in ("", record) else record
            case Link(text=text) | Verbatim(text=text):
                return text
            case Time():
                return self._time(cell)
            case Button() | None:
                return ""
        return str(cell)

    def _time(self, time: Time) -> str:
        if time.form == "clock":
            return clock(time.at_ms)
        if self._now_ms is None or time.form == "date":
            return str(time)
        past = age(self._now_ms - time.at_ms)
        return past if time.form == "ago" else f"in {age(time.at_ms - self._now_ms)}"


def _id_of(cell: object) -> object:
    """Return the id of a record in place of the link to it."""
    return cell.to if isinstance(cell, Link) and isinstance(cell.to, str) else cell


def _title_in(row: Sequence[object]) -> str:
    """Return the title of the first record of a row that has one beside its id."""
    links = (cell for cell in row if isinstance(cell, Link) and isinstance(cell.to, str))
    return visible_line(next((link.text for link in links if link.text not in ("", link.to)), ""))


def _print_line(text: str, style: str = "") -> None:
    # Not folded, so that a command in it works when it is pasted into a shell.
    out.print(Text(visible_line(text), style), soft_wrap=True)
