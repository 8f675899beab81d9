"""An agent whose computer slept goes on only once its supervisor has renewed its leases."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.workers.processes.agent import watchdog
from interlock.workers.processes.agent.containment import GROUP, SUBREAPER
from interlock.workers.processes.agent.process import KILL_BY_PASSED
from interlock.workers.processes.clock import clock
from tests.processes import PROC, is_alive
from tests.waiting import until
from tests.workers.processes.stubborn_agents import (
    FAMILY,
    MEMBERS,
    STAY,
    alive,
    ended,
    ids,
    running,
)

DEADLINE_S = 10.0
SLEPT_S = 100.0
COUPLE = f"""{STAY}
if not os.fork():
    stay("child")
stay("leader")
"""


class Guarded:
    """A watchdog on a clock that a test moves. Each step is what happens while it listens once."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[Guarded], Sequence[str] | None]
    ) -> None:
        self.now_s, self.steps, self.seen = 0.0, [*steps], list[str]()
        self.left, self.stops_all = True, True
        orders: Any = SimpleNamespace(read_orders=self._listen, closed=False)
        reaper = SimpleNamespace(
            code=None, reap_all=lambda: not self.left, cpu_s=0, max_rss_bytes=0
        )
        monkeypatch.setattr(watchdog, "clock", lambda: self.now_s)
        monkeypatch.setattr(watchdog, "kill_everything", self._kill)
        monkeypatch.setattr(watchdog, "Reaper", lambda _: reaper)
        monkeypatch.setattr(watchdog, "_report", self._report)
        processes: Any = SimpleNamespace(
            any_left=lambda: False,
            cgroup=None,
            pause=self._pause,
            signal=lambda number: self.seen.append(signal.Signals(number).name),
            terminate=lambda: self.seen.append("SIGTERM"),
        )
        watchdog.Watchdog(1, processes, orders=orders, woken=0, deadline=DEADLINE_S).guard()

    def _listen(self, _: int, wait_s: float) -> list[Sequence[str]]:
        self.now_s += wait_s
        order = self.steps.pop(0)(self) if self.steps else None
        return [order] if order else []

    def _pause(self, _: float) -> bool:
        self.seen.append("paused")
        return self.stops_all

    def _kill(self, *_: Any, **__: Any) -> bool:
        self.seen.append(f"killed at {self.now_s:g}")
        self.left = False
        return True

    def _report(self, kind: str, *values: object) -> None:
        if kind == "slept":
            self.seen.append(f"slept {values[0]:g}")


def sleep(guarded: Guarded) -> None:
    guarded.now_s += SLEPT_S


def armed(deadline: float) -> Callable[[Guarded], Sequence[str]]:
    return lambda _: ("arm", str(deadline))


def over(guarded: Guarded) -> None:
    guarded.left = False


def test_its_processes_are_stopped_until_the_lease_is_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first order was sent before the sleep: its deadline is over as well.
    guarded = Guarded(monkeypatch, sleep, armed(50), armed(200), over)

    assert guarded.seen == ["paused", "SIGCONT", f"slept {SLEPT_S:g}"]


def test_they_are_killed_if_nobody_renews_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = Guarded(monkeypatch, sleep)

    renewed_by = 1 + SLEPT_S + watchdog.RENEWAL_S_MAX - watchdog.MARGIN_S
    assert guarded.seen == ["paused", f"killed at {renewed_by:g}"]


def test_they_are_killed_at_once_if_the_lease_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = Guarded(monkeypatch, sleep, lambda _: ("end", "10"))

    # Only a stopped process gets no SIGTERM: it would go on.
    assert guarded.seen == ["paused", f"killed at {1 + SLEPT_S + 1:g}"]


def test_they_are_killed_if_they_cannot_all_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def restless(guarded: Guarded) -> None:
        sleep(guarded)
        guarded.stops_all = False

    guarded = Guarded(monkeypatch, restless)

    assert guarded.seen == ["paused", f"killed at {1 + SLEPT_S:g}"]


def test_they_are_stopped_again_after_another_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = Guarded(monkeypatch, sleep, sleep, armed(1_000), over)

    assert guarded.seen == ["paused", "paused", "SIGCONT", f"slept {SLEPT_S:g}"]


def test_an_agent_that_is_being_ended_is_killed_after_a_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guarded = Guarded(monkeypatch, lambda _: ("end", "5"), sleep)

    assert guarded.seen[0] == "SIGTERM"
    assert [seen.partition(" ")[0] for seen in guarded.seen[1:]] == ["killed"]


def test_the_agent_of_a_supervisor_that_freezes_alone_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guarded = Guarded(monkeypatch)

    assert guarded.seen == [f"killed at {DEADLINE_S - watchdog.MARGIN_S:g}"]


def stopped(pids: Sequence[int]) -> bool:
    states = [(PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] for pid in pids]
    return set(states) == {"T"}


@pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
@pytest.mark.parametrize("renewed", [True, False])
@pytest.mark.parametrize(
    ("kind", "program", "members"),
    [(SUBREAPER, FAMILY, MEMBERS), (GROUP, COUPLE, ("leader", "child"))],
)
def test_processes_that_were_stopped_go_on_or_are_killed(
    tmp_path: Path, kind: str, program: str, members: Sequence[str], *, renewed: bool
) -> None:
    with running([sys.executable, "-S", "-c", program], tmp_path, kinds=[kind]) as agent:
        family = ids(tmp_path, *members)
        dog = agent._watchdog._process.pid
        os.kill(dog, signal.SIGSTOP)
        agent.arm(clock() + 1)
        # As long as a watchdog may be late without having been away.
        time.sleep(watchdog.AWAY_S + watchdog.MARGIN_S + 2)
        os.kill(dog, signal.SIGCONT)
        until(lambda: stopped(family), what="all processes are stopped")

        if renewed:
            agent.arm(clock() + 600)
            until(lambda: not stopped(family), what="they go on")
            until(lambda: bool(slept := agent.take_sleeps()) and slept[0] > 3, what="it says so")
            assert all(map(is_alive, family))
        else:
            agent.end("lost", grace_s=60)
            assert ended(agent).reason_by_us != KILL_BY_PASSED
            assert not alive(family)
