"""The description of one system in the registry, read by entries, operators' tools and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class System:
    """One system. Modules are given by name, so that each process imports only those it needs.

    `effects` is the package whose `HANDLERS` run its effects, `sweeps` the one with its `SWEEPS`.
    `resources` lists the openers of its models and other outside things, as `module:function`; a
    worker calls all of them at its start, so that a wrong setting ends the start. `facts` lists
    what a machine with agents announces when its worker starts: each with the opener of a thing
    that the machine has or lacks. `commands` gives the module of each group of commands, whose
    `app` is mounted under that name, or at the top level for the name ''. `submit` gives, for a
    machine whose plain messages need more than a new record, the `module:function` that accepts
    them. `counted` lists the machines whose records `interlock top` counts by state, `shown` the
    fields of a record's data that `interlock show` prints if they are set.
    """

    name: str
    effects: str
    sweeps: str = ""
    resources: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    submit: Mapping[str, str] = field(default_factory=dict)
    counted: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def load(name: str) -> Any:
    """Import what the registry names as `module:attribute`, and return it."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
