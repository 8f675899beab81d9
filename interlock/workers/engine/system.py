"""The description of one system in the registry, read by entries, operators' tools and tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from interlock.kernel.blame import PlacedError, blamed

if TYPE_CHECKING:  # the command line lists its commands without tables and handlers
    from interlock.kernel.machine import Machine
    from interlock.workers.engine.work import Handler

D = TypeVar("D")


class SystemsError(PlacedError):
    """A system is wrong, or claims the name of another. The message says what to change."""


class Panel(StrEnum):
    """The headings of `interlock --help`, in their order."""

    START = "Start here"
    LOOK = "Look"
    DECIDE = "Decide"
    OPERATE = "Operate"
    WORK = "Work"
    AGENTS = "For agents"


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command, or a group of commands, of the command line.

    `source` is the command's function or the group's typer app, as `module:attribute`; it is
    imported when the command is run. Groups of the same name are shown as one. `help` is the first
    sentence of the function's docstring, or the group's help.
    """

    name: str
    source: str
    panel: Panel
    help: str


@dataclass(frozen=True, slots=True)
class StarvedCount:
    """How many records will never go on by themselves although no person is asked.

    `is_minimum`: not all records that could be starved were looked at.
    """

    number: int
    is_minimum: bool = False


@dataclass(frozen=True, slots=True)
class RecordWords:
    """What the data of a record say in words, by the names that `System.words` explains."""

    request: str = ""
    sender: str = ""
    said: Sequence[str] = ()
    proposals: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """How a person creates a record with a title alone, by the names that `System.plain` explains.

    `payload` is the function itself.
    """

    machine: str
    says: str
    example: str
    command: str
    payload: Callable[[str, str], Mapping[str, Any]]


class Definition(ABC, Generic[D]):
    """What a module may have instead of a SYSTEM: all that one kind of record is, in one object.

    `name` is that of its machine, `data` the model of what its records know, and `place` the file
    and line where it was made.
    """

    MADE: ClassVar[list[Definition[Any]]] = []  # every one of this process

    def __init__(self, name: str, data: type[D], place: str) -> None:
        self.name, self.data, self.place = name, data, place
        self.MADE.append(self)

    @property
    @abstractmethod
    def machine(self) -> Machine:
        """The checked table."""

    @property
    @abstractmethod
    def handlers(self) -> Mapping[str, Handler]:
        """The handler of each effect, by the effect's name."""

    @property
    @abstractmethod
    def children(self) -> SimpleNamespace:
        """The definitions of its children, by the names of the states that wait for them."""

    @abstractmethod
    def as_payload(self, data: object) -> Mapping[str, Any]:
        """Return what a record with this data is created from. Raises InvalidPayloadError."""

    @abstractmethod
    def load(self, data: Mapping[str, Any]) -> D:
        """Return the data of a record as their model."""

    @property
    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """The fields of a record's data that people are shown."""


@dataclass(frozen=True, slots=True)
class System:
    """One system. Modules are given by name, so that each process imports only those it needs.

    Below, a place is a text `module:attribute`, and what is given by machine is a mapping whose
    keys are the names of machines.

    - `effects`: the package whose `HANDLERS` run its effects, by the name of the effect or, for one
      machine alone, by `machine.effect`
    - `sweeps`: the package with its `SWEEPS`
    - `handlers`: by machine, the place of a mapping of its handlers; in place of `effects`
    - `settings`: the place of the model of its settings, a `SystemSettings`
    - `resources`: the places of the functions that open its models and other outside things; a
      worker calls all of them at its start, so that a wrong setting ends the start
    - `facts`: what a computer with agents announces when its worker starts: each fact says whether
      it has a thing that it may lack, and is given with the opener of that thing
    - `commands`: its commands and groups of commands
    - `submit`: by machine whose records a plain message of a producer may create, the place of the
      function that accepts the message; a machine of `machines` needs none
    - `messages`: the same by the name of each further kind of plain message
    - `messages_about`: by kind of message, the one machine whose records it is about
    - `machines`: by machine, the place of its table
    - `unlisted`: the machines whose records are in no lists, counts, cards, events and webhooks
    - `details`: by machine, the place of the function that returns what `interlock show` prints of
      its records instead of `shown`
    - `evidence`: by machine, the place of the function that yields what the console shows beside
      the cards of its records, each a `Section`
    - `outputs`: by machine whose records have an agent that prints something, the place of a
      function of a `Client`, a `Record` and the number of a run from 1, such as a session (None:
      the last run). It returns the computer, the folder of the logs below the home of Interlock
      there, and the number; or None before there is a run. Each run needs a folder of its own
    - `diffs`: by machine whose records have a difference of files that only one computer can
      compare, the place of its `DiffSource`
    - `starved`: the place of the function that counts records which will never go on by themselves
      although no person is asked. It gets the `Records`, and returns their number, and whether
      there may be more because not all were looked at
    - `counted`: the machines whose records `interlock top` counts by state
    - `shown`: the fields of a record's data that `interlock show` prints if they are set
    - `asked`, `came`: by machine, the fields of its records' data that say what was asked and what
      came of it, in their order: `request.text` is the field `text` of `request`
    - `by_hand`: the place of the commands by which people fire triggers of its records: a mapping
      from `machine.trigger` to a command with `{id}`, or `{root}` for the id of the root record, in
      it; `machine` alone gives the command that begins ended work anew
    - `words`: by machine, the place of the function that says in words what the data of its records
      ask and propose. It returns a mapping with those that there are of `request` (what was asked
      for, its title as the first paragraph), `sender` (who asked), `said` (a list of what people
      wrote of the call that is proposed now) and `proposals` (what is proposed, by the name of the
      phase)
    - `plain`: the records that people create with a title alone, which a message means that names
      no machine: their `machine`, what such a record is (`says`), a title as an `example`, the
      `command` that creates it, and as `payload` the place of the function that returns what it is
      created from, given the title and where it was written
    - `page`: the place of its page of the console, a `SystemPage`
    - `health`: the place of the function that returns from the `Records` what doctor, metrics and
      the start page say of it besides, a `Health`
    - `top`: the place of its `TopPart`, which it adds to `interlock top`
    - `tools`: the module of the tools of agents that it adds: READS and SUBMITS are functions that
      get a `ToolCall`
    - `folders`: the folders that it makes in the home of a deployment, which `interlock remove`
      deletes
    """

    name: str
    effects: str = ""
    sweeps: str = ""
    handlers: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    resources: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[CommandRow, ...] = ()
    submit: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    messages_about: Mapping[str, str] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    diffs: Mapping[str, str] = field(default_factory=dict)
    starved: str = ""
    counted: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    came: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_hand: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    plain: Mapping[str, str] = field(default_factory=dict)
    page: str = ""
    health: str = ""
    top: str = ""
    tools: str = ""
    folders: tuple[str, ...] = ()


def load(name: str) -> Any:
    """Import what the registry names as `module:attribute`, and return it.

    Raises SystemsError if a module that is not a part of Interlock does not have it.
    """
    module, _, attribute = name.partition(":")
    try:
        return attrgetter(attribute)(import_module(module))
    except Exception as failure:
        if module.startswith("interlock."):
            raise
        raise SystemsError(f"{name} cannot be loaded: {blamed(failure, otherwise='')}") from failure
