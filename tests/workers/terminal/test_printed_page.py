"""Pages in a terminal: what each part is printed as, and that no text in one can mislead."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from interlock.kernel.record import Record, RecordId, Version
from interlock.workers.terminal.page import (
    Bar,
    Button,
    Drawing,
    Link,
    LivePart,
    Part,
    Section,
    Sentence,
    StateName,
    Table,
    Time,
    Verbatim,
)
from interlock.workers.terminal.printed_page import PagePrinter

NOW_MS = 1_767_225_600_000
RECORD: Record = Record(RecordId("lib/a"), "task", "open", Version(1), {})
Printed = Callable[..., list[str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def lines(page: Iterable[Part], now_ms: int | None = NOW_MS) -> list[str]:
        PagePrinter(now_ms).print(page)
        return capsys.readouterr().out.splitlines()

    return lines


def test_each_part_is_printed_for_a_terminal(printed: Printed) -> None:
    table = Table(
        ("Task", "State", "Tries", "For", "Host", "Why", "Do"),
        [
            (
                Link("lib/a", "Write it"),
                StateName("task", "failed"),
                12,
                Time(NOW_MS - 300_000),
                "",
                Sentence("no disk", "bad"),
                Button("replay", "Replay", {}, "interlock task replay lib/a"),
            )
        ],
    )
    facts = {"record": Link("lib/a"), "empty": "", "tried": Time(NOW_MS + 60_000, "left")}
    output = LivePart("output", RECORD, parts=[Verbatim("one\n\ttwo", "output")])

    assert printed(
        [
            Section("Work", [Sentence(Link({}, "All")), Sentence("It stands."), facts]),
            table,
            Table(("Job",), [], "There is no job."),
            Bar("Limit of cost", 1, 2, "$1.00 of $2.00 used"),
            Table(
                ("Step", "State", "Took", "Said"),
                [(Link("a/1", "1. fetch"), StateName("job", "success"), "2 s", "")],
                is_strip=True,
            ),
            output,
            Drawing("<svg/>"),
            Button("send", "Send", {}),
            Sentence(Verbatim("interlock job list")),
            Sentence((Link("lib/a"), " is ", StateName("task", "open"))),
            Section("For operators", [{"pid": 12}], is_folded=True),
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
        "1. fetch  ✓ success  2 s",
        "output",
        "one",
        "        two",
        "  interlock job list",
        "lib/a is ○ waiting for an agent",
        "pid  12",
    ]


def test_without_the_time_by_the_store_times_have_their_dates(printed: Printed) -> None:
    facts = {"since": Time(NOW_MS), "due": Time(NOW_MS, "left"), "at": Time(NOW_MS, "clock")}
    assert printed([facts], None) == [
        "since  2026-01-01 00:00:00 UTC",
        "due    2026-01-01 00:00:00 UTC",
        "at     00:00:00.000",
    ]


def test_no_text_adds_a_line_or_moves_the_cursor(printed: Printed) -> None:
    bad = "a\nforged\x1b[2J[red]"
    shown = r"a\nforged\x1b[2J[red]"
    page: list[Part] = [
        Section(bad, [Sentence(bad), Sentence(Verbatim(bad))]),
        {bad: bad},
        Table(("A", "B"), [(Sentence(bad, "ask"), Link(bad, bad))]),
        Bar(bad, 1, 1, bad),
        Sentence((bad, Link(bad))),
    ]
    lines = printed(page)
    assert lines.pop(4) == "a                      b"
    assert len(lines) == 7
    assert all(shown in line for line in lines)
    assert printed([Verbatim("a\x1b[2J\nb")]) == [r"a\x1b[2J", "b"]
