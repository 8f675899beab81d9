"""What the systems of this process add: handlers, sweeps, commands, and what people are shown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from interlock.kernel.blame import blamed
from interlock.kernel.errors import StoreError
from interlock.kernel.shortened import shortened
from interlock.systems import NAMES, module_of
from interlock.workers.engine.builtin import BUILTIN
from interlock.workers.engine.own_systems import added_systems, check_machines, wrong
from interlock.workers.engine.system import (
    CommandRow,
    PlainRequest,
    RecordWords,
    StarvedCount,
    System,
    SystemsError,
    load,
)

if TYPE_CHECKING:  # the command line lists its commands without settings, sweeps and handlers
    from interlock.kernel.machine import Machine
    from interlock.kernel.record import Record
    from interlock.workers.client import Client
    from interlock.workers.config import Settings
    from interlock.workers.engine.dispatch import Dispatch
    from interlock.workers.engine.resources import Resources
    from interlock.workers.engine.sweeper import Sweep
    from interlock.workers.engine.work import Handler
    from interlock.workers.terminal.page import Health, Section, SystemPage
    from interlock.workers.terminal.top_part import TopPart

log = logging.getLogger(__name__)

VALUE_LENGTH_MAX = 300  # that is shown of one field


def systems() -> tuple[System, ...]:
    """Return the systems that INTERLOCK_SYSTEMS names, which are all of Interlock's by default.

    `add_systems` has added them when the process, or its client, read its settings.
    """
    return tuple(added_systems().values())


def modules_of_ours() -> Iterator[str]:
    """Yield the modules that workers need of the systems that come with Interlock."""
    for name in NAMES:
        system: System = load(f"{module_of(name)}:SYSTEM")
        yield from (each for each in (system.effects, system.sweeps) if each)
        for where in (*system.machines.values(), *system.resources):
            yield where.partition(":")[0]


def command_rows(of_operators: Iterable[CommandRow]) -> tuple[CommandRow, ...]:
    """Return these commands, and those of all systems.

    Raises SystemsError if a module that INTERLOCK_SYSTEMS names claims the name of another command.
    """
    rows = [*of_operators]
    for name, system in added_systems().items():
        # Groups of ours with the same name are shown as one.
        names = set() if name in NAMES else {row.name for row in rows}
        if taken := sorted(names & {row.name for row in system.commands}):
            raise wrong(name, f"has a command called {taken[0]}, as another one is; rename it")
        rows += system.commands
    return tuple(rows)


def check_families(machines: Mapping[str, Machine]) -> None:
    """Refuse machines whose children are of a machine that is missing, or cannot close them.

    Raises SystemsError.
    """
    from interlock.kernel.families import strangers  # noqa: PLC0415 - the help does without tables

    if wrong_families := [*strangers(machines)]:
        raise SystemsError("; ".join(wrong_families))


def check_sweeps(machines: Mapping[str, Machine]) -> None:
    """Refuse rows that only a sweep may fire which no system has. Raises SystemsError."""
    from interlock.kernel.effect import Sweeper  # noqa: PLC0415 - the help does without tables

    known = {sweep.name for sweep in sweeps()}
    for name, machine in machines.items():
        for row in machine.transitions:
            for one in (each for each in row.by if isinstance(each, Sweeper)):
                if one not in known:
                    said = f"{name}: only the sweep {one} may fire {row.trigger} in {row.source}"
                    advice = "add it to the sweeps of its system, or correct by(sweep=...)"
                    raise SystemsError(f"{said}, and no system that runs has it; {advice}")


def handlers() -> Mapping[str, Handler]:
    """Import the handler of every effect, by the name of its Celery task, such as `task.merge`.

    HANDLERS of a system has them by that name, or by the name of the effect alone, whichever
    machine of that system owes it. Raises SystemsError.
    """
    # The command line lists its commands without tables.
    from interlock.kernel.machines import MACHINES  # noqa: PLC0415

    common: Mapping[str, Handler] = load(f"{BUILTIN.effects}:HANDLERS")
    found: dict[str, Handler] = {}
    for system in systems():
        shared: Mapping[str, Handler] = load(f"{system.effects}:HANDLERS") if system.effects else {}
        for machine in system.machines:
            own = load(system.handlers[machine]) if machine in system.handlers else shared
            for effect in MACHINES[machine].effects:
                task = f"{machine}.{effect}"
                handler = common.get(effect) or own.get(task) or own.get(effect)
                if handler:
                    found[task] = handler
    return found


def openers() -> tuple[Callable[[Settings], Any], ...]:
    """Import the functions that open the resources of the systems, each once."""
    named = (name for system in (BUILTIN, *systems()) for name in system.resources)
    return tuple(load(name) for name in dict.fromkeys(named))


def facts(resources: Resources) -> dict[str, bool]:
    """Return what a computer announces of itself: of each thing that it may lack, if it has it."""
    named = (pair for system in systems() for pair in system.facts.items())
    return {name: resources.get(load(opener)) is not None for name, opener in named}


def details(client: Client, record: Record) -> dict[str, str] | None:
    """Return what `interlock show` prints of a record; None where its system leaves that to it.

    Of a system that INTERLOCK_SYSTEMS names these are the fields that it shows.
    """
    named = (
        system.details[record.machine] for system in systems() if record.machine in system.details
    )
    source = next(named, None)
    return load(source)(client, record) if source else _own_fields(record)


def evidence(client: Client, record: Record) -> list[Section]:
    """Return what stands beside the cards of a record; by default what is shown of its data."""
    from interlock.workers.terminal.page import Section  # noqa: PLC0415 - the help does without it

    named = (each.evidence[record.machine] for each in systems() if record.machine in each.evidence)
    source = next(named, None)
    if source:
        return list(load(source)(client, record))
    fields = _own_fields(record)
    return [Section("Data", [fields])] if fields else []


def _own_fields(record: Record) -> dict[str, str] | None:
    """Return the fields of a record that are shown, if its system does not come with Interlock."""
    added = added_systems().items()
    others = (each for name, each in added if name not in NAMES and record.machine in each.machines)
    own = next(others, None)
    if own is None:
        return None
    set_ones = (name for name in own.shown if record.data.get(name) not in (None, "", [], {}))
    return {name: _value_text(record.data[name]) for name in set_ones}


def shown_fields(record: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the set fields of a record that say what was asked, and those of what came of it.

    Of a system that INTERLOCK_SYSTEMS names, what was asked is all that it shows.
    """
    asked: Sequence[str] = ()
    came: Sequence[str] = ()
    for system in systems():
        asked = asked or system.asked.get(record.machine, ())
        came = came or system.came.get(record.machine, ())
    found = _set_fields(record, asked) if asked else _own_fields(record) or {}
    return found, _set_fields(record, came)


