"""Every row of the loop is fired in a running deployment, by each component that it names.

One deployment plays all the scenes; workers that serve ever more of its queues come one after
another, so that agents can be met in the states that nothing else would keep them in.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.machines.loops.loop.table import LIVE, LOOP
from interlock.kernel.store.fold import fold
from interlock.kernel.table import Ask, Transition
from interlock.workers.client import Client
from interlock.workers.loops.client import Loops
from interlock.workers.loops.paths import Home
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.loops.agents import Colony

Fired = tuple[str, str, str, str, str]  # from, trigger, to, what becomes of its data, by whom
ACTORS = ("person", "producer")
WORDS = tuple((verb, who) for verb in ("stop", "fail") for who in ACTORS)
ENDS: Mapping[str, str] = {"stop": "operator_stop", "fail": "fatal_error"}
EXHAUSTS = ("initializing", "building_prompt")
ENTRY_STATE, ENTRY_ATTEMPTS = 2, 5  # places of words in an entry's line
# Before its command looks whether it is told to begin, an agent that this names waits.
HOLD = '[ ! -e "$DEPLOYMENT_FOLDER/held-$INTERLOCK_AGENT" ] || exec sleep 600\n'


def named(row: Transition, who: str) -> Fired:
    """Return a row as it is compared."""
    change = row.update.__name__ if row.update else ""
    return str(row.source), str(row.trigger), str(row.target), change, who


TABLE = {named(row, who) for row in LOOP.transitions for who in row.by}


class Scenes(Colony):
    """Agents in one deployment, and who tells them something: a person, or a producer."""

    redis: redis.Redis

    def elsewhere(self, name: str) -> Colony:
        """Return agents with a repository of their own, which can be taken away."""
        folder = self.folder / name
        folder.mkdir()
        return Colony(self.deployment, folder)

    def loops_of(self, who: str) -> Loops:
        """Return the client of somebody."""
        return Loops(Client(self.deployment.client.settings, actor=who))

    def each(self, kind: str, *always: Any, **options: Any) -> dict[str, tuple[str, str]]:
        """Start an agent for each word that can be said to it, and for each who says it."""
        names = {f"{kind}-{verb}-{who}": (verb, who) for verb, who in WORDS}
        for name in names:
            self.start(name, *always, **options)
        return names

    def told(self, state: str, agents: Mapping[str, tuple[str, str]]) -> None:
        """Say to agents that stand in a state what they were started for."""
        for name, (verb, who) in agents.items():
            self.reaches(name, state)
            loops = self.loops_of(who)
            _ = loops.stop(name) if verb == "stop" else loops.fail(name, "so it is")
            self.goes(name, ENDS[verb], "stopped", who)

    def over(self, *names: str) -> None:
        """Stop agents that have shown what they were started for: their sessions cost time."""
        for name in names:
            self.loops.stop(name)

    def goes(self, name: str, trigger: str, target: str, who: str) -> None:
        """Wait until somebody has brought an agent to a state."""
        of, wanted = self.record(name).id, (trigger, target, who)

        def gone() -> bool:
            events = self.deployment.events(of)
            return wanted in {(one.trigger, one.target, one.cause.actor) for one in events}

        try:
            self.deployment.sees(gone, what=" ".join((name, *wanted)), within_s=60)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.deployment.story(of)}") from None

    def tried(self, name: str, effect: str, attempts: int) -> None:
        """Make it that an effect that nobody is at was tried so often: nobody waits for hours."""
        of = self.record(name).id
        record = self.deployment.client.dispatch.keys.record(of)

        def write(pipe: Any) -> Any:
            fields = {key.decode(): line.decode() for key, line in pipe.hgetall(record).items()}
            pipe.multi()
            for field, line in fields.items():
                words = line.split(" ")
                idle = field.startswith("e:") and words[0] == effect
                if idle and words[ENTRY_STATE] == "owed":
                    words[ENTRY_ATTEMPTS] = str(attempts)
                    pipe.hset(record, field, " ".join(words))
                    return True
            return False

        def written() -> Any:
            return self.redis.transaction(write, record, value_from_callable=True)

        self.deployment.sees(written, what=f"nobody is at the {effect} of {name}")

    def kill_keeper(self, name: str) -> None:
        """Kill who keeps an agent's session."""
        [entry] = [one for one in self.record(name).entries if one.name == "session"]
        os.kill(int(entry.holder.rpartition(":")[2]), signal.SIGKILL)

    def fired(self) -> set[Fired]:
        """Return each row that was followed, with who fired it. Each agent equals its log."""
        found = set()
        for agent in self.loops.list():
            self.deployment.checked(agent["id"])
            events = self.deployment.events(agent["id"])
            for n, event in enumerate(events[1:], 1):
                before = fold(LOOP, events[:n])
                ask = Ask(before.data, event.payload, event.facts)
                rows = LOOP.rows(before.state, event.trigger)
                row = next(one for one in rows if one.guard is None or one.guard(ask))
                assert (row.source, row.target) == (event.source, event.target)
                found.add(named(row, event.cause.actor))
        return found


