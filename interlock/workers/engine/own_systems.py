"""Adds the systems that a process runs: those that INTERLOCK_SYSTEMS names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

from interlock.kernel.blame import blamed
from interlock.kernel.effect import OF_ANY_MACHINE
from interlock.kernel.machines import MACHINES
from interlock.systems import NAMES, module_of
from interlock.workers.engine.system import (
    Definition,
    PlainRequest,
    System,
    SystemsError,
    load,
)
from interlock.workers.specs.module import NoModuleError, import_named, is_module_name

if TYPE_CHECKING:  # the command line lists its commands without tables
    from interlock.kernel.effect import Effect
    from interlock.kernel.machine import Machine
    from interlock.workers.config import Settings

_NAME = re.compile(r"[a-z][a-z0-9_]*")
# The names of Celery tasks and queues begin with the name of a machine. These have another use.
_TAKEN = frozenset({"answers", "intake", "sweep", "sweeps"})
_ADDED: dict[str, System] = {}  # by the name in INTERLOCK_SYSTEMS
# The rows of a system that give something by machine: places, or other values, or names alone.
PLACES_OF_MACHINES = ("handlers", "submit", "details", "evidence", "outputs", "diffs", "words")
OF_MACHINES = ("unlisted", "counted", "asked", "came")
ENTRY_POINTS, FILE = "interlock.systems", ".py"


def add_systems(names: Iterable[str], root: Path) -> None:
    """Add the system and the machines of each name, once in a process. Raises SystemsError.

    A name is that of a system of Interlock, such as `threads`, or that of a module, or a file such
    as `refund.py`, or what a distribution that is installed calls a module in its entry points
    `interlock.systems`. Modules that are not installed
    and files are found in the folder `root`. If one is there, imports find its folder from then on:
    what a system names is imported only when it is needed.
    """
    for name in names:
        if name not in _ADDED and name in NAMES:
            _add_ours(name)
        elif name not in _ADDED:
            module, folder = _place_of(name, root)
            imported = _imported(name, module, folder)
            definitions = _definitions_in(imported)
            system = _system_of(name, module, imported, definitions)
            _add_machines(name, system)
            _ADDED[name] = system
            place = str(folder.absolute())
            is_there = PathFinder.find_spec(module.partition(".")[0], [place]) is not None
            if is_there and place not in sys.path:
                sys.path.append(place)


def add_systems_of(settings: Settings) -> None:
    """Add the systems that settings name, and read the settings of those that are not ours.

    Raises SystemsError, and SettingsError for a variable that no system knows.
    """
    add_systems(settings.systems, settings.capabilities_root)
    from interlock.workers.config import SystemSettings  # noqa: PLC0415 - the help does without it

    models = []
    for name in settings.systems:
        if name not in NAMES and (source := _ADDED[name].settings):
            model = load(source)
            if not (isinstance(model, type) and issubclass(model, SystemSettings)):
                problem = f"names {source} in `settings`, but that is no SystemSettings"
                raise wrong(name, f"{problem}; derive it (interlock.system.settings)")
            if taken := sorted(model.model_fields.keys() & type(settings).model_fields.keys()):
                raise wrong(name, f"has a setting {taken[0]}, as Interlock has; rename it")
            models.append(model)
    settings.admit(models)


def _add_ours(name: str) -> None:
    system: System = load(f"{module_of(name)}:SYSTEM")
    for machine, where in system.machines.items():
        is_listed = machine not in system.unlisted
        MACHINES.add(machine, partial(load, where), is_listed=is_listed, is_ours=True)
    _ADDED[name] = system


def _place_of(name: str, root: Path) -> tuple[str, Path]:
    """Return the module that a name in INTERLOCK_SYSTEMS means, and the folder to look in."""
    if name.endswith(FILE):
        file = root / name
        if not file.is_file():
            raise SystemsError(
                f"there is no file {file.absolute()} on this computer; name one that is there, or "
                "install its module where workers run, and name that (docs/workflows.md)"
            )
        if file.stem in sys.stdlib_module_names:
            raise wrong(name, f"is called as a module of Python is; rename {file.name}")
        return file.stem, file.parent
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        return entry.module, root
    return name, root


def added_systems() -> Mapping[str, System]:
    """Return the systems that were added, by their names in INTERLOCK_SYSTEMS."""
    return MappingProxyType(_ADDED)


def places_of(system: System) -> list[str]:
    """Return the places that the processes of a deployment load of a system, each once."""
    by_machine = (getattr(system, row).values() for row in ("machines", *PLACES_OF_MACHINES))
    alone = (system.settings, system.page, system.by_hand, system.starved, system.health)
    found = (*alone, system.top, *system.resources, *chain.from_iterable(by_machine))
    return list(dict.fromkeys(filter(None, found)))


def wrong(name: str, problem: str) -> SystemsError:
    """Return the error of what a person named after `interlock up`, or in INTERLOCK_SYSTEMS."""
    if name.endswith(FILE):
        return SystemsError(f"the file {Path(name).name} {problem}")
    return SystemsError(f"the module {name!r}, a word of INTERLOCK_SYSTEMS or `up`, {problem}")


def _imported(name: str, module: str, root: Path) -> ModuleType:
    """Import a module, and check that what it defines can be found there by other processes."""
    is_file = name.endswith(FILE)
    if not is_module_name(module):
        cure = "rename it, with letters, digits and _" if is_file else f"a file ends with {FILE}"
        raise wrong(name, f"is not the name of a module; {cure}")
    made = len(Definition.MADE)
    try:
        imported = import_named(module, root)
    except NoModuleError as refusal:
        raise wrong(name, f"cannot be imported: {refusal}") from refusal
    except SystemsError:
        raise  # it names file and line
    except (Exception, SystemExit) as failure:
        raise wrong(name, f"cannot be imported: {blamed(failure)}") from failure
    file = getattr(imported, "__file__", None) or "a part of Python"
    if is_file and Path(file).resolve() != (root / f"{module}.py").resolve():
        taken = f"is called as a module that was imported already ({file})"
        raise wrong(name, f"{taken}; rename {module}{FILE}")
    _check_bound(Definition.MADE[made:])
    return imported


def _check_bound(made: list[Definition[Any]]) -> None:
    """Refuse definitions that no module has in a variable: no other process would find them."""
    names = [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
    values = [value for variables in names for value in list(variables.values())] if made else []
    bound = {id(value) for value in values}
    for value in values:
        if _is_definition(value):
            bound |= {id(child) for child in vars(value.children).values()}
    for each in made:
        if id(each) not in bound:
            raise SystemsError(
                f"{each.name} is in no variable at the top level of a module, where every process "
                f"looks for it: write {each.name} = ... there ({each.place})"
            )


def _is_definition(value: object) -> TypeGuard[Definition[Any]]:
    """Whether a value is a definition. A proxy is not asked: it would load what it stands for."""
    return issubclass(type(value), Definition)


def _definitions_in(module: ModuleType) -> dict[str, Definition[Any]]:
    """Return the definitions at the top level of a module, by variable, each once."""
    found: dict[str, Definition[Any]] = {}
    for variable, value in vars(module).items():
        if not _is_definition(value) or any(value is each for each in found.values()):
            continue  # it is none, or a second variable of the same one
        if twin := next((each for each in found.values() if each.name == value.name), None):
            raise SystemsError(
                f"two workflows are called {value.name}; rename this one, or the other "
                f"({twin.place}) ({value.place})"
            )
        _ = value.machine  # it is checked now, so that its author reads what is wrong with it
        found[variable] = value
    return found


def _system_of(
    name: str, module: str, imported: ModuleType, definitions: Mapping[str, Definition[Any]]
) -> System:
    found = getattr(imported, "SYSTEM", None)
    if found is None and definitions:
        return _of_definitions(module, definitions)
    if not isinstance(found, System):
        raise wrong(
            name,
            "has neither a Workflow (docs/workflows.md) nor a SYSTEM (docs/own_systems.md) "
            "at its top level",
        )
    taken = {"engine", *NAMES, *(system.name for system in _ADDED.values())}
    if found.name in taken:
        raise wrong(name, f"has a system called {found.name}, as another one is; rename it")
    # `interlock remove` deletes them: one elsewhere would be somebody's.
    for folder in found.folders:
        if folder in ("", "..") or Path(folder).name != folder:
            problem = f"has the folder {folder!r}; write the name of one in INTERLOCK_HOME"
            raise wrong(name, problem)
    _check_rows(name, found)
    return found


def _check_rows(name: str, system: System) -> None:
    """Refuse rows whose names or places could be found wrong only when they are used."""
    for row in PLACES_OF_MACHINES:
        given = getattr(system, row)
        if not (isinstance(given, Mapping) and all(map(_is_place, given.values()))):
            wanted = "write the 'module:attribute' of each of its machines that has one"
            raise wrong(name, f"has the row {row}={given!r} in {system.name}; {wanted}")
    plain, names = system.plain, sorted(each.name for each in fields(PlainRequest))
    if plain and not (
        isinstance(plain, Mapping) and sorted(plain) == names and _is_place(plain["payload"])
    ):
        said = f"write {', '.join(names)}: one of its machines, and 'module:function' as payload"
        raise wrong(name, f"has the row plain={plain!r} in {system.name}; {said}")
    for row in (*PLACES_OF_MACHINES, *OF_MACHINES):
        check_machines(name, row, getattr(system, row), system.machines)
    check_machines(name, "messages_about", system.messages_about.values(), system.machines)
    check_machines(name, "plain", [plain["machine"]] if plain else (), system.machines)


def _is_place(text: object) -> bool:
    return isinstance(text, str) and all(text.partition(":"))


def check_machines(name: str, row: str, named: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names in a row of a system, or of its page, that are no machines. Raises SystemsError.

    What they give would be shown nowhere.
    """
    if strange := [each for each in named if each not in known]:
        problem = f"names {strange[0]!r} in `{row}`, which is no machine"
        raise wrong(name, f"{problem}; there are: {', '.join(known) or 'none'}")


