"""Each message goes to one session while workers, supervisors and sessions are killed."""

from __future__ import annotations

import os
import secrets
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.preloaded import OWN_FORK_SERVER
from tests.end_to_end.loops.mail_soak import (
    Killer,
    MailSoak,
    Producer,
    delivery_faults,
    overlap_faults,
    post_faults,
    reading_faults,
    session_faults,
    session_processes,
    summary,
)

SEED = "LOOP_MAIL_SEED"
KILLS_MIN = 5
KINDS = ("worker", "supervisor", "watchdog", "both", "session", "launch")


def send_while_killing(
    soak: MailSoak,
    *,
    messages: int,
    producers: int,
    pause_s: float,
    kill_pause_s: float,
    within_s: float,
) -> Killer:
    """Send messages while processes of the agents are killed, and check how each was delivered."""
    seed = os.environ.get(SEED) or secrets.token_hex(4)
    sys.stdout.write(f"{SEED}={seed}\n")
    began_at, first = time.monotonic(), soak.names[0]
    each, burst = messages // producers, 5 if messages < 1_000 else 10
    writers = [
        Producer(soak, f"{seed}-{n}", each, pause_s=pause_s, burst=burst) for n in range(producers)
    ]
    killer = Killer(soak, seed, KINDS, pause_s=kill_pause_s)
    soak.write_command(first)
    killer.hide(first)
    for name in soak.names:
        soak.start(name)
    soak.loops.send(first, "for the first session that starts", sender="operator")
    soak.deployment.sees(
        partial(soak.failed_starts_with_mail, first), what="a session with mail that fails to start"
    )
    for writer in writers:
        writer.start()
    try:
        killer.kill_while(
            lambda: any(writer.is_alive() for writer in writers) or killer.done.total() < KILLS_MIN
        )
    finally:
        for writer in writers:
            writer.finished.set()
            writer.join()
    killed_s = time.monotonic() - began_at
    settle(soak, within_s=within_s)

    assert sum(len(writer.accepted) for writer in writers) == messages
    sys.stdout.write(f"{summary(soak)}, {sum(w.repeated for w in writers)} messages sent twice, ")
    sys.stdout.write(f"{killed_s:.0f} s of kills, {time.monotonic() - began_at:.0f} s in all\n")
    faults = [fault for name in soak.names for fault in faults_of(soak, name)]
    assert "\n".join([*faults, *post_faults(soak, writers)]) == ""
    return killer


def faults_of(soak: MailSoak, name: str) -> list[str]:
    """Return every fault in the mail and the sessions of an agent."""
    return [
        *delivery_faults(soak, name),
        *session_faults(soak, name),
        *reading_faults(soak, name),
        *overlap_faults(soak, name),
        *(f"{name}: {mail} still waits" for mail in soak.waiting(name)),
    ]


def settle(soak: MailSoak, *, within_s: float) -> None:
    """Wait until every agent was given all its mail, then stop it and check for leftovers."""
    deployment = soak.deployment
    for name in soak.names:
        try:
            deployment.sees(partial(soak.is_idle, name), what=f"{name} is idle", within_s=within_s)
        except AssertionError as late:
            story = deployment.story(soak.record(name).id)
            last = soak.record(name).data.get("last")
            raise AssertionError(f"{late}\n{last}\n{story[-6_000:]}") from None

    def all_idle() -> bool:
        # Twice: an agent that was checked later may have written to one that was checked before.
        return all(soak.is_idle(name) for _ in range(2) for name in soak.names)

    deployment.sees(all_idle, what="all agents are idle at once", within_s=within_s)
    for name in soak.names:
        soak.loops.stop(name)
    for name in soak.names:
        life = soak.loops.latest_life(name)
        deployment.reaches(life, "stopped")
        deployment.comes_to_rest(life)
        deployment.checked(life)
        assert deployment.client.dispatch.views.holds(name) == {}
    # A supervisor that has reported how its session ended needs a moment to exit.
    deployment.sees(lambda: not session_processes(soak), what="no process of a session is left")


@pytest.mark.proof
def test_each_message_goes_to_one_session_whatever_is_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    # Supervisors are found and killed by the variables of their deployment.
    deployment = new_deployment(**{OWN_FORK_SERVER: "1"})
    soak = MailSoak(deployment.full(workers=2, concurrency=6), tmp_path)

    killer = send_while_killing(
        soak, messages=150, producers=3, pause_s=0.8, kill_pause_s=0.6, within_s=180
    )

    assert killer.done.total() >= KILLS_MIN


@pytest.mark.proof
@pytest.mark.slow(minutes=7)
@pytest.mark.timeout(1_800)
def test_each_of_ten_thousand_messages_goes_to_one_session_whatever_is_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment(**{OWN_FORK_SERVER: "1"})
    soak = MailSoak(deployment.full(workers=2, concurrency=6), tmp_path)

    killer = send_while_killing(
        soak, messages=10_000, producers=4, pause_s=1.2, kill_pause_s=1.2, within_s=300
    )

    assert killer.done.total() > 100
    assert set(killer.done) == set(KINDS)


def test_a_message_that_is_sent_again_with_its_op_id_to_a_new_life_is_stored_once(
    deployment: Deployment, tmp_path: Path
) -> None:
    soak = MailSoak(deployment, tmp_path, names=("owl",))
    soak.start("owl")
    deployment.sees(partial(soak.is_idle, "owl"), what="owl is idle")
    send = partial(soak.loops.send, "owl", "hello", sender="operator", op_id="once")
    sent = send()
    soak.loops.stop("owl", wait_s=120)
    soak.start("owl")

    assert send() == sent
    assert [one.id for one in soak.inbox("owl")] == [sent]


@pytest.mark.slow
def test_a_life_that_stops_before_it_has_a_worktree_passes_the_read_position_on(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    soak = MailSoak(deployment, tmp_path, names=("owl",))
    soak.start("owl")
    soak.loops.send("owl", "hello", sender="operator")
    deployment.sees(partial(soak.is_idle, "owl"), what="owl was given its mail")
    soak.loops.stop("owl", wait_s=120)
    worker.stop()
    soak.start("owl")
    soak.loops.stop("owl")
    deployment.worker()
    soak.start("owl")
    deployment.sees(partial(soak.is_idle, "owl"), what="owl is idle")

    assert soak.lives("owl") == ["owl/1", "owl/2", "owl/3"]
    assert faults_of(soak, "owl") == []