def nobody_works(play: Scenes) -> Iterator[None]:
    """Stop agents that never began, and take others' repository away."""
    play.told("initializing", play.each("newborn"))
    gone = play.elsewhere("gone")
    gone.start("homeless")
    gone.start("searching", host="", initializing_s=1)
    gone.start("weary", host="")
    gone.repo.rename(gone.folder / "away")
    yield
    play.goes("homeless", "fatal_error", "stopped", "worktree")
    play.goes("searching", "overdue", "initializing", "stalls")
    play.goes("searching", "overdue", "stopped", "stalls")
    play.tried("weary", "worktree", 20)
    play.goes("weary", "fatal_error", "stopped", "orphans")


def nobody_writes(play: Scenes) -> None:
    """Stop agents that wait for a prompt; one waits too long."""
    briefed = play.each("briefed")
    play.start("unheard", building_s=1)
    play.told("building_prompt", briefed)
    play.goes("unheard", "overdue", "initializing", "stalls")
    play.over("unheard")


def nobody_launches(play: Scenes) -> None:
    """Stop agents that wait for a session; one waits too long, others' launches wore out."""
    ready = play.each("ready")
    play.start("unlaunched", spawning_s=1)
    play.start("worn")
    play.start("worn-out", max_total_errors=1)
    play.told("spawning", ready)
    play.goes("unlaunched", "session_timeout", "spawning", "stalls")
    play.goes("unlaunched", "session_timeout", "initializing", "stalls")
    for name, state in (("worn", "cooling_down"), ("worn-out", "stopped")):
        play.reaches(name, "spawning")
        play.tried(name, "session", 3)
        play.goes(name, "session_error", state, "orphans")
    play.over("unlaunched", "worn")


def stops(play: Scenes) -> Iterator[None]:
    """Stop agents wherever a session has brought them."""
    never = {"wait": str(play.folder / "never")}
    wish = {"type": "failed", "error": "too many requests", "retry_after_s": 600}
    resting = play.each("resting")
    parked = play.each("parked", wish, {"exit": 1}, parks=True)
    busy = play.each("busy", never)
    asked = play.each("asked", {"stubborn": True}, never, grace_s=60)
    yield
    play.told("session_complete", resting)
    play.told("cooling_down", parked)
    play.told("running", busy)
    for name in asked:
        play.sees(name)
        play.reaches(name, "running")
        play.send(name, urgent=True)
    play.told("interrupting", asked)


def errors(play: Scenes) -> Iterator[None]:
    """Fail to begin, fail, and take too long: once, and once too often."""
    never, twice = {"wait": str(play.folder / "never")}, {"max_total_errors": 2}
    play.loops.start("none", repo=play.repo, command="no-such-program", **twice)
    for name, most in (("slow", 20), ("slowest", 1)):
        (play.deployment.folder / f"held-{name}").touch()
        play.start(name, spawning_s=4, max_total_errors=most)
    play.start("crash", {"exit": 3}, **twice)
    play.start("late", never, session_timeout_s=1, **twice)
    play.start("lost", never)
    play.start("lost-for-good", never, max_total_errors=1)
    yield
    for name in ("lost", "lost-for-good"):
        play.sees(name)
        play.kill_keeper(name)
    play.goes("slow", "session_timeout", "cooling_down", "stalls")
    play.goes("slowest", "session_timeout", "stopped", "stalls")
    play.goes("lost", "session_error", "cooling_down", "orphans")
    play.over("slow", "lost")
    play.goes("lost-for-good", "session_error", "stopped", "orphans")
    for name, trigger, who in (
        ("none", "session_error", "session"),
        ("crash", "session_error", "session"),
        ("late", "session_timeout", "stalls"),
    ):
        play.goes(name, trigger, "cooling_down", who)
        play.goes(name, "backoff_elapsed", "building_prompt", "stalls")
        play.goes(name, trigger, "stopped", who)


