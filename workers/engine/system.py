"""The description of one system in the registry, read by entries, operators' tools and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any


class Panel(StrEnum):
    """The headings of `interlock --help`, in their order."""

    START = "Start here"
    LOOK = "Look"
    DECIDE = "Decide"
    OPERATE = "Operate"
    WORK = "Coding tasks, jobs, long-lived agents, runs"
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
class System:
    """One system. Modules are given by name, so that each process imports only those it needs.

    `effects` is the package whose `HANDLERS` run its effects, `sweeps` the one with its `SWEEPS`.
    `resources` lists the openers of its models and other outside things, as `module:function`; a
    worker calls all of them at its start, so that a wrong setting ends the start. `facts` lists
    what a machine with agents announces when its worker starts: each with the opener of a thing
    that the machine has or lacks. `commands` lists its commands and groups of commands. `submit`
    gives, for a machine whose plain messages need more than a new record, the `module:function`
    that accepts them. `counted` lists the machines whose records `interlock top` counts by state,
    `shown` the fields of a record's data that `interlock show` prints if they are set.
    """

    name: str
    effects: str
    sweeps: str = ""
    resources: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[CommandRow, ...] = ()
    submit: Mapping[str, str] = field(default_factory=dict)
    counted: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def load(name: str) -> Any:
    """Import what the registry names as `module:attribute`, and return it."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
