"""Mail to agents while workers, keepers and sessions are killed at random: each to one session."""

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
from tests.end_to_end.loops.mail_soak import (
    Aviary,
    Killer,
    Producer,
    figures,
    of_sessions,
    wrong_deliveries,
    wrong_posts,
    wrong_readings,
    wrong_sessions,
    wrong_times,
)

SEED = "LOOP_MAIL_SEED"
KILLS_MIN = 5
KINDS = ("worker", "keeper", "watchdog", "both", "session", "launch")


def under_fire(
    aviary: Aviary,
    *,
    mails: int,
    producers: int,
    pause_s: float,
    kill_pause_s: float,
    within_s: float,
) -> Killer:
    """Send so many mails while whatever runs is killed, and see what became of each."""
    seed = os.environ.get(SEED) or secrets.token_hex(4)
    sys.stdout.write(f"{SEED}={seed}\n")
    began, first = time.monotonic(), aviary.names[0]
    each, burst = mails // producers, 5 if mails < 1_000 else 10
    writers = [
        Producer(aviary, f"{seed}-{n}", each, pause_s=pause_s, burst=burst)
        for n in range(producers)
    ]
    killer = Killer(aviary, seed, KINDS, pause_s=kill_pause_s)
    aviary.equip(first)
    killer.hide(first)
    for name in aviary.names:
        aviary.start(name)
    aviary.loops.send(first, "whoever comes first", sender="operator")
    aviary.deployment.sees(partial(aviary.released, first), what="mail of a launch that failed")
    for writer in writers:
        writer.start()
    try:
        killer.rage(
            lambda: any(writer.is_alive() for writer in writers) or killer.done.total() < KILLS_MIN
        )
    finally:
        for writer in writers:
            writer.over.set()
            writer.join()
    killed_s = time.monotonic() - began
    settle(aviary, within_s=within_s)

    assert sum(len(writer.accepted) for writer in writers) == mails
    sys.stdout.write(f"{figures(aviary)}, {sum(w.repeated for w in writers)} posts repeated, ")
    sys.stdout.write(f"{killed_s:.0f} s of kills, {time.monotonic() - began:.0f} s in all\n")
    faults = [fault for name in aviary.names for fault in wrong(aviary, name)]
    assert "\n".join([*faults, *wrong_posts(aviary, writers)]) == ""
    return killer


def wrong(aviary: Aviary, name: str) -> list[str]:
    """Return whatever is wrong with an agent's mail."""
    return [
        *wrong_deliveries(aviary, name),
        *wrong_sessions(aviary, name),
        *wrong_readings(aviary, name),
        *wrong_times(aviary, name),
        *(f"{name}: {mail} waits still" for mail in aviary.waiting(name)),
    ]


def settle(aviary: Aviary, *, within_s: float) -> None:
    """Wait until every agent was given all its mail, then stop it: nothing of it is left."""
    deployment = aviary.deployment
    for name in aviary.names:
        try:
            deployment.sees(partial(aviary.rests, name), what=f"{name} rests", within_s=within_s)
        except AssertionError as late:
            told = deployment.story(aviary.record(name).id)
            last = aviary.record(name).data.get("last")
            raise AssertionError(f"{late}\n{last}\n{told[-6_000:]}") from None

    def all_rest() -> bool:
        # Twice: who was looked at later may have written to who was looked at before.
        return all(aviary.rests(name) for _ in range(2) for name in aviary.names)

    deployment.sees(all_rest, what="all rest at once", within_s=within_s)
    for name in aviary.names:
        aviary.loops.stop(name)
    for name in aviary.names:
        of = aviary.loops.latest(name)
        deployment.reaches(of, "stopped")
        deployment.settles(of)
        deployment.checked(of)
        assert deployment.client.dispatch.views.holds(name) == {}
    # A keeper that has told how its session ended needs a moment to go.
    deployment.sees(lambda: not of_sessions(aviary), what="no process of a session is left")


@pytest.mark.proof
def test_mail_is_given_to_one_session_each_whoever_is_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    aviary = Aviary(new_deployment().full(workers=2, concurrency=6), tmp_path)

    killer = under_fire(aviary, mails=150, producers=3, pause_s=0.8, kill_pause_s=0.6, within_s=60)

    assert killer.done.total() >= KILLS_MIN


@pytest.mark.proof
@pytest.mark.timeout(1_800)
def test_ten_thousand_mails_are_given_to_one_session_each_whoever_is_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    aviary = Aviary(new_deployment().full(workers=2, concurrency=6), tmp_path)

    killer = under_fire(
        aviary, mails=10_000, producers=4, pause_s=1.2, kill_pause_s=1.2, within_s=300
    )

    assert killer.done.total() > 100
    assert set(killer.done) == set(KINDS)


def test_a_post_that_is_repeated_when_its_agent_has_a_new_life_is_posted_once(
    deployment: Deployment, tmp_path: Path
) -> None:
    aviary = Aviary(deployment, tmp_path, names=("owl",))
    aviary.start("owl")
    deployment.sees(partial(aviary.rests, "owl"), what="owl rests")
    send = partial(aviary.loops.send, "owl", "hello", sender="operator", op_id="once")
    posted = send()
    aviary.loops.stop("owl", wait_s=30)
    aviary.start("owl")

    assert send() == posted
    assert [one.id for one in aviary.inbox("owl")] == [posted]


@pytest.mark.slow
def test_a_life_that_ended_before_it_had_settled_in_hands_on_what_mail_was_read(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    worker = deployment.worker()
    aviary = Aviary(deployment, tmp_path, names=("owl",))
    aviary.start("owl")
    aviary.loops.send("owl", "hello", sender="operator")
    deployment.sees(partial(aviary.rests, "owl"), what="owl was given its mail")
    aviary.loops.stop("owl", wait_s=30)
    worker.stop()
    aviary.start("owl")
    aviary.loops.stop("owl")
    deployment.worker()
    aviary.start("owl")
    deployment.sees(partial(aviary.rests, "owl"), what="owl rests")

    assert aviary.lives("owl") == ["owl/1", "owl/2", "owl/3"]
    assert wrong(aviary, "owl") == []
