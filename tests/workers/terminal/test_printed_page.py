"""Pages in a terminal: what each part is printed as, and that no text in one can mislead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.kernel.meaning import Meaning
from interlock.workers.terminal.page import (
    ActForm,
    Bar,
    Button,
    CopyableText,
    Drawing,
    InputField,
    Line,
    LivePart,
    LongText,
    MarkedText,
    NamedCells,
    Page,
    RecordLink,
    Section,
    Sentence,
    Since,
    StateName,
    Strip,
    StripStep,
    Table,
    Until,
    ViewLink,
)
from interlock.workers.terminal.printed_page import PagePrinter

NOW_MS = 1_767_225_600_000
Printed = Callable[..., list[str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def lines(page: Page, now_ms: int | None = NOW_MS) -> list[str]:
        PagePrinter(now_ms).print(page)
        return capsys.readouterr().out.splitlines()

    return lines


def test_each_part_is_printed_for_a_terminal(printed: Printed) -> None:
    table = Table(
        ("Task", "State", "Tries", "For", "Host", "Why", "Do"),
        [
            (
                RecordLink("lib/a", "Write it"),
                StateName("failed", Meaning.FAILED),
                12,
                Since(NOW_MS - 300_000),
                "",
                MarkedText("no disk", "bad"),
                Button("replay", "Replay", {}, "interlock task replay lib/a"),
            )
        ],
    )
    facts = NamedCells(
        {"record": RecordLink("lib/a"), "empty": "", "tried": Until(NOW_MS + 60_000)}
    )
    output = LivePart("output", "lib/a", "1", [LongText("one\n\ttwo", "output")])

    assert printed(
        [
            Section("Work", [Sentence(ViewLink("All", {})), Sentence("It stands."), facts]),
            table,
            Table(("Job",), [], "There is no job."),
            Bar("Limit of cost", 1, 2, "$1.00 of $2.00 used"),
            Strip([StripStep("1. fetch", StateName("done", Meaning.DONE), ("2 s", "well"))]),
            output,
            Drawing("<svg/>"),
            ActForm("send", "Send", [InputField("text", "Text")]),
            Sentence(CopyableText("interlock job list")),
            Line((RecordLink("lib/a"), " is ", StateName("open", Meaning.WAITS))),
        ]
    ) == [
        "Work",
        "It stands.",
        "record  lib/a",
        "tried   in 60 s",
        "task   state     tries  for    host  title, why",
        "lib/a  ✗ failed     12  5 min  -     Write it  no disk",
        "  interlock task replay lib/a",
        "There is no job.",
        "Limit of cost: $1.00 of $2.00 used",
        "1. fetch  ✓ done  2 s  well",
        "output",
        "one",
        "        two",
        "  interlock job list",
        "lib/a is ○ open",
    ]


def test_without_the_time_by_the_store_times_have_their_dates(printed: Printed) -> None:
    facts = NamedCells({"since": Since(NOW_MS), "due": Until(NOW_MS, "wakes")})
    assert printed([facts], None) == [
        "since  2026-01-01 00:00:00 UTC",
        "due    wakes 2026-01-01 00:00:00 UTC",
    ]


def test_no_text_adds_a_line_or_moves_the_cursor(printed: Printed) -> None:
    bad = "a\nforged\x1b[2J[red]"
    shown = r"a\nforged\x1b[2J[red]"
    page: Page = [
        Section(bad, [Sentence(bad), Sentence(CopyableText(bad))]),
        NamedCells({bad: bad}),
        Table(("A", "B"), [(MarkedText(bad, "ask"), RecordLink(bad, bad))]),
        Bar(bad, 1, 1, bad),
        Line((bad, RecordLink(bad))),
    ]
    lines = printed(page)
    assert lines.pop(4) == "a                      b"
    assert len(lines) == 7
    assert all(shown in line for line in lines)
    assert printed([LongText("a\x1b[2J\nb")]) == [r"a\x1b[2J", "b"]
