"""Every row of the loop's table is fired in a running deployment by each actor that it names.

One deployment runs all scenes. Workers for more and more queues are started one after
another, so that agents stay in the states that they would otherwise leave at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.record import partition_of
from interlock.kernel.store.fold import fold
from interlock.kernel.table import Ask, Transition
from interlock.systems.loops.client import Loops
from interlock.systems.loops.machines.loop.stages import LIVE
from interlock.systems.loops.machines.loop.table import LOOP
from interlock.systems.loops.paths import AgentPaths
from interlock.workers.client import Client
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.loops.agents import Agents

Fired = tuple[str, str, str, str, str]  # source, trigger, target, name of the update, actor
ACTORS = ("person", "producer")
ENDINGS = tuple((verb, actor) for verb in ("stop", "fail") for actor in ACTORS)
TRIGGERS: Mapping[str, str] = {"stop": "operator_stop", "fail": "fatal_error"}
ENTRY_STATE, ENTRY_ATTEMPTS = 2, 7  # positions of two fields in the stored line of an effect
# Sourced by bash: an agent with such a file never reports that its session is ready.
HOLD = """\
if [ -e "$DEPLOYMENT_FOLDER/held-$INTERLOCK_AGENT" ]; then
  touch "$DEPLOYMENT_FOLDER/at-$INTERLOCK_AGENT"
  exec sleep 600
fi
"""


def fired_row(row: Transition, actor: str) -> Fired:
    """Return a row and its actor in the form in which they are compared."""
    change = row.update.__name__ if row.update else ""
    return str(row.source), str(row.trigger), str(row.target), change, actor


TABLE = {fired_row(row, actor) for row in LOOP.transitions for actor in row.by}


class Scenes(Agents):
    """Agents in one deployment, with clients for a person and for a producer."""

    redis: redis.Redis

    def with_own_repository(self, name: str) -> Agents:
        """Return agents with a repository of their own, which can be moved away."""
        folder = self.folder / name
        folder.mkdir()
        return Agents(self.deployment, folder)

    def loops_of(self, actor: str) -> Loops:
        """Return a client that acts under this name."""
        return Loops(Client(self.deployment.client.settings, actor=actor))

    def start_each(self, kind: str, *always: Any, **options: Any) -> dict[str, tuple[str, str]]:
        """Start an agent for each way to stop it and each actor. Return both by the name."""
        names = {f"{kind}-{verb}-{actor}": (verb, actor) for verb, actor in ENDINGS}
        for name in names:
            self.start(name, *always, **options)
        return names

    def stop_in(self, state: str, agents: Mapping[str, tuple[str, str]]) -> None:
        """Stop each agent as soon as it is in a state, in the way that it was started for."""
        for name, (verb, actor) in agents.items():
            self.reaches(name, state)
            loops = self.loops_of(actor)
            _ = loops.stop(name) if verb == "stop" else loops.fail(name, "so it is")
            self.wait_for_row(name, TRIGGERS[verb], "stopped", actor)

    def stop_all(self, *names: str) -> None:
        """Stop agents whose scene is over, because their sessions cost time."""
        for name in names:
            self.loops.stop(name)

    def wait_for_row(self, name: str, trigger: str, target: str, actor: str) -> None:
        """Wait until an actor has brought an agent to a state by a trigger."""
        life, wanted = self.record(name).id, (trigger, target, actor)

        def is_logged() -> bool:
            events = self.deployment.events(life)
            return wanted in {(one.trigger, one.target, one.cause.actor) for one in events}

        try:
            self.deployment.sees(is_logged, what=" ".join((name, *wanted)))
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.deployment.story(life)}") from None

    def make_due(self, name: str, timer: str) -> None:
        """Make a timer of an agent due, because how long it runs beside others depends on them."""
        life, dispatch = self.record(name).id, self.deployment.client.dispatch
        record, field = dispatch.keys.record(life), f"t:{timer}"

        def write(pipe: Any) -> Any:
            line = pipe.hget(record, field)
            if line is None:
                return False
            due_at, rest = "1", line.decode().partition(" ")[2]
            pipe.multi()
            pipe.hset(record, field, f"{due_at} {rest}")
            pipe.zadd(dispatch.keys.timers(partition_of(life)), {f"{life}:{timer}": 1})
            return True

        assert self.redis.transaction(write, record, value_from_callable=True), f"no {timer} is set"

    def set_attempts(self, name: str, effect: str, attempts: int) -> None:
        """Set how often an idle effect was tried, because real attempts would take hours."""
        life = self.record(name).id
        record = self.deployment.client.dispatch.keys.record(life)

        def write(pipe: Any) -> Any:
            fields = {key.decode(): line.decode() for key, line in pipe.hgetall(record).items()}
            pipe.multi()
            for field, line in fields.items():
                parts = line.split(" ")
                idle = field.startswith("e:") and parts[0] == effect
                if idle and parts[ENTRY_STATE] == "owed":
                    parts[ENTRY_ATTEMPTS] = str(attempts)
                    pipe.hset(record, field, " ".join(parts))
                    return True
            return False

        def written() -> Any:
            return self.redis.transaction(write, record, value_from_callable=True)

        self.deployment.sees(written, what=f"the {effect} of {name} is idle")

    def kill_supervisor(self, name: str) -> None:
        """Kill the supervisor of an agent's session."""
        [entry] = [one for one in self.record(name).entries if one.name == "session"]
        os.kill(int(entry.holder.rpartition(":")[2]), signal.SIGKILL)

    def fired(self) -> set[Fired]:
        """Return each row that was followed, with its actor. Check each agent against its log."""
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
                found.add(fired_row(row, event.cause.actor))
        return found


