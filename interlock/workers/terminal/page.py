"""The parts of which pages consist, as plain data: what people see in a terminal and in a browser.

`printed_page.py` prints them in a terminal, and the console has templates for them; both make text
from outside visible or escape it. The `page.py` of a system makes its parts, and has a
`SystemPage`, which `page` in the registry names.

A cell is any value: a text or number is shown as it is, and None as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import BaseModel
from rich.text import Text

from interlock.kernel.event import Event, Note
from interlock.kernel.machines import MACHINES
from interlock.kernel.meaning import Meaning
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import as_words, shown_stage, shown_state
from interlock.workers.client import Client
from interlock.workers.terminal.screen import state_text
from interlock.workers.text import moment, visible_line

Tone = Literal["", "bad", "ask", "soft", "strong", "good"]


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to the page of a record, or to another view of the page of a system.

    `to` is the record's id, which is shown where there is no text, or the query of the view.
    """

    kind: ClassVar[str] = "link"
    to: str | Mapping[str, str]
    text: str = ""


@dataclass(frozen=True, slots=True)
class StateName:
    """What people call a state of a machine, in the colour and shape of what it means.

    `asks` says whether the record in it waits for a person. Without it, of many records or none,
    the state means that only if it asks a person in every record. A state of a machine that is not
    there any more has its name alone.
    """

    kind: ClassVar[str] = "state"
    machine: str
    state: str
    asks: bool | None = None
    words: str = field(init=False)
    meaning: Meaning | None = field(init=False)

    def __post_init__(self) -> None:
        """Look the state up in the table of its machine."""
        words, meaning = as_words(self.state), None
        if self.machine in MACHINES:
            found = shown_state(MACHINES[self.machine], self.state, asks=self.asks)
            words, meaning = found.words, found.meaning
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "meaning", meaning)

    @classmethod
    def of(cls, record: Record) -> StateName:
        """Return the state of a record."""
        machine = MACHINES.get(record.machine)
        asks = machine and shown_stage(machine, record.state).waits_for_person(record.data)
        return cls(record.machine, record.state, bool(asks))

    def as_text(self) -> Text:
        """Return the state as a terminal shows it, such as for a row of `interlock top`."""
        return state_text(visible_line(self.words), self.meaning)


@dataclass(frozen=True, slots=True)
class Time:
    """A time in ms since 1970, by the store.

    It is shown by its `form`, in UTC: how long `ago` it was, how long is `left` until then, `date`
    and time, or as `clock` the time of the day alone, such as below a date. str() has the date.
    """

    kind: ClassVar[str] = "time"
    at_ms: float
    form: Literal["ago", "left", "date", "clock"] = "ago"

    def __str__(self) -> str:
        """Return the time by its date: "2026-01-31 23:59:59 UTC"."""
        return moment(self.at_ms)


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text in a fixed-width face.

    In a cell, it is a command, path or name that people copy: it has a button for that. As a part
    of its own, it has several lines, below its `name`. With a `path` it is the diff of this file,
    in which what was added or removed shows.
    """

    kind: ClassVar[str] = "verbatim"
    text: str
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """A button that does one of the page's acts; `command` does the same in a terminal.

    The act gets these fields. As a part of its own, it ends a form for what else the act takes.
    """

    kind: ClassVar[str] = "button"
    act: str
    text: str
    fields: Mapping[str, str]
    command: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A cell with a tone, or several cells one after the other with no blank between them.

    It is a paragraph or, in a cell, a part of one. What failed is `bad`; a person has to act where
    it is an `ask`; what has little weight is `soft`, and in such a paragraph what is between
    backticks can be copied. `strong` is what a line is about. What is as wished is `good`, which
    has a colour in a terminal only. A text that `is_quoted` is what others wrote, or a reason: it
    has an indent of its own, so that no line of it looks like ours.
    """

    kind: ClassVar[str] = "sentence"
    text: object
    tone: Tone = ""
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under the names of their columns; `empty` is the soft sentence if none is.

    With `is_strip` each row is a step that follows the one before: its name or link, its
    `StateName`, then any cells; empty cells are left out.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str = ""
    is_strip: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """How much of an allowed amount is used, and the same in words."""

    kind: ClassVar[str] = "bar"
    name: str
    used: float
    allowed: float
    text: str
    tone: Tone = ""

    @property
    def share(self) -> int:
        """Return the used part of a hundred, which is never more than it."""
        return min(100, round(100 * self.used / self.allowed)) if self.allowed > 0 else 100


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG element. It is not escaped: every text in it must be."""

    kind: ClassVar[str] = "drawing"
    svg: str


@dataclass(frozen=True, slots=True)
class LivePart:
    """What an agent prints for a record (`output`), or the difference of its files (`diff`).

    The rows `outputs` and `diffs` of the system say where that is; `between` says which difference,
    where a record has several. A page has one of each at most, and the console renews it by itself.

    `parts`, `stamp` and `is_followed` are filled in by Interlock: leave them out.
    """

    kind: ClassVar[str] = "live"
    what: Literal["output", "diff"]
    record: Record
    between: str = ""
    parts: Sequence[Part] = ()
    stamp: str = ""
    is_followed: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading. Where it is live, what it shows is renewed by itself.

    The page of a card has one that comes `first` above the question, and a `wide` one below it. On
    the page of a record, one that is for reference comes after what has happened. A section may be
    a part of another one. Of one that is folded, a page of the console shows the title alone until
    a person opens it. One that `is_once` is left out beside a card where a section that is `first`
    or `wide` says the same.

    Where its parts take long to read and seldom change, `read` returns them in the view of a page:
    the console keeps them for some seconds, for all who look at the same view. It does not show the
    section where there are none.
    """

    kind: ClassVar[str] = "section"
    title: str
    parts: Sequence[Part] = ()
    is_live: bool = True
    place: Literal["", "first", "wide"] = ""
    is_reference: bool = False
    is_folded: bool = False
    is_once: bool = False
    read: Callable[[], Sequence[Part]] | None = None


