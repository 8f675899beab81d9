"""The parts of which pages consist, as plain data: what people see in a terminal and in a browser.

`printed_page.py` prints them in a terminal, and the console has templates for them; both make text
from outside visible or escape it. The `page.py` of a system makes its parts, and has a
`SystemPage`, which `page` in the registry names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from interlock.kernel.event import Event, Note
from interlock.kernel.meaning import Meaning
from interlock.kernel.record import Record
from interlock.workers.client import Client

Query = Mapping[str, str]  # the view of a page that is asked for, or the fields of a form
# Failed; a person has to act; of little weight; what a line is about; as wished, which has a colour
# in a terminal only.
Tone = Literal["", "bad", "ask", "soft", "strong", "good"]


@dataclass(frozen=True, slots=True)
class RecordLink:
    """A text that leads to the page of a record; without a text, the record's id."""

    kind: ClassVar[str] = "record"
    id: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ViewLink:
    """A text that leads to another view of the page of a system."""

    kind: ClassVar[str] = "view"
    text: str
    query: Query


@dataclass(frozen=True, slots=True)
class StateName:
    """What people call a state, in the colour and shape of what it means, as far as that is known.

    `state_name` makes it of the state of a machine.
    """

    kind: ClassVar[str] = "state"
    words: str
    meaning: Meaning | None


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text that needs to be looked at, or that does not."""

    kind: ClassVar[str] = "marked"
    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Since:
    """A time by the store in ms, shown as how long ago it was."""

    kind: ClassVar[str] = "since"
    at_ms: int


@dataclass(frozen=True, slots=True)
class Until:
    """A time by the store in ms, shown as how long it is until then; `what` happens then, or ''."""

    kind: ClassVar[str] = "until"
    at_ms: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class CopyableText:
    """A command, path or name, in a fixed-width face and with a button that copies it."""

    kind: ClassVar[str] = "copyable"
    text: str


@dataclass(frozen=True, slots=True)
class Button:
    """A button that does one of the page's acts; `command` does the same in a terminal."""

    kind: ClassVar[str] = "button"
    act: str
    text: str
    fields: Query
    command: str = ""


Link = RecordLink | ViewLink
Cell = str | int | Link | StateName | MarkedText | Since | Until | CopyableText | Button


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or a link of its own. In a soft one, what is between backticks can be copied."""

    kind: ClassVar[str] = "sentence"
    text: Cell
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Texts, states and links one after the other, with no blank between them."""

    kind: ClassVar[str] = "line"
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Quote:
    """What others wrote, or a reason, with an indent of its own: no line of it looks like ours."""

    kind: ClassVar[str] = "quote"
    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class NamedCells:
    """Names with what they stand for. An empty text is left out.

    Where there is a `summary`, a page of the console shows only this until a person opens it.
    """

    kind: ClassVar[str] = "facts"
    rows: Mapping[str, Cell]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their columns; `empty` is the soft sentence if there is none.

    A `summary` folds it as it folds NamedCells.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class LongText:
    """A text of several lines in a fixed-width face.

    With a `path` it is the diff of this file, in which what was added or removed shows.
    """

    kind: ClassVar[str] = "text"
    text: str
    name: str = ""
    path: str = ""


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
class StripStep:
    """One step of a strip: its record, its state, and what it took, as lines of text."""

    name: str
    state: StateName
    lines: Sequence[str] = ()
    record: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """Steps that follow each other."""

    kind: ClassVar[str] = "strip"
    steps: Sequence[StripStep]


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG element. It is not escaped: every text in it must be."""

    kind: ClassVar[str] = "drawing"
    svg: str


@dataclass(frozen=True, slots=True)
class InputField:
    """A field of a form: one line, several (`long`), one of the `choices`, or a tick (`yes`)."""

    name: str
    label: str
    form: Literal["text", "long", "choice", "yes"] = "text"
    choices: Sequence[str] = ()
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class ActForm:
    """A form whose button does one of the page's acts, with `hidden` beside what is written."""

    kind: ClassVar[str] = "form"
    act: str
    button: str
    fields: Sequence[InputField]
    hidden: Query = field(default_factory=dict)


StillPart = (
    Sentence | Line | Quote | NamedCells | Table | LongText | Bar | Strip | Drawing | ActForm
)


@dataclass(frozen=True, slots=True)
class LivePart:
    """What a worker publishes of a record, renewed by itself as soon as there is something newer.

    It is the `output` of the record's agent, or its `diff`; a page has one of each at most. The
    `query` says which diff. `stamp` changes with what is to be shown. A part that is not followed
    is not renewed.
    """

    kind: ClassVar[str] = "live"
    what: Literal["output", "diff"]
    record: str
    stamp: str
    parts: Sequence[StillPart]
    query: Query = field(default_factory=dict)
    is_followed: bool = True


Part = StillPart | LivePart


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading. Where it is live, what it shows is renewed by itself.

    The page of a card has one that comes `first` above the question, and a `wide` one below it. On
    the page of a record, one that is for reference comes after what has happened.
    """

    title: str
    parts: Sequence[Part]
    is_live: bool = True
    place: Literal["", "first", "wide"] = ""
    is_reference: bool = False


Page = Iterable[Part | Section]  # as a command prints it


@dataclass(frozen=True, slots=True)
class SlowSection:
    """A section that takes long to read and seldom changes; `name` distinguishes those of a view.

    The console keeps it for some seconds, for all who look at the same view. `read` returns None
    where there is nothing to show.
    """

    name: str
    read: Callable[[], Section | None]


@dataclass(frozen=True, slots=True)
class PageAct:
    """What a button or form of a page does, and which right of the API that needs.

    `run` gets the fields that were sent, and returns where the page goes then. It raises a
    KernelError if it is refused.
    """

    needs: Literal["submit", "operate"]
    run: Callable[[Client, Query], RecordLink | ViewLink]


@dataclass(frozen=True, slots=True)
class ToldLine:
    """What a line of a log says to people: a sentence, and below it words and values.

    A line whose text is '' only says how the work was carried out, and is folded.
    """

    text: str
    parts: Sequence[StillPart] = ()


Teller = Callable[[Sequence[Event | Note]], Mapping[str, ToldLine]]


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
    notice: Line | None = None


@dataclass(frozen=True, slots=True)
class SystemPage:
    """The page of a system in the console: what it shows, to whom, and what people can do there.

    Only those who may see the records of all these `machines` see it and use its acts. `view`
    returns its sections; the query is empty at first, and else that of a `ViewLink`. `panels` give,
    for a machine, the sections that the page of each of its records shows in addition. `tellers`
    give, for a machine, what tells the lines of a log, the oldest first, by their positions: lines
    that a teller leaves out are told as those of any machine.
    """

    title: str
    question: str
    machines: Sequence[str]
    view: Callable[[Client, Query], Sequence[Section | SlowSection]]
    panels: Mapping[str, Callable[[Client, Record], Sequence[Section]]] = field(
        default_factory=dict
    )
    tellers: Mapping[str, Teller] = field(default_factory=dict)
    acts: Mapping[str, PageAct] = field(default_factory=dict)
