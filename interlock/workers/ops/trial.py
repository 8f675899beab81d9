"""Imports the code of a deployment's own systems as a worker does, in a process of its own.

Records at work that have no place in its tables are a reason not to use it.

`python -m interlock.workers.ops.trial FILE` writes into the file, as JSON, why the code cannot be
used, the files that were read for it, and the pools that it names with their queues.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

from interlock.kernel.blame import blamed, is_own
from interlock.kernel.errors import KernelError, StoreError
from interlock.kernel.machines import MACHINES
from interlock.systems import NAMES
from interlock.workers.config import SetupError, read_settings
from interlock.workers.engine.celery_app import pools_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.own_systems import add_systems_of, added_systems, places_of
from interlock.workers.engine.registration import MissingHandlerError, handled_effects
from interlock.workers.engine.system import System, SystemsError, load
from interlock.workers.engine.table_check import check_tables
from interlock.workers.systems import check_families, check_sweeps, handlers, pages, sweeps

SOURCE = ".py"


def main(answer: Path) -> None:
    """Try the code that the settings of this process name."""
    read: set[str] = set()
    sys.addaudithook(lambda event, arguments: note(read, event, arguments))
    own = list[System]()
    fault, pools = "", dict[str, list[str]]()
    try:
        settings = read_settings()
        add_systems_of(settings)
        own += (each for name, each in added_systems().items() if name not in NAMES)
        check_families(MACHINES)
        check_sweeps(MACHINES)
        list(handled_effects(MACHINES, handlers()))
        sweeps()
        pages()
        for system in own:
            for place in places_of(system):
                load(place)
        pools = pools_of(settings, MACHINES.values())
        with suppress(StoreError):  # the processes themselves compare again when they start
            check_tables(Dispatch(settings, MACHINES, patient=False))
    except (SetupError, SystemsError, KernelError, MissingHandlerError) as refusal:
        fault = str(refusal)
    except Exception as failure:  # noqa: BLE001 - whatever that code raises
        fault = blamed(failure)
    read |= {str(file) for system in own for file in files_of(system)}
    answer.write_text(json.dumps({"fault": fault, "read": sorted(read), "pools": pools}), "utf-8")


def files_of(system: System) -> Iterator[Path]:
    """Yield the modules of the packages of a system: a process may import each later."""
    modules = {place.partition(":")[0] for place in places_of(system)}
    known = {sys.modules[name].__package__ for name in modules & sys.modules.keys()}
    for package in filter(None, known):
        for folder in sys.modules[package].__path__:
            yield from (file for file in Path(folder).rglob(f"*{SOURCE}") if is_own(str(file)))


def note(read: set[str], event: str, arguments: tuple[Any, ...]) -> None:
    """Add the file of a module that Python runs now, or reads to compile it, if it is one's own."""
    if event == "exec":
        file = arguments[0].co_filename if isinstance(arguments[0], CodeType) else ""
    elif event == "open":
        file = arguments[0]
    else:
        return
    if isinstance(file, str) and file.endswith(SOURCE) and is_own(file):
        read.add(os.path.abspath(file))  # noqa: PTH100 - a hook must not open files itself


if __name__ == "__main__":
    main(Path(sys.argv[1]))