# A mapping is names with the cells that they stand for: one that is '' or None is left out.
Part = (
    Mapping[str, object] | Sentence | Table | Verbatim | Bar | Drawing | Button | LivePart | Section
)


@dataclass(frozen=True, slots=True)
class PageAct:
    """What a button of a page does, and which right of the API that needs.

    `run` gets the fields that were sent, and returns where the page goes then. It raises a
    KernelError if it is refused. `takes` is the model of what people write or choose before, where
    they do: texts (of one line where `max_length` is at most 60), choices and ticks, each under its
    description or its name. `run` gets their texts, which nobody has checked; a tick is "yes".
    """

    needs: Literal["submit", "operate"]
    run: Callable[[Client, Mapping[str, str]], Link]
    takes: type[BaseModel] | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What a system says of whether it works, beside what is said of all work.

    `problems` are sentences about what is wrong, with what to do; `facts` are lines of `interlock
    doctor`. `gauges` are metrics, by the name after `interlock_`: their meaning, and the value.
    `notice` is a line of the console's start page, for those who may see all records.
    """

    problems: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    gauges: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    notice: Sentence | None = None


@dataclass(frozen=True, slots=True)
class SystemPage:
    """The page of a system in the console: what it shows, to whom, and what people can do there.

    `title` is its name in lists of pages, and `question`, which the page answers, its heading.
    Only those who may see the records of all these `machines` see it and use its acts. `view`
    returns its sections; the query is empty at first, and else that of a `Link`. `panels` give,
    for a machine, the sections that the page of each of its records shows in addition. `timelines`
    has, by machine, a function from the lines of a log, the oldest first, to a `Section` for each
    `line.position`. Its title is the sentence of the line for people; an empty title folds the
    line. The console puts the names and values of the section in words, and words a line without
    one as for any machine.
    """

    title: str
    question: str
    machines: Sequence[str]
    view: Callable[[Client, Mapping[str, str]], Sequence[Section]]
    panels: Mapping[str, Callable[[Client, Record], Sequence[Section]]] = field(
        default_factory=dict
    )
    timelines: Mapping[str, Callable[[Sequence[Event | Note]], Mapping[str, Section]]] = field(
        default_factory=dict
    )
    acts: Mapping[str, PageAct] = field(default_factory=dict)
