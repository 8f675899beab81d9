"""The parts of which a page is made, in the terminal and in the console alike.

A page is data: sections of sentences, tables and links. The terminal prints the parts with rich,
the console renders them with its templates. A part may be a mapping, which is names with what they
stand for, and a cell of a part is any value:

    yield Section(
        "Payment",
        [
            {"state": StateName.of(record), "due": Time(due_ms, "left")},
            Table(("Item", "Price"), [(item, 12), (other, 30)], empty="Nothing is on it."),
            Sentence("It is paid by hand.", "soft"),
        ],
    )
"""

from __future__ import annotations

from interlock.workers.engine.record_diff import DiffSource
from interlock.workers.layout import Layout
from interlock.workers.terminal.page import (
    Bar,
    Button,
    Drawing,
    Health,
    Link,
    LivePart,
    PageAct,
    Part,
    Section,
    Sentence,
    StateName,
    SystemPage,
    Table,
    Time,
    Verbatim,
)

__all__ = [
    "Bar",
    "Button",
    "DiffSource",
    "Drawing",
    "Health",
    "Layout",
    "Link",
    "LivePart",
    "PageAct",
    "Part",
    "Section",
    "Sentence",
    "StateName",
    "SystemPage",
    "Table",
    "Time",
    "Verbatim",
]
