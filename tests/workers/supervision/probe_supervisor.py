"""A keeper that keeps nothing: it writes down what it was started as, and stays there."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from interlock.workers.supervision import launch as detached


class Probe:
    """Does in its making what its brief says."""

    def __init__(self, brief: dict[str, Any]) -> None:
        match brief:
            case {"refuses": said}:
                raise ValueError(said)
            case {"breaks": said}:
                raise RuntimeError(said)
            case {"leaves": code}:
                os._exit(code)
            case {"waits_for": fifo}:
                Path(fifo).read_bytes()

    def run(self) -> None:
        """Stay, and say so; or end while a thread is still at work."""
        sys.stdout.write("this is kept\n")
        if self.ends:
            threading.Timer(0.05, lambda: sys.stdout.write("its thread is done\n")).start()
        else:
            sys.stdout.flush()
            signal.pause()

    ends = False


def main() -> None:
    """Write down what there is, and take over."""
    file = Path(sys.argv[1])
    brief = json.loads(file.read_text())
    Probe.ends = "ends" in brief
    detached.LAUNCH_S_MAX = brief.get("launch_s_max", detached.LAUNCH_S_MAX)
    seen = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "folder": os.getcwd(),  # noqa: PTH109 - as the system says it
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
    detached.hand_over(file.parent, lambda: Probe(brief))


def descriptors(process: int | str) -> dict[int, str]:
    """Return what each of a process's descriptors is."""
    found = {}
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            found[int(entry.name)] = str(entry.readlink())
        except FileNotFoundError:
            continue  # that of this very look
    return found


def signals(process: int | str) -> list[str]:
    """Return the signals that a process holds back, ignores and catches."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
