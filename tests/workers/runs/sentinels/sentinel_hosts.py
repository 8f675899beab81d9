"""A host of sentinels over a folder of the test's own, for the tests of hosts."""

from __future__ import annotations

import json
import threading
from itertools import count
from pathlib import Path
from typing import Any

from interlock.kernel.machines.runs.values import SentinelState
from interlock.workers.config import environment_without_settings
from interlock.workers.runs.sentinels.call import Asks
from interlock.workers.runs.sentinels.host import SentinelHost
from interlock.workers.runs.sentinels.specification import SentinelSpecification
from interlock.workers.runs.sentinels.strategy import Kind, Strategy
from interlock.workers.runs.sentinels.trigger import Event, Trigger
from tests.waiting import until

_MOMENTS = count(1_700_000_000_000)


def sentinel(name: str = "eye", command: str | None = None, **more: Any) -> SentinelSpecification:
    """Return one that is on every `e`, or on what is said; `strategy` is a kind and its limit."""
    ordered = "sequence" in more
    names = more.pop("sequence", more.pop("on", ("e",)))
    [(kind, limit)] = more.pop("strategy", {"immediate": 0}).items()
    usual: dict[str, Any] = {"model": None, "prompt": None, "required": False, "timeout_s": 20}
    return SentinelSpecification(
        id=name,
        trigger=Trigger(tuple(names), ordered=ordered),
        strategy=Strategy(Kind(kind), limit),
        command=command,
        **{**usual, **more},
    )


def host_in(
    folder: Path, *specifications: SentinelSpecification, asks: Asks | None = None
) -> SentinelHost:
    """Return a host whose clock counts its readings."""
    return SentinelHost(
        specifications,
        codon="tidy",
        folder=folder,
        environment={**environment_without_settings(), "COLOUR": "blue"},
        asks=asks,
        clock_ms=lambda: next(_MOMENTS),
    )


def tell(host: SentinelHost, events: int = 1, *, name: str = "e", first: int = 0) -> None:
    """Tell events whose data and time is their number."""
    for number in range(first, first + events):
        host.tell(Event(name, number, {"n": number}))


def state(host: SentinelHost, name: str = "eye") -> SentinelState:
    """Return a state as the kernel reads it: with no field that it does not know."""
    [found] = [one for one in host.states() if one["id"] == name]
    return SentinelState.model_validate(json.loads(json.dumps(found)))


def calls_in(file: Path) -> list[dict[str, Any]]:
    """Return what was written to a file, line by line."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def until_calls(host: SentinelHost, calls: int, name: str = "eye") -> None:
    """Wait until so many calls were begun."""
    until(lambda: state(host, name).llm_call_count >= calls, what=f"{name} is called")


def nobody_left() -> bool:
    """Tell whether no thread of a host is there."""
    return not [one for one in threading.enumerate() if one.name == "sentinels"]


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def pid_in(file: Path) -> int:
    """Wait for a file with a process id in it."""
    until(lambda: file.exists() and file.read_text().endswith("\n"), what=f"{file.name} is there")
    return int(file.read_text())
