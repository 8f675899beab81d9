"""The registry of systems, the only list of them. A new system needs its line here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from interlock.workers.engine.builtin import BUILTIN
from interlock.workers.engine.system import System, load
from interlock.workers.jobs.system import SYSTEM as JOBS
from interlock.workers.loops.system import SYSTEM as LOOPS
from interlock.workers.runs.system import SYSTEM as RUNS
from interlock.workers.tasks.system import SYSTEM as TASKS
from interlock.workers.threads.system import SYSTEM as THREADS

if TYPE_CHECKING:  # the command line lists its commands without settings, sweeps and handlers
    from interlock.workers.config import Settings
    from interlock.workers.engine.resources import Resources
    from interlock.workers.engine.sweeper import Sweep
    from interlock.workers.engine.work import Handler

SYSTEMS: tuple[System, ...] = (THREADS, TASKS, JOBS, LOOPS, RUNS)


class SystemsError(ValueError):
    """Two systems claim the same name. Rename one of them."""


def handlers(systems: Iterable[System] = SYSTEMS) -> Mapping[str, Handler]:
    """Import the handler of every effect, by the effect's name. Raises SystemsError.

    An effect's name is the name of its queue: two systems cannot share one.
    """
    found = [load(f"{system.effects}:HANDLERS") for system in (BUILTIN, *systems)]
    names = Counter(name for each in found for name in each)
    if twice := sorted(name for name, number in names.items() if number > 1):
        raise SystemsError(f"two systems have an effect called {', '.join(twice)}")
    return {name: handler for each in found for name, handler in each.items()}


def openers(systems: Iterable[System] = SYSTEMS) -> tuple[Callable[[Settings], Any], ...]:
    """Import the functions that open the resources of the systems, each once."""
    named = (name for system in (BUILTIN, *systems) for name in system.resources)
    return tuple(load(name) for name in dict.fromkeys(named))


def facts(resources: Resources, systems: Iterable[System] = SYSTEMS) -> dict[str, bool]:
    """Return what a machine announces of itself: which of the things it has that may be missing."""
    named = (pair for system in systems for pair in system.facts.items())
    return {name: resources.get(load(opener)) is not None for name, opener in named}


def sweeps(systems: Iterable[System] = SYSTEMS) -> tuple[Sweep, ...]:
    """Import every sweep that beat starts."""
    packages = [system.sweeps for system in (BUILTIN, *systems) if system.sweeps]
    return tuple(sweep for package in packages for sweep in load(f"{package}:SWEEPS"))