def without_workers(play: Scenes) -> Iterator[None]:
    """Stop agents that no worker has started yet, and move the repository of others away."""
    play.stop_in("initializing", play.start_each("newborn"))
    gone = play.with_own_repository("gone")
    gone.start("homeless")
    gone.start("searching", host="", initializing_s=1)
    gone.start("weary", host="")
    gone.repo.rename(gone.folder / "away")
    yield
    play.wait_for_row("homeless", "fatal_error", "stopped", "worktree")
    play.wait_for_row("searching", "overdue", "initializing", "stalls")
    play.wait_for_row("searching", "overdue", "stopped", "stalls")
    play.set_attempts("weary", "worktree", 20)
    play.wait_for_row("weary", "fatal_error", "stopped", "orphans")


def without_prompts(play: Scenes) -> None:
    """Stop agents that wait for a prompt. One of them waits too long."""
    briefed = play.start_each("briefed")
    play.start("unheard", building_s=1)
    play.stop_in("building_prompt", briefed)
    play.wait_for_row("unheard", "overdue", "initializing", "stalls")
    play.stop_all("unheard")


def without_sessions(play: Scenes) -> None:
    """Stop agents that wait for a session. One waits too long; others have no attempts left."""
    ready = play.start_each("ready")
    play.start("unlaunched", spawning_s=1)
    play.start("worn")
    play.start("worn-out", max_total_errors=1)
    play.stop_in("spawning", ready)
    play.wait_for_row("unlaunched", "session_timeout", "spawning", "stalls")
    play.wait_for_row("unlaunched", "session_timeout", "initializing", "stalls")
    for name, state in (("worn", "cooling_down"), ("worn-out", "stopped")):
        play.reaches(name, "spawning")
        play.set_attempts(name, "session", 3)
        play.wait_for_row(name, "session_error", state, "orphans")
    play.stop_all("unlaunched", "worn")


def stops(play: Scenes) -> Iterator[None]:
    """Stop agents in each state that a session leads to."""
    never = {"wait": str(play.folder / "never")}
    rate_limit = {"type": "failed", "error": "too many requests", "retry_after_s": 600}
    resting = play.start_each("resting")
    parked = play.start_each("parked", rate_limit, {"exit": 1}, parks=True)
    busy = play.start_each("busy", never)
    asked = play.start_each("asked", {"stubborn": True}, never, grace_s=60)
    yield
    play.stop_in("session_complete", resting)
    play.stop_in("cooling_down", parked)
    play.stop_in("running", busy)
    for name in asked:
        play.wait_for(name)
        play.reaches(name, "running")
        play.send(name, urgent=True)
    play.stop_in("interrupting", asked)


def errors(play: Scenes) -> Iterator[None]:
    """Fail to start, fail, and take too long: once, and once too often."""
    never, twice = {"wait": str(play.folder / "never")}, {"max_total_errors": 2}
    play.loops.start("none", repo=play.repo, command="no-such-program", **twice)
    for name, maximum in (("slow", 20), ("slowest", 1)):
        (play.deployment.folder / f"held-{name}").touch()
        play.start(name, spawning_s=600, max_total_errors=maximum)
    play.start("crash", {"exit": 3}, **twice)
    play.start("garbled", {"type": "failed"}, **twice)  # it cannot be read, and exit code 0 follows
    play.start("late", never, session_timeout_s=1, **twice)
    play.start("lost", never)
    play.start("lost-for-good", never, max_total_errors=1)
    yield
    for name in ("lost", "lost-for-good"):
        play.wait_for(name)
        play.kill_supervisor(name)
    for name in ("slow", "slowest"):
        file = play.deployment.folder / f"at-{name}"
        play.deployment.sees(file.exists, what=f"{name} is launched")
        play.make_due(name, "limit")
    play.wait_for_row("slow", "session_timeout", "cooling_down", "stalls")
    play.wait_for_row("slowest", "session_timeout", "stopped", "stalls")
    play.wait_for_row("lost", "session_error", "cooling_down", "orphans")
    play.stop_all("slow", "lost")
    play.wait_for_row("lost-for-good", "session_error", "stopped", "orphans")
    for name, trigger, actor in (
        ("none", "session_error", "session"),
        ("crash", "session_error", "session"),
        ("garbled", "session_error", "session"),
        ("late", "session_timeout", "stalls"),
    ):
        play.wait_for_row(name, trigger, "cooling_down", actor)
        play.wait_for_row(name, "backoff_elapsed", "building_prompt", "stalls")
        play.wait_for_row(name, trigger, "stopped", actor)