def _of_definitions(module: str, definitions: Mapping[str, Definition[Any]]) -> System:
    """Return the system of definitions, without those that another module has added already."""
    known = {id(load(where)) for each in _ADDED.values() for where in each.handlers.values()}
    found = {
        variable: value
        for variable, value in definitions.items()
        if id(value.handlers) not in known
    }
    where: dict[str, str] = {}
    for variable, value in found.items():
        place = f"{module}:{variable}"
        where[value.name] = place
        where |= {
            child.name: f"{place}.children.{state}" for state, child in vars(value.children).items()
        }
    return System(
        name=module,
        machines={name: f"{place}.machine" for name, place in where.items()},
        handlers={name: f"{place}.handlers" for name, place in where.items()},
        counted=tuple(where),
        shown=tuple(dict.fromkeys(name for each in found.values() for name in each.fields)),
    )


def _add_machines(source: str, system: System) -> None:
    places = {each.name: each.place for each in Definition.MADE}
    for name, where in system.machines.items():
        place = f" ({places[name]})" if name in places else ""
        if not _NAME.fullmatch(name):
            raise wrong(source, f"has a machine {name!r}; use small letters, digits and _")
        if name in _TAKEN:
            problem = f"has a machine {name}, a name that Interlock uses; rename it{place}"
            raise wrong(source, problem)
        try:
            table = partial(_table, source, name, where)
            is_listed = name not in system.unlisted
            MACHINES.add(name, table, is_listed=is_listed)
        except ValueError as refusal:
            problem = f"cannot add the machine {name}: {refusal}; rename it{place}"
            raise wrong(source, problem) from refusal


