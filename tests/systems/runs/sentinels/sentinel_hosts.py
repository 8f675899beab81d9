"""Hosts of sentinels in a folder of the test, for the tests of hosts and calls."""

from __future__ import annotations

import json
import threading
from itertools import count
from pathlib import Path
from typing import Any

from interlock.systems.runs.machines.values import SentinelState
from interlock.systems.runs.sentinels.call import ModelAccess
from interlock.systems.runs.sentinels.call_timing import BatchingKind, BatchingStrategy
from interlock.systems.runs.sentinels.host import SentinelHost
from interlock.systems.runs.sentinels.specification import SentinelSpecification
from interlock.systems.runs.sentinels.trigger import SentinelEvent, SentinelTrigger
from interlock.workers.supervision.work_command import Command
from tests.processes import is_alive
from tests.waiting import until

_MOMENTS = count(1_700_000_000_000)


def sentinel(name: str = "eye", command: str | None = None, **more: Any) -> SentinelSpecification:
    """Return a sentinel that watches `e` or other events; `strategy` maps a kind to its limit."""
    ordered = "sequence" in more
    names = more.pop("sequence", more.pop("on", ("e",)))
    [(kind, limit)] = more.pop("strategy", {"immediate": 0}).items()
    defaults: dict[str, Any] = {"model": None, "prompt": None, "required": False, "timeout_s": 300}
    return SentinelSpecification(
        id=name,
        trigger=SentinelTrigger(tuple(names), ordered=ordered),
        strategy=BatchingStrategy(BatchingKind(kind), limit),
        command=command,
        **{**defaults, **more},
    )


def command_in(folder: Path) -> Command:
    """Return what is run with the arguments of a sentinel."""
    return Command(arguments=(), folder=folder, sandbox=None, variables={"COLOUR": "blue"})


def host_in(
    folder: Path, *specifications: SentinelSpecification, models: ModelAccess | None = None
) -> SentinelHost:
    """Return a host whose clock goes on by one with each reading."""
    return SentinelHost(
        specifications,
        codon="tidy",
        command=command_in(folder),
        models=models,
        clock_ms=lambda: next(_MOMENTS),
    )


def notify(host: SentinelHost, events: int = 1, *, name: str = "e", first: int = 0) -> None:
    """Notify a host of events whose data and time are their number."""
    for number in range(first, first + events):
        host.notify(SentinelEvent(name, number, {"n": number}))


def state(host: SentinelHost, name: str = "eye") -> SentinelState:
    """Return the state of a sentinel as the kernel reads it, which refuses unknown fields."""
    [found] = [one for one in host.states() if one["id"] == name]
    return SentinelState.model_validate(json.loads(json.dumps(found)))


def calls_in(file: Path) -> list[dict[str, Any]]:
    """Return the calls that a command appended to a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def wait_for_calls(host: SentinelHost, calls: int, name: str = "eye") -> None:
    """Wait until so many calls were started."""
    until(lambda: state(host, name).llm_call_count >= calls, what=f"{name} is called")


def no_thread_left() -> bool:
    """Return whether no thread of a host is alive."""
    return not [one for one in threading.enumerate() if one.name == "sentinels"]


def ends(pid: int) -> None:
    """Check that a process has ended."""
    until(lambda: not is_alive(pid), what="the end of a command")


def pid_in(file: Path) -> int:
    """Wait for a file with a process id in it."""
    until(lambda: file.exists() and file.read_text().endswith("\n"), what=f"{file.name} is there")
    return int(file.read_text())