def interrupts(play: Scenes) -> Iterator[None]:
    """Interrupt sessions that succeed, fail, do not end, or lose their supervisor."""
    never, stubborn = {"wait": str(play.folder / "never")}, {"stubborn": True}
    play.start("obedient", never, grace_s=60)
    play.loops.start("brittle", repo=play.repo, command="exec sleep 600", grace_s=60)
    play.start("deaf", stubborn, never, grace_s=1)
    play.start("forsaken", stubborn, never, grace_s=60)
    play.start("tardy", stubborn, never, grace_s=600, session_timeout_s=600)
    yield
    for name in ("obedient", "brittle", "deaf", "forsaken", "tardy"):
        play.reaches(name, "running")
        if name != "brittle":
            play.wait_for(name)
        play.send(name, urgent=True)
        play.wait_for_row(name, "urgent_message", "interrupting", "mail_check")
    play.kill_supervisor("forsaken")
    play.make_due("tardy", "session")
    for name, trigger, actor in (
        ("obedient", "session_succeeded", "session"),
        ("brittle", "session_error", "session"),
        ("deaf", "grace_exceeded", "stalls"),
        ("forsaken", "session_error", "orphans"),
        ("tardy", "session_timeout", "stalls"),
    ):
        play.wait_for_row(name, trigger, "building_prompt", actor)
        play.stop_all(name)


def prompts(play: Scenes) -> Iterator[None]:
    """Move the repository away that a prompt needs, and block the folder that it is stored in."""
    gone = play.with_own_repository("going")
    gone.start("astray")
    play.start("stumbling", building_s=600)
    play.start("baffled")
    yield
    for name in ("astray", "stumbling", "baffled"):
        record = play.reaches(name, "session_complete")
        if name != "astray":
            (AgentPaths(record.id, play.deployment.client.settings).session(2)).write_text(
                "in the way"
            )
    gone.repo.rename(gone.folder / "away")
    for name in ("astray", "stumbling", "baffled"):
        play.send(name)
        play.wait_for_row(name, "worktree_ready", "building_prompt", "mail_check")
    play.set_attempts("baffled", "prompt", 20)
    play.wait_for_row("astray", "fatal_error", "stopped", "prompt")
    play.wait_for_row("baffled", "fatal_error", "stopped", "orphans")
    while play.record("stumbling").state != "stopped":
        stumble(play)
    play.wait_for_row("stumbling", "overdue", "building_prompt", "stalls")
    play.wait_for_row("stumbling", "overdue", "stopped", "stalls")


def stumble(play: Scenes) -> None:
    """Let the prompt of `stumbling` be overdue once a worker has failed to build it."""
    life, version = play.record("stumbling").id, play.record("stumbling").version

    def failed() -> bool:
        begun_ms = play.deployment.events(life)[-1].at_ms
        notes = play.deployment.notes(life, "effect_failed")
        return any(note.at_ms >= begun_ms for note in notes)

    play.deployment.sees(failed, what="its prompt cannot be built")
    play.make_due("stumbling", "limit")
    play.deployment.sees(lambda: play.record("stumbling").version > version, what="it is overdue")


@pytest.mark.slow(minutes=1)
def test_every_row_is_fired_by_each_of_its_actors(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> None:
    deployment = new_deployment()
    play = Scenes(deployment, tmp_path)
    play.redis = client
    (tmp_path / "hold.sh").write_text(HOLD)
    not_started = without_workers(play)
    next(not_started)
    deployment.beat()
    deployment.worker(queues=["worktree", "mail_check", "agent_cleanup", "sweeps"])
    without_prompts(play)
    deployment.worker(queues=["prompt"])
    without_sessions(play)
    deployment.worker(
        queues=["session"],
        concurrency=32,
        BASH_ENV=str(tmp_path / "hold.sh"),
        INTERLOCK_PASS_VARIABLES="BASH_ENV",
    )
    at_once = [scene(play) for scene in (errors, interrupts, prompts, stops)]
    for scene in at_once:
        next(scene)
    for scene in (not_started, *at_once):
        assert next(scene, "over") == "over", "each scene yields once"

    # Stop all agents first: a record that changes while it is checked does not equal its log.
    play.stop_all(*(one["name"] for one in play.loops.list()))
    fired = play.fired()
    assert TABLE - fired == set(), "rows that no actor fired"
    assert fired - TABLE == set(), "rows fired by an actor that the table does not name"


def test_the_table_has_the_states_and_rows_that_the_scenes_cover() -> None:
    assert {str(row.source) for row in LOOP.transitions} == set(map(str, LIVE))
    assert len(LOOP.transitions) == 41