def _table(source: str, name: str, where: str) -> Machine:
    """Import the table of a machine, and check what only others can get wrong in it."""
    from interlock.kernel.machine import Machine  # noqa: PLC0415 - the help does without it

    try:
        found = load(where)
    except SystemsError as failure:
        raise wrong(source, f"has a machine {name} without a table: {failure}") from failure
    if not isinstance(found, Machine):
        raise wrong(source, f"names {where} as the table of {name}, but that is no Machine")
    if found.name != name:
        raise wrong(source, f"calls its machine {name}, but the table {where} is of {found.name}")
    states = [str(stage.state) for stage in found.stages]
    for effect in found.effects.values():
        _check_effect(source, where, effect)
    for each in (*found.effects, *found.triggers, *states):
        if not _NAME.fullmatch(each):
            problem = f"has the name {each!r} in {where}; use small letters, digits and _"
            raise wrong(source, problem)
    return found


def _check_effect(source: str, where: str, effect: Effect) -> None:
    from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE  # noqa: PLC0415

    common = OF_ANY_MACHINE.get(effect.name)
    if common not in (None, effect):
        also = f"has an effect {effect} in {where}, as Interlock has for every machine"
        raise wrong(source, f"{also}; rename it")
    taken = (INTAKE_QUEUE, SWEEPS_QUEUE)
    if effect.queue and (effect.queue in taken or not _NAME.fullmatch(effect.queue)):
        problem = f"gives the effect {effect} of {where} the queue {effect.queue!r}"
        free = f"use small letters, digits and _, and a name other than {' and '.join(taken)}"
        raise wrong(source, f"{problem}; {free}")