def interrupts(play: Scenes) -> Iterator[None]:
    """Interrupt sessions that end well, or badly, or not at all, or with their keeper."""
    never, stubborn = {"wait": str(play.folder / "never")}, {"stubborn": True}
    play.start("obedient", never, grace_s=60)
    play.loops.start("brittle", repo=play.repo, command="exec sleep 600", grace_s=60)
    play.start("deaf", stubborn, never, grace_s=1)
    play.start("forsaken", stubborn, never, grace_s=60)
    play.start("tardy", stubborn, never, grace_s=60, session_timeout_s=8)
    yield
    for name in ("tardy", "obedient", "brittle", "deaf", "forsaken"):
        play.reaches(name, "running")
        if name != "brittle":
            play.sees(name)
        play.send(name, urgent=True)
        play.goes(name, "urgent_message", "interrupting", "drain")
    play.kill_keeper("forsaken")
    for name, trigger, who in (
        ("obedient", "session_succeeded", "session"),
        ("brittle", "session_error", "session"),
        ("deaf", "grace_exceeded", "stalls"),
        ("forsaken", "session_error", "orphans"),
        ("tardy", "session_timeout", "stalls"),
    ):
        play.goes(name, trigger, "building_prompt", who)
        play.over(name)


def prompts(play: Scenes) -> Iterator[None]:
    """Take away what a prompt is built from, and the folder that it is stored in."""
    gone = play.elsewhere("going")
    gone.start("astray")
    play.start("stumbling", building_s=3)
    play.start("baffled")
    yield
    for name in ("astray", "stumbling", "baffled"):
        record = play.reaches(name, "session_complete")
        if name != "astray":
            (Home(record.id, play.deployment.client.settings).session(2)).write_text("in the way")
    gone.repo.rename(gone.folder / "away")
    for name in ("astray", "stumbling", "baffled"):
        play.send(name)
        play.goes(name, "worktree_ready", "building_prompt", "drain")
    play.tried("baffled", "prompt", 20)
    play.goes("astray", "fatal_error", "stopped", "prompt")
    play.goes("baffled", "fatal_error", "stopped", "orphans")
    play.goes("stumbling", "overdue", "building_prompt", "stalls")
    play.goes("stumbling", "overdue", "stopped", "stalls")


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_every_row_is_fired_by_each_of_its_producers(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> None:
    deployment = new_deployment()
    play = Scenes(deployment, tmp_path)
    play.redis = client
    (tmp_path / "hold.sh").write_text(HOLD)
    unborn = nobody_works(play)
    next(unborn)
    deployment.beat()
    deployment.worker(queues=["worktree", "drain", "retirement", "sweeps"])
    nobody_writes(play)
    deployment.worker(queues=["prompt"])
    nobody_launches(play)
    deployment.worker(queues=["session"], concurrency=32, BASH_ENV=str(tmp_path / "hold.sh"))
    at_once = [scene(play) for scene in (errors, interrupts, prompts, stops)]
    for scene in at_once:
        next(scene)
    for scene in (unborn, *at_once):
        assert next(scene, "over") == "over", "a scene waits once"

    # What moves on while it is looked at does not equal what was read of its log.
    play.over(*(one["name"] for one in play.loops.list()))
    fired = play.fired()
    assert TABLE - fired == set(), "fired by nobody"
    assert fired - TABLE == set(), "fired by one whom the table does not name"


def test_the_scenes_know_every_state_in_which_an_agent_lives() -> None:
    assert {str(row.source) for row in LOOP.transitions} == set(map(str, LIVE))
    assert len(LOOP.transitions) == 41
