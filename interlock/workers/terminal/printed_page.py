"""Prints the parts of a page in a terminal, as the templates of the console draw them in a browser.

What only a browser can do is left out: links to other views, forms, drawings. In place of a button
the command is printed that does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.padding import Padding
from rich.text import Text

from interlock.workers.terminal.page import (
    Bar,
    Button,
    Cell,
    CopyableText,
    Line,
    LivePart,
    LongText,
    MarkedText,
    NamedCells,
    Page,
    Part,
    Quote,
    RecordLink,
    Section,
    Sentence,
    Since,
    StateName,
    Strip,
    Table,
    Tone,
    Until,
    ViewLink,
)
from interlock.workers.terminal.screen import Grid, command_line, grid, out, state_text
from interlock.workers.text import age, moment, visible, visible_line

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
    """Prints pages. Times are told from `now_ms` on; without it, by their dates.

    What others wrote is made visible, and one line where a second one could be taken for ours.
    """

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = now_ms

    def print(self, page: Page) -> None:
        """Print the parts of a page, one below the other."""
        for part in page:
            if isinstance(part, Section):
                out.print(Text(visible_line(part.title), "bold"))
                self.print(part.parts)
            else:
                self._print_part(part)

    def _print_part(self, part: Part) -> None:
        match part:
            case Sentence():
                self._print_sentence(part)
            case Line(cells=cells):
                # Not folded, so that it is one line for grep.
                out.print(Text.assemble(*map(self._inline, cells)), soft_wrap=True)
            case Quote(text=text, tone=tone):
                said = Text(visible_line(text), STYLES[tone])
                out.print(Padding(said, QUOTE_PADDING, expand=False))
            case NamedCells():
                out.print(self._named(part))
            case Table():
                self._print_table(part)
            case LongText():
                self._print_text(part)
            case Bar():
                _print_line(f"{part.name}: {part.text}", STYLES[part.tone])
            case Strip():
                out.print(self._steps(part))
            case LivePart():
                self.print(part.parts)

    def _print_sentence(self, part: Sentence) -> None:
        match part.text:
            case ViewLink():
                pass
            case CopyableText(text=command):
                command_line(visible_line(command))
            case cell:
                text = self._cell(cell)
                text.style = text.style or STYLES[part.tone]
                # Not folded, so that a command in it works when it is pasted into a shell.
                out.print(text, soft_wrap=True)

    def _named(self, part: NamedCells) -> Grid:
        facts = grid("", "")
        # Folded, so that no path and no command is cut.
        facts.columns[-1].no_wrap, facts.columns[-1].overflow = False, "fold"
        for name, cell in part.rows.items():
            if cell != "":
                facts.add_row(name, self._cell(cell))
        return facts

    def _print_table(self, part: Table) -> None:
        if not part.rows:
            if part.empty:
                _print_line(part.empty, "dim")
            return
        # Commands are the last column. They are printed below, where nothing is cut or folded.
        commands = [cell for row in part.rows if isinstance(cell := row[-1], Button | CopyableText)]
        width = len(part.columns) - bool(commands)
        titles = [_title_in(row) for row in part.rows]
        names = [name.lower() for name in part.columns[:width]]
        table = grid(*names[:-1], f"title, {names[-1]}" if any(titles) else names[-1])
        for column, cell in zip(table.columns[:-1], part.rows[0], strict=False):
            column.justify = "right" if isinstance(cell, int) else "left"
        for row, title in zip(part.rows, titles, strict=True):
            # The title stands in the last column, which alone is cut where the terminal is narrow.
            ids = (cell.id if isinstance(cell, RecordLink) else cell for cell in row[:width])
            *shown, last = map(self._cell, ids)
            # An empty cell has a dash, so that each text stands below its column's name.
            about = Text.assemble(title, "  " if title and last else "", last)
            table.add_row(*(cell or Text("-", "dim") for cell in shown), about)
        out.print(table)
        for one in commands:
            if command := one.command if isinstance(one, Button) else one.text:
                command_line(visible_line(command))

    def _print_text(self, part: LongText) -> None:
        if part.name:
            _print_line(part.name, "dim")
        for line in visible(part.text.expandtabs()).splitlines():
            style = DIFF_STYLES.get(line[:1], "") if part.path else ""
            out.print(Text(line, style), soft_wrap=True)

    def _steps(self, part: Strip) -> Grid:
        lines = max((len(step.lines) for step in part.steps), default=0)
        table = grid(*[""] * (2 + lines))
        for step in part.steps:
            rest = [*step.lines, *[""] * (lines - len(step.lines))]
            table.add_row(step.name, self._cell(step.state), *rest)
        return table

    def _inline(self, cell: Cell) -> Text:
        """Return a cell of a line, in which the id of a record is what the line is about."""
        text = self._cell(cell)
        text.style = "bold" if isinstance(cell, RecordLink) else text.style
        return text

    def _cell(self, cell: Cell) -> Text:
        match cell:
            case StateName(words=words, meaning=meaning):
                return state_text(visible_line(words), meaning)
            case MarkedText(text=text, tone=tone):
                return Text(visible_line(text), STYLES[tone])
        return Text(visible_line(self._words(cell)))

    def _words(self, cell: Cell) -> str:
        match cell:
            case RecordLink(id=record, text=title):
                return f"{record}  {title}" if title not in ("", record) else record
            case ViewLink(text=text) | CopyableText(text=text):
                return text
            case Since(at_ms=at_ms):
                return moment(at_ms) if self._now_ms is None else age(self._now_ms - at_ms)
            case Until(at_ms=at_ms, what=what):
                left = "" if self._now_ms is None else f"in {age(at_ms - self._now_ms)}"
                return f"{what} {left or moment(at_ms)}".strip()
            case Button():
                return ""
        return str(cell)


def _title_in(row: Sequence[Cell]) -> str:
    """Return the title of the first record of a row that has one beside its id."""
    links = (cell for cell in row if isinstance(cell, RecordLink))
    return visible_line(next((link.text for link in links if link.text not in ("", link.id)), ""))


def _print_line(text: str, style: str = "") -> None:
    # Not folded, so that a command in it works when it is pasted into a shell.
    out.print(Text(visible_line(text), style), soft_wrap=True)
