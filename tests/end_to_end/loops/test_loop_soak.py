"""Fifty agents for minutes, while what they are made of is killed, and they stop and start.

SOAK_S says for how long, LOOP_SOAK_SEED with which luck.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from interlock.kernel.record import Record
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.loops.client import AgentNameError
from interlock.workers.ops.inspection import verify_all
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.loops.mail_soak import (
    Aviary,
    Killer,
    Producer,
    figures,
    indexed,
    of_sessions,
    wrong_deliveries,
    wrong_posts,
    wrong_readings,
    wrong_sessions,
    wrong_times,
)
from tests.end_to_end.tasks.coding import git

SOAK_S = float(os.environ.get("SOAK_S", "600"))
SEED = "LOOP_SOAK_SEED"
AGENTS = 50
PRODUCERS = 3
END_S = 300.0
OFTEN = ("worker", "keeper", "session", "watchdog", "launch", "stop", "start")
KINDS = (*OFTEN, *OFTEN, "both", "store")

pytestmark = [pytest.mark.proof, pytest.mark.timeout(SOAK_S + 900)]


class Fate(Killer):
    """Kills what runs and the store, stops agents, and starts them anew."""

    def __init__(self, aviary: Aviary, store: EmbeddedServer, seed: str) -> None:
        super().__init__(aviary, seed, KINDS, pause_s=0.6)
        self.store = store
        self.more = {"stop": self._stop, "start": self._start, "store": self._crash}

    def _stop(self) -> str:
        name = self.random.choice(self.aviary.names)
        if self.aviary.record(name).state == "stopped":
            return ""
        self.aviary.loops.stop(name, reason="it is enough")
        return name

    def _start(self) -> str:
        names = [name for name in self.aviary.names if self.aviary.record(name).state == "stopped"]
        if not names:
            return ""
        name = self.random.choice(names)
        try:
            self.aviary.start(name)
        except AgentNameError:
            return ""
        return name

    def _crash(self) -> str:
        os.kill(self.store.process_id, signal.SIGKILL)
        self.store.stop()
        self.store.start()
        return f"{self.store.process_id}"


def test_whatever_happens_to_fifty_agents_mail_is_accounted_for_and_nothing_is_left(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    seed = os.environ.get(SEED) or secrets.token_hex(4)
    sys.stdout.write(f"{SEED}={seed}\n")
    store = new_server(port=free_port())
    deployment = new_deployment(store.url, INTERLOCK_LEASE_S="5").full(workers=2, concurrency=6)
    # Sessions of two seconds: most of the time some are at work when urgent mail comes.
    aviary = Aviary(deployment, tmp_path, names=tuple(f"a{n}" for n in range(AGENTS)), steps=40)
    began = time.monotonic()
    for name in aviary.names:
        aviary.start(name)
    writers = [
        Producer(aviary, f"{seed}-{n}", 1_000_000, pause_s=1.5, burst=3, urgent=0.2)
        for n in range(PRODUCERS)
    ]
    fate = Fate(aviary, store, seed)

    for writer in writers:
        writer.start()
    try:
        fate.rage(lambda: time.monotonic() < began + SOAK_S)
    finally:
        for writer in writers:
            writer.over.set()
            writer.join()
    soaked_s = time.monotonic() - began
    before = Counter(aviary.record(name).state for name in aviary.names)
    stop_all(aviary)

    accepted = sum(len(writer.accepted) for writer in writers)
    refused = sum(writer.refused for writer in writers)
    unanswered = sum(writer.unanswered for writer in writers)
    ended_s = time.monotonic() - began - soaked_s
    waiting = sum(len(aviary.waiting(name)) for name in aviary.names)
    sys.stdout.write(f"{figures(aviary)}, {waiting} wait, {refused} were refused, ")
    sys.stdout.write(f"{unanswered} posts were not answered\n{soaked_s:.0f} s, ended ")
    sys.stdout.write(f"{ended_s:.0f} s later; before: {dict(before)}\n")
    faults = [fault for name in aviary.names for fault in wrong(aviary, name)]
    assert "\n".join([*faults, *wrong_posts(aviary, writers), *left(aviary)]) == ""
    assert accepted > SOAK_S
    if SOAK_S >= 300:
        assert set(fate.done) == set(KINDS)


def stop_all(aviary: Aviary) -> None:
    """Stop every agent, and wait until each owes nothing."""
    for name in aviary.names:
        aviary.loops.stop(name, reason="the soak is over")
    until = time.monotonic() + END_S
    for name in aviary.names:
        of = aviary.record(name).id
        try:
            aviary.deployment.sees(
                partial(is_over, aviary, of),
                what=f"{of} is over",
                within_s=until - time.monotonic(),
            )
        except AssertionError as late:
            raise AssertionError(f"{late}\n{aviary.deployment.story(of)[-6_000:]}") from None
    # A keeper that has told how its session ended needs a moment to go.
    aviary.deployment.sees(lambda: not of_sessions(aviary), what="no process of a session is left")


def is_over(aviary: Aviary, of: str) -> bool:
    """Whether an agent has stopped, and nothing of it is owed or held."""
    record: Record = aviary.deployment.client.show(of)
    return record.state == "stopped" and not record.entries


def wrong(aviary: Aviary, name: str) -> Iterator[str]:
    """Name whatever is wrong with an agent's mail, its lives and its end."""
    yield from wrong_deliveries(aviary, name)
    yield from wrong_sessions(aviary, name)
    yield from wrong_readings(aviary, name)
    yield from wrong_times(aviary, name)
    for of in aviary.lives(name):
        record = aviary.deployment.checked(of)
        if record.state != "stopped" or record.entries:
            yield f"{of} is {record.state} and owes {record.entries}"
        if Path(str(record.data.get("worktree") or "/none")).exists():
            yield f"{of} left its worktree"
    if held := aviary.deployment.client.dispatch.views.holds(name):
        yield f"{name} is held: {held}"


def left(aviary: Aviary) -> Iterator[str]:
    """Name what is left in the repository and in the store, though every agent has stopped."""
    yield from (f"it is due still: {one}" for one in indexed(aviary.deployment))
    if (trees := git(aviary.repo, "worktree", "list")).count("\n"):
        yield f"worktrees are left: {trees}"
    report = verify_all(aviary.deployment.client.dispatch, None)
    yield from report["faults"]
