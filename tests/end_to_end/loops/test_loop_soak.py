"""Fifty agents run for minutes while their processes are killed and they are stopped and started.

SOAK_S is the duration in seconds, LOOP_SOAK_SEED the seed of the random numbers.
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
from interlock.systems.loops.client import AgentNameError
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.ops.verify import verify_all
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.engine.preloaded import OWN_FORK_SERVER
from tests.end_to_end.loops.mail_soak import (
    Killer,
    MailSoak,
    Producer,
    delivery_faults,
    index_members,
    overlap_faults,
    post_faults,
    reading_faults,
    session_faults,
    session_processes,
    summary,
)
from tests.end_to_end.tasks.coding import git
from tests.servers import EACH_WRITE_ON_DISK

SOAK_S = float(os.environ.get("SOAK_S", "600"))
SEED = "LOOP_SOAK_SEED"
AGENTS = 50
PRODUCERS = 3
END_S = 300.0
OFTEN = ("worker", "supervisor", "session", "watchdog", "launch", "stop", "start")
KINDS = (*OFTEN, *OFTEN, "both", "store")

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow(minutes=SOAK_S // 60),
    pytest.mark.timeout(SOAK_S + 900),
]


class SoakKiller(Killer):
    """Kills processes and the store, stops agents, and starts them again."""

    def __init__(self, soak: MailSoak, store: EmbeddedServer, seed: str) -> None:
        super().__init__(soak, seed, KINDS, pause_s=0.6)
        self.store = store
        self.other_actions = {"stop": self._stop, "start": self._start, "store": self._crash}

    def _stop(self) -> str:
        name = self.random.choice(self.soak.names)
        if self.soak.record(name).state == "stopped":
            return ""
        self.soak.loops.stop(name, reason="it is enough")
        return name

    def _start(self) -> str:
        names = [name for name in self.soak.names if self.soak.record(name).state == "stopped"]
        if not names:
            return ""
        name = self.random.choice(names)
        try:
            self.soak.start(name)
        except AgentNameError:
            return ""
        return name

    def _crash(self) -> str:
        os.kill(self.store.process_id, signal.SIGKILL)
        self.store.stop()
        self.store.start()
        return f"{self.store.process_id}"


def test_the_mail_of_fifty_agents_is_accounted_for_and_nothing_is_left(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    seed = os.environ.get(SEED) or secrets.token_hex(4)
    sys.stdout.write(f"{SEED}={seed}\n")
    store = new_server(port=free_port(), settings=EACH_WRITE_ON_DISK)
    variables = {"INTERLOCK_LEASE_S": "5", OWN_FORK_SERVER: "1"}
    deployment = new_deployment(store.url, **variables).full(workers=2, concurrency=6)
    # Sessions take two seconds, so that some are running most of the time when urgent mail comes.
    soak = MailSoak(deployment, tmp_path, names=tuple(f"a{n}" for n in range(AGENTS)), steps=40)
    began_at = time.monotonic()
    for name in soak.names:
        soak.start(name)
    writers = [
        Producer(soak, f"{seed}-{n}", 1_000_000, pause_s=1.5, burst=3, urgent=0.2)
        for n in range(PRODUCERS)
    ]
    killer = SoakKiller(soak, store, seed)

    for writer in writers:
        writer.start()
    try:
        killer.kill_while(lambda: time.monotonic() < began_at + SOAK_S)
    finally:
        for writer in writers:
            writer.finished.set()
            writer.join()
    soaked_s = time.monotonic() - began_at
    before = Counter(soak.record(name).state for name in soak.names)
    stop_all(soak)

    accepted = sum(len(writer.accepted) for writer in writers)
    refused = sum(writer.refused for writer in writers)
    unanswered = sum(writer.unanswered for writer in writers)
    ended_s = time.monotonic() - began_at - soaked_s
    waiting = sum(len(soak.waiting(name)) for name in soak.names)
    sys.stdout.write(f"{summary(soak)}, {waiting} wait, {refused} were refused, ")
    sys.stdout.write(f"{unanswered} sends were not answered\n{soaked_s:.0f} s, ended ")
    sys.stdout.write(f"{ended_s:.0f} s later; before: {dict(before)}\n")
    faults = [fault for name in soak.names for fault in faults_of(soak, name)]
    assert "\n".join([*faults, *post_faults(soak, writers), *leftovers(soak)]) == ""
    assert accepted > SOAK_S
    if SOAK_S >= 300:
        assert set(killer.done) == set(KINDS)


def stop_all(soak: MailSoak) -> None:
    """Stop every agent, and wait until no effect of any is due."""
    for name in soak.names:
        soak.loops.stop(name, reason="the soak is over")
    until = time.monotonic() + END_S
    for name in soak.names:
        life = soak.record(name).id
        try:
            soak.deployment.sees(
                partial(is_cleaned_up, soak, life),
                what=f"{life} is cleaned up",
                within_s=until - time.monotonic(),
            )
        except AssertionError as late:
            raise AssertionError(f"{late}\n{soak.deployment.story(life)[-6_000:]}") from None
    # A supervisor that has reported how its session ended needs a moment to exit.
    soak.deployment.sees(
        lambda: not session_processes(soak), what="no process of a session is left"
    )


def is_cleaned_up(soak: MailSoak, life: str) -> bool:
    """Return whether an agent has stopped and all its effects have ended."""
    record: Record = soak.deployment.client.show(life)
    return record.state == "stopped" and not record.entries


def faults_of(soak: MailSoak, name: str) -> Iterator[str]:
    """Yield every fault in an agent's mail, its sessions and its cleanup."""
    yield from delivery_faults(soak, name)
    yield from session_faults(soak, name)
    yield from reading_faults(soak, name)
    yield from overlap_faults(soak, name)
    for life in soak.lives(name):
        record = soak.deployment.checked(life)
        if record.state != "stopped" or record.entries:
            yield f"{life} is {record.state} and still has {record.entries}"
        if Path(str(record.data.get("worktree") or "/none")).exists():
            yield f"{life} left its worktree"
    if held := soak.deployment.client.dispatch.views.holds(name):
        yield f"{name} is held: {held}"


def leftovers(soak: MailSoak) -> Iterator[str]:
    """Yield what is left in the repository and in the store after every agent has stopped."""
    yield from (f"still due: {one}" for one in index_members(soak.deployment))
    if (trees := git(soak.repo, "worktree", "list")).count("\n"):
        yield f"worktrees are left: {trees}"
    report = verify_all(soak.deployment.client.dispatch, None)
    yield from report["faults"]
