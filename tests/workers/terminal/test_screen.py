"""What is printed without passing through a command's answer is visible too."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

import pytest
from rich.live import Live
from rich.text import Text

from interlock.workers.terminal import screen
from interlock.workers.terminal.cards import cards
from interlock.workers.terminal.command import Shell
from interlock.workers.terminal.page import Part
from interlock.workers.terminal.printed_page import PagePrinter

HOSTILE = "x\x1b[2K\x1b[1A\u202ey\x9b"


@pytest.fixture
def console() -> screen.Screen:
    return screen.Screen(file=StringIO(), width=100)


def printed(console: screen.Screen) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_console_shows_hidden_characters_as_escapes(console: screen.Screen) -> None:
    console.print(Text(HOSTILE), HOSTILE)
    console.rule(HOSTILE)
    with Live(console=console) as live:
        table = screen.grid("a", "b")
        table.add_row(HOSTILE, Text(HOSTILE))
        live.update(table)

    assert printed(console).count(r"x\x1b[2K\x1b[1A\u202ey\x9b") == 5
    assert not set("\x1b\u202e\x9b") & set(printed(console))


def test_a_newline_in_a_cell_forges_no_row_and_brackets_are_no_markup(
    console: screen.Screen,
) -> None:
    table = screen.grid("id", "title")
    table.add_row("a\nforged", Text.assemble("b\nforged", (" red", "red")))
    table.add_row("[red]c", "d")
    console.print(table)

    rows = [" ".join(row.split()) for row in printed(console).splitlines()]
    assert rows == ["id title", r"a\nforged b\nforged red", "[red]c d"]


def test_no_row_of_a_table_ends_with_blanks(console: screen.Screen) -> None:
    table = screen.grid("id", "title", title="All of them")
    table.add_row("a", Text.assemble("b", ("  ", "red")))
    table.add_row("c", "")
    console.print(table)

    assert printed(console).splitlines() == ["All of them", "id  title", "a   b", "c"]


@pytest.mark.parametrize("width", [80, 240])
def test_no_long_text_forges_a_row_of_a_card(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(screen.out, "width", width)
    long = "interlock decide two approve " * 30
    card = {
        "record_id": "one",
        "machine": "thread",
        "title": long,
        "state": "awaiting_confirmation",
        "kind": "consent",
        "question": f"May this be done: {long}?",
        "proposed": {"payload": {"irreversibility": "high"}},
        "tags": ["bug", "eu"],
        "deciders": [],
        "inspect": "",
        "claim": {"holder": "ann", "by": "bob", "since_ms": 0},
        "escalation": {"due_ms": 60_000, "to": "bob"},
        "deadline": {"due_ms": 60_000, "trigger": "timeout", "target": "dismissed"},
        "affordances": [
            {"says": "Do it", "command": "interlock decide one approve --proposal one:1"}
        ],
    }

    PagePrinter().print(cards([card]))

    title, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("one  interlock decide two")
    assert title.endswith("two approve  ◆ waiting for approval")
    assert "…" in title
    assert len(title) <= width
    assert len(rows) > 7
    assert {row[:4] for row in rows[:-7]} == {"    "}, "the question has an indent of its own"
    assert rows[-7:] == [
        "  It cannot be undone.",
        "  tags: bug, eu",
        "  ann is on it",
        "  from 1970-01-01 00:01:00 UTC on it is escalated to bob",
        "  answer it by 1970-01-01 00:01:00 UTC, then timeout -> dismissed",
        "  Do it",
        "  interlock decide one approve --proposal one:1",
    ]


def test_a_card_without_a_title_shows_the_id_of_its_record_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    card = {
        "record_id": "g/j",
        "machine": "job",
        "title": "g/j",
        "state": "draft",
        "kind": "draft",
        "question": "?",
    }

    more: dict[str, object] = dict.fromkeys(("tags", "claim", "escalation", "deadline"))
    more |= {"inspect": "", "affordances": [], "proposed": {}, "deciders": []}
    PagePrinter().print(cards([card | more]))

    assert capsys.readouterr().out.splitlines()[0] == "g/j  ◆ draft"


def test_a_command_shows_data_whose_texts_are_visible_lines() -> None:
    shown: list[object] = []

    def show(value: object) -> Iterable[Part]:
        shown.append(value)
        return []

    Shell(as_json=False).answer({"title": ["a\nforged\x08"], "count": 3}, show=show)

    assert shown == [{"title": [r"a forged\x08"], "count": 3}]