def _set_fields(record: Record, paths: Iterable[str]) -> dict[str, Any]:
    values = {path: _value_at(record.data, path) for path in paths}
    return {path: value for path, value in values.items() if value not in (None, "", [], {})}


def _value_at(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _value_text(value: Any) -> str:
    """Return a value as one line, which is JSON for what has parts."""
    from interlock.workers.text import visible_json  # noqa: PLC0415 - the help does without it

    text = " ".join((value if isinstance(value, str) else visible_json(value)).split())
    return shortened(text, VALUE_LENGTH_MAX)


def starved(dispatch: Dispatch) -> tuple[dict[str, StarvedCount], list[str]]:
    """Count in each system the records that will never go on, although no person is asked.

    Returns the counts, and as problems the systems whose function fails. Raises StoreError.
    """
    counts: dict[str, StarvedCount] = {}
    problems = []
    for system in (one for one in systems() if one.starved):
        match _asked(system, system.starved, dispatch):
            case (int(number), bool(is_minimum)), _:
                counts[system.name] = StarvedCount(number, is_minimum)
            case found, why:
                why = why or f"it returned {_shown(found)}, and not a number and True or False"
                unknown = f"how many records of {system.name} are starved is unknown"
                problems.append(f"{unknown}: repair {system.starved}: {why}")
    return counts, problems


def words_of(machine: str, data: Mapping[str, Any]) -> RecordWords:
    """Return what the data of a machine's record say in words, as far as its system says that."""
    system = next((one for one in systems() if machine in one.words), None)
    if system is None:
        return RecordWords()
    source = system.words[machine]
    said = load(source)(data)
    known = {each.name for each in fields(RecordWords)}
    if isinstance(said, Mapping) and said.keys() <= known:
        words = RecordWords(**said)
        is_right = isinstance(words.proposals, Mapping) and isinstance(words.said, list | tuple)
        if is_right and all(isinstance(each, str) for each in (words.request, words.sender)):
            return words
    raise SystemsError(
        f"{source}, the words of {machine} in {system.name}, returned {_shown(said)}; return a "
        "mapping with some of request and sender, texts, said, a list of texts, and proposals, a "
        "mapping of texts"
    )


def plain_request() -> PlainRequest | None:
    """Return how a person creates a record with a title alone, if a system has such records."""
    plain = next((one.plain for one in systems() if one.plain), None)
    return PlainRequest(**{**plain, "payload": load(plain["payload"])}) if plain else None


def health(dispatch: Dispatch) -> list[Health]:
    """Return what the systems say of whether they work. Raises StoreError.

    Where the function of a system fails, that is a problem of it, and what asks for it goes on.
    """
    return [_health_of(system, dispatch) for system in systems() if system.health]


def _health_of(system: System, dispatch: Dispatch) -> Health:
    from interlock.workers.terminal.page import Health  # noqa: PLC0415 - see above

    found, why = _asked(system, system.health, dispatch)
    if isinstance(found, Health):
        return found
    why = why or f"it returned {_shown(found)}, which is no Health"
    return Health(
        problems=[f"whether {system.name} works is unknown: repair {system.health}: {why}"]
    )


def _asked(system: System, source: str, dispatch: Dispatch) -> tuple[Any, str]:
    """Return what a function of a system returns for the records, or None and why it failed."""
    from interlock.workers.engine.records import component  # noqa: PLC0415 - see above

    try:
        return load(source)(component(dispatch, system.name)), ""
    except StoreError:
        raise
    except Exception as failure:
        log.exception("%s failed", source)
        return None, blamed(failure)


def _shown(found: object) -> str:
    return shortened(repr(found), VALUE_LENGTH_MAX)


def pages() -> dict[str, SystemPage]:
    """Import the pages of the systems, by the name of the system.

    Raises SystemsError for one that names a machine which nobody has.
    """
    from interlock.kernel.machines import MACHINES  # noqa: PLC0415 - see above

    found: dict[str, SystemPage] = {}
    for name, system in added_systems().items():
        if system.page:
            page = found[system.name] = load(system.page)
            check_machines(name, "machines of its page", page.machines, MACHINES)
            check_machines(name, "panels of its page", page.panels, system.machines)
            check_machines(name, "timelines of its page", page.timelines, system.machines)
    return found


def top_parts() -> dict[str, TopPart]:
    """Return what the systems add to `interlock top`, by the name of the system."""
    return {system.name: load(system.top) for system in systems() if system.top}


def folders() -> tuple[str, ...]:
    """Return the folders in the home of a deployment that all installed systems make."""
    ours: Iterable[System] = (load(f"{module_of(name)}:SYSTEM") for name in NAMES)
    return tuple(folder for system in (*ours, *systems()) for folder in system.folders)


def sweeps() -> tuple[Sweep, ...]:
    """Import every sweep that beat starts."""
    packages = [system.sweeps for system in (BUILTIN, *systems()) if system.sweeps]
    return tuple(sweep for package in packages for sweep in load(f"{package}:SWEEPS"))
