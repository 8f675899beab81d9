"""Adds the systems of a deployment's own modules, which INTERLOCK_SYSTEMS names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from interlock.kernel.effect import OF_ANY_MACHINE
from interlock.workers.engine.system import System, SystemsError, cause_of, load
from interlock.workers.specs.module import NoModuleError, import_named, is_module_name

if TYPE_CHECKING:  # the command line lists its commands without tables
    from interlock.kernel.effect import Effect
    from interlock.kernel.machine import Machine

_NAME = re.compile(r"[a-z][a-z0-9_]*")
# The names of Celery tasks and queues begin with the name of a machine. These have another use.
_TAKEN = frozenset({"sweep", "answers"})
_ADDED: dict[str, System] = {}  # by the name of the module


def add_systems(modules: Iterable[str], root: Path) -> None:
    """Add the system and the machines of each module, once in a process. Raises SystemsError.

    Modules that are not installed are found in the folder `root`. If one is there, imports find
    that folder from then on: what a system names is imported only when it is needed.
    """
    for module in modules:
        if module not in _ADDED:
            system = _system_of(module, root)
            _add_machines(module, system)
            _ADDED[module] = system
            folder = str(root.absolute())
            is_there = PathFinder.find_spec(module.partition(".")[0], [folder]) is not None
            if is_there and folder not in sys.path:
                sys.path.append(folder)


def added_systems() -> Mapping[str, System]:
    """Return the systems that were added, by the name of the module."""
    return MappingProxyType(_ADDED)


def wrong(module: str, problem: str) -> SystemsError:
    """Return the error of a module that INTERLOCK_SYSTEMS names."""
    return SystemsError(f"INTERLOCK_SYSTEMS: the module {module!r} {problem}")


def _system_of(module: str, root: Path) -> System:
    if not is_module_name(module):
        raise SystemsError(f"INTERLOCK_SYSTEMS: {module!r} is not the name of a module")
    try:
        found = getattr(import_named(module, root), "SYSTEM", None)
    except NoModuleError as refusal:
        raise SystemsError(f"INTERLOCK_SYSTEMS {refusal}") from refusal
    except Exception as failure:
        raise wrong(module, f"cannot be imported: {cause_of(failure)}") from failure
    if not isinstance(found, System):
        raise wrong(
            module, "has no SYSTEM; write SYSTEM = System(...), as docs/own_machines.md says"
        )
    machines = import_module("interlock.kernel.machines")
    taken = {"engine", *machines.BY_SYSTEM, *(system.name for system in _ADDED.values())}
    if found.name in taken:
        raise wrong(module, f"has a system called {found.name}, as another one is; rename it")
    return found


def _add_machines(module: str, system: System) -> None:
    known = import_module("interlock.kernel.machines").MACHINES
    for name, where in system.machines.items():
        if not _NAME.fullmatch(name):
            raise wrong(module, f"has a machine {name!r}; use small letters, digits and _")
        if name in _TAKEN:
            raise wrong(module, f"has a machine {name}, a name that Interlock uses; rename it")
        try:
            known.add(name, partial(_table, module, name, where))
        except ValueError as refusal:
            raise wrong(module, f"cannot add the machine {name}: {refusal}; rename it") from refusal


def _table(module: str, name: str, where: str) -> Machine:
    """Import the table of a machine, and check what only others can get wrong in it."""
    from interlock.kernel.machine import Machine  # noqa: PLC0415 - the help does without it

    try:
        found = load(where)
    except SystemsError as failure:
        raise wrong(module, f"has a machine {name} without a table: {failure}") from failure
    if not isinstance(found, Machine):
        raise wrong(module, f"names {where} as the table of {name}, but that is no Machine")
    if found.name != name:
        raise wrong(module, f"calls its machine {name}, but the table {where} is of {found.name}")
    states = [str(stage.state) for stage in found.stages]
    for effect in found.effects.values():
        _check_effect(module, where, effect)
    for each in (*found.effects, *found.triggers, *states):
        if not _NAME.fullmatch(each):
            problem = f"has the name {each!r} in {where}; use small letters, digits and _"
            raise wrong(module, problem)
    return found


def _check_effect(module: str, where: str, effect: Effect) -> None:
    from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE  # noqa: PLC0415

    common = OF_ANY_MACHINE.get(effect.name)
    if common not in (None, effect):
        also = f"has an effect {effect} in {where}, as Interlock has for every machine"
        raise wrong(module, f"{also}; rename it")
    taken = (INTAKE_QUEUE, SWEEPS_QUEUE)
    if effect.queue and (effect.queue in taken or not _NAME.fullmatch(effect.queue)):
        problem = f"gives the effect {effect} of {where} the queue {effect.queue!r}"
        free = f"use small letters, digits and _, and a name other than {' and '.join(taken)}"
        raise wrong(module, f"{problem}; {free}")
