"""Performs one effect in a process of its own: `python -m interlock.workers.alone`.

A worker starts it, which holds the lease as well. Its arguments are the machine, the effect, the
key and the nonce of the lease, and the file for the answer.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from interlock.workers.config import read_settings
from interlock.workers.engine.isolation import Performed
from interlock.workers.engine.log_lines import set_up_log
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.trace_context import start_traces
from interlock.workers.inherited import remove_redirects
from interlock.workers.supervision.supervisor import open_dispatch
from interlock.workers.systems import handlers


def main(arguments: list[str]) -> NoReturn:
    """Perform the effect, and write what came of it into the file for the answer."""
    machine_name, name, key, nonce, answer = arguments
    remove_redirects()
    settings = read_settings()
    set_up_log(settings.log_format)
    start_traces(settings, "worker")
    dispatch = open_dispatch()
    runner = Runner(dispatch, Resources(settings))
    signal.signal(signal.SIGTERM, lambda *_: runner.shut_down())
    machine = dispatch.lifecycle.machine(machine_name)
    handler = handlers()[f"{machine_name}.{name}"]

    def end(performed: Performed) -> NoReturn:
        performed.write(Path(answer))
        sys.stderr.flush()
        # A library that has a fault often shows it only when it is unloaded, and one hangs.
        os._exit(0)

    runner.limits.on_hung = lambda _, performed: end(performed)
    end(Performed.of(lambda: runner.perform(machine, name, handler, key, nonce=nonce)))


if __name__ == "__main__":
    main(sys.argv[1:])
