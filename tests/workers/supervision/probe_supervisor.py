"""A supervisor without a process: it writes down how it was started, and waits."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from interlock.workers.supervision import launch as launching


class Probe:
    """Refuses, fails, exits or waits while it is made, as its spec file says."""

    def __init__(self, fields: dict[str, Any]) -> None:
        match fields:
            case {"refuses": reason}:
                raise ValueError(reason)
            case {"breaks": reason}:
                raise RuntimeError(reason)
            case {"leaves": code}:
                os._exit(code)
            case {"waits_for": fifo}:
                Path(fifo).read_bytes()

    def run(self) -> None:
        """Write a line and wait; or end while a thread is still at work."""
        sys.stdout.write("it runs\n")
        if self.ends:
            threading.Timer(0.05, lambda: sys.stdout.write("its thread is done\n")).start()
        else:
            sys.stdout.flush()
            signal.pause()

    ends = False


def main() -> None:
    """Write down how this process was started, and take over."""
    file = Path(sys.argv[1])
    fields = json.loads(file.read_text())
    Probe.ends = "ends" in fields
    launching.LAUNCH_S_MAX = fields.get("launch_s_max", launching.LAUNCH_S_MAX)
    seen = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "folder": os.getcwd(),  # noqa: PTH109 - as the system gives it
        "arguments": sys.argv,
        "random": random.random(),
        "loaded": sorted(sys.modules),
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208 - names are enough
        "processors": sorted(os.sched_getaffinity(0)),
        "signals": signals("self"),
        "descriptors": descriptors("self"),
    }
    file.with_name("seen.json.new").write_text(json.dumps(seen))
    file.with_name("seen.json.new").rename(file.with_name("seen.json"))
    launching.take_over_and_supervise(file.parent, lambda: Probe(fields).run)


def descriptors(process: int | str) -> dict[int, str]:
    """Return the file of each descriptor of a process."""
    found = {}
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            found[int(entry.name)] = str(entry.readlink())
        except FileNotFoundError:
            continue  # the descriptor of this listing
    return found


def signals(process: int | str) -> list[str]:
    """Return the signals that a process blocks, ignores and catches."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
