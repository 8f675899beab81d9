"""Every row of job and graph is fired in a running deployment, by each component that it names.

One deployment plays all the scenes at the same time; what its logs say is compared with the tables.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.event import Cause, Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call
from interlock.workers.client import Client
from interlock.workers.jobs.graphs import Graphs
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due

Fired = tuple[str, str, str, str, str]  # machine, from, trigger, to, by whom
# For these a suspension has to come in the middle of one look at a job that waits. Others than
# scheduling fire the same rows here.
RACES: set[Fired] = {
    ("job", "suspended", "dependencies_met", "suspended", "scheduling"),
    ("job", "suspended", "dependency_lost", "suspended", "scheduling"),
    ("job", "suspended", "dependency_lost", "canceled", "scheduling"),
}
HANGS = "sleep 600"
NEVER = "g/never"
REASON = {"reason": "so it is"}
# What makes a job stand in a state; `brought` says what it is told on the way.
RECIPES: dict[str, dict[str, Any]] = {
    "draft": {"held": True},
    "pending": {"depends_on": [NEVER]},
    "suspended": {"depends_on": [NEVER]},
    "running": {"command": HANGS},
    "paused": {"command": HANGS},
    "review_required": {"manual": True},
    "reviewing": {"review": {"command": HANGS}},
    "intervention_required": {"command": "exit 3"},
    "approval_required": {"auto_approve": False},
}
CANCELABLE = tuple(RECIPES)
SUSPENDABLE = tuple(state for state in RECIPES if state != "suspended")
FORCED = tuple(state for state in RECIPES if state != "draft")
GATES = ("review_required", "intervention_required", "approval_required")
RESTEPPED = ("pending", "suspended", *GATES)
TOLD: tuple[tuple[str, str, dict[str, Any]], ...] = (  # where a job stands, what a person says
    ("draft", "config", {"description": "another"}),
    ("draft", "activate", {}),
    ("suspended", "resume", {}),
    ("running", "pause", {}),
    ("paused", "unpause", {}),
    ("pending", "run", {}),
    ("review_required", "run", {}),
    ("approval_required", "approve", {}),
    ("approval_required", "reject", REASON),
    ("intervention_required", "resubmit", {}),
    ("intervention_required", "resubmit --to review", {}),
    ("intervention_required", "terminate", {}),
    *((state, "suspend", {}) for state in SUSPENDABLE),
    *((state, "cancel", {}) for state in CANCELABLE),
    *((state, "force-success", REASON) for state in FORCED),
    *((state, "restep", {"phase": "default"}) for state in RESTEPPED),
)


def job(folder: Path, command: str = "true", **more: Any) -> dict[str, Any]:
    """Return what a job of one command is born from; it is signed off by itself."""
    doer = {"command": command, **more.pop("worker", {})}
    return {"phases": [{"worker": doer}], "folder": str(folder), "auto_approve": True, **more}


def answers(**reply: Any) -> str:
    """Return a command that answers this."""
    return f'echo {shlex.quote(json.dumps(reply))} > "$INTERLOCK_JOB_REPLY"'


def first_run(command: str, otherwise: str = "true") -> str:
    """Return a command for the first run of a job, and another for those that follow."""
    return f"if [ $INTERLOCK_JOB_RUN = 1 ]; then {command}; else {otherwise}; fi"


class Scenes:
    """Jobs in one deployment, and who tells them something: a person, or a producer."""

    def __init__(self, deployment: Deployment, folder: Path, client: redis.Redis) -> None:
        self.deployment, self.folder, self.redis = deployment, folder, client
        self.graphs = Graphs(deployment.client)
        self.dispatch = deployment.client.dispatch
        self.ends: dict[str, str] = {}
        self.count = 0
        self.graphs.create(NEVER, job(folder))

    @cached_property
    def producer(self) -> Graphs:
        return Graphs(Client(self.deployment.client.settings, actor="producer"))

    def new(self, *, graph: str = "g", held: bool = False, ends: str = "", **more: Any) -> str:
        """Create a job, active at once; where it is to end by itself, `settle` waits for that."""
        self.count += 1
        of = f"{graph}/j{self.count}"
        self.graphs.create(of, job(self.folder, **more), held=held)
        self.ends |= {of: ends} if ends else {}
        return of

    def at(self, state: str) -> str:
        """Create a job that is to stand in a state; `brought` waits until it does."""
        return self.new(**RECIPES[state])

    def brought(self, of: str, state: str) -> Record:
        """Bring a job to the state that it was created for."""
        match state:
            case "suspended":
                self.graphs.command(of, "suspend")
            case "paused":
                self.reaches(of, "running")
                self.graphs.command(of, "pause")
            case "review_required":
                self.sees(lambda: self.graphs.job(of).data["met"], f"{of} can be stepped")
                self.graphs.step(of)
        return self.reaches(of, state)

    def reaches(self, of: str, state: str) -> Record:
        return self.deployment.reaches(of, state, within_s=60)

    def sees(self, condition: Callable[[], Any], what: str) -> None:
        self.deployment.sees(condition, what=what, within_s=60)

    def registered(self, *jobs: str) -> None:
        """Wait until jobs that wait for others owe nothing: they are told of the ends to come."""
        for of in jobs:
            self.deployment.settles(of)

    def starved(self, of: str) -> None:
        """Wait until a job knows that it waits in vain."""
        self.sees(lambda: self.graphs.job(of).data["lost"], f"{of} is starved")

    def due(self, of: str, timer: str) -> None:
        """Make a timer due now."""
        due(self.dispatch, self.redis, of, timer)

    def settle(self) -> None:
        """Wait for the end of every job that comes to it by itself."""
        for of, state in self.ends.items():
            self.reaches(of, state)

    def fired(self) -> set[Fired]:
        """Return each row that was fired, with who did it. Every record equals its log's fold."""
        found: set[Fired] = set()
        for name in ("job", "graph"):
            for stage in MACHINES[name].stages:
                for one in self.dispatch.views.list_in_state(
                    MACHINES[name], str(stage.state), 10_000
                ):
                    self.deployment.checked(one.id)
                    found |= {
                        (name, event.source, event.trigger, event.target, event.cause.actor)
                        for event in self.deployment.events(one.id)
                        if event.trigger != "created"
                    }
        return found


Scene = Callable[[Scenes], Iterator[None]]


def before_anybody_works(play: Scenes) -> None:
    """Suspend jobs whose registration is late, and lose a producer between birth and begin."""
    lost = play.new(held=True)
    late = {
        play.new(held=True, depends_on=[lost], on_cancel=choice): end
        for choice, end in (("starve", "suspended"), ("cancel", "canceled"))
    }
    for of, end in late.items():
        play.graphs.command(of, "activate")
        play.graphs.command(of, "suspend")
        play.ends[of] = end
    play.graphs.command(lost, "cancel")
    play.dispatch.create("job", "g/unborn", job(play.folder), Call(Cause("producer")))
    play.due("g/unborn", "kickoff")
    play.ends["g/unborn"] = "success"


def people(play: Scenes) -> Iterator[None]:
    """Tell jobs in every state all that they can be told there."""
    told = [(play.at(state), state, verb, words) for state, verb, words in TOLD]
    yield
    for of, state, verb, words in told:
        play.brought(of, state)
        play.graphs.command(of, verb, words)


def producers(play: Scenes) -> Iterator[None]:
    """Let a producer configure, begin and cancel."""
    canceled = [(play.at(state), state) for state in CANCELABLE]
    play.producer.command(play.at("draft"), "config", {"description": "another"})
    play.producer.client.submit(job(play.folder), id="g/begun", machine="job")
    play.ends["g/begun"] = "success"
    yield
    for of, state in canceled:
        play.brought(of, state)
        play.producer.command(of, "cancel")


def workers(play: Scenes) -> Iterator[None]:
    """Let workers and reviewers say what there is to say."""
    phases = [{"name": name, "worker": {"command": "true"}} for name in ("plan", "build")]
    play.new(ends="success", phases=phases)
    unfit = answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED", reasons=["no tests"])
    play.new(ends="intervention_required", review={"command": unfit})
    once: dict[str, Any] = {"retries_max": 1, "retry_delay_s": 1}
    play.new(ends="intervention_required", command="exit 75", **once)
    play.new(ends="intervention_required", review={"command": "exit 75"}, **once)
    limited = answers(action="RETRY", rate_limited=True, retry_after_s=1)
    play.new(ends="success", command=f"test -e told || {{ touch told; {limited}; }}")
    yield


def silent(play: Scenes) -> Iterator[None]:
    """Give no sign of life, and none again."""
    once: dict[str, Any] = {"ends": "intervention_required", "recoveries_max": 1}
    play.new(command=HANGS, running_s=1, **once)
    play.new(review={"command": HANGS}, reviewing_s=1, **once)
    yield


def limits(play: Scenes) -> Iterator[None]:
    """Reach the limits: before a worker or reviewer, at their call, and by time."""
    ends: dict[str, Any] = {"ends": "intervention_required"}
    dear, poor = {"cost_micro": 10}, {"cost_micro": 5}
    spends = answers(action="COMPLETED", cost=1)
    play.new(limits={"cost_micro": 0}, **ends)
    play.new(command=spends, review={"command": "true"}, limits={"cost_micro": 10**6}, **ends)
    play.new(worker=dear, limits=poor, **ends)
    play.new(review={"command": "true", **dear}, limits=poor, **ends)
    play.new(command=HANGS, limits={"time_s": 1}, **ends)
    play.new(review={"command": HANGS}, limits={"time_s": 6}, **ends)
    yield


def dependencies(play: Scenes) -> Iterator[None]:
    """End what others wait for: before their eyes, while they are put aside, before their time."""
    lost, won = play.new(held=True), play.new(held=True)
    starved, dies, aside, dies_aside = (
        play.new(depends_on=[lost], on_cancel=choice) for choice in ("starve", "cancel") * 2
    )
    goes_on, waits = (play.new(depends_on=[won]) for _ in range(2))
    yield
    play.registered(starved, dies, aside, dies_aside, goes_on, waits)
    for of in (aside, dies_aside, waits):
        play.graphs.command(of, "suspend")
    play.graphs.command(lost, "cancel")
    play.graphs.command(won, "activate")
    play.starved(play.new(depends_on=[lost]))
    play.new(depends_on=[lost], on_cancel="cancel", ends="canceled")
    # All are told by then, and nobody else looks at what is waived.
    play.registered(lost, starved)
    play.graphs.command(starved, "waive")
    play.starved(aside)
    play.sees(lambda: play.graphs.job(waits).data["met"], f"{waits} waits for nothing more")
    play.ends |= {starved: "success", dies: "canceled", dies_aside: "canceled", goes_on: "success"}


def unheard(play: Scenes) -> Iterator[None]:
    """Lose what is to be told of an end: who looks again finds it out."""
    lost, won = play.new(held=True), play.new(held=True)
    starved = play.new(depends_on=[lost])
    dies = play.new(depends_on=[lost], on_cancel="cancel", ends="canceled")
    goes_on = play.new(depends_on=[won], ends="success")
    yield
    play.registered(starved, dies, goes_on)
    for of in (lost, won):
        play.redis.delete(play.dispatch.keys.dependents(of))
    play.graphs.command(lost, "cancel")
    play.graphs.command(won, "activate")
    play.reaches(won, "success")
    for of in (starved, dies, goes_on):
        play.due(of, "recheck")
    play.starved(starved)


def graphs(play: Scenes) -> Iterator[None]:
    """Fill the slots of a graph, reach the limits of others, and end what has no more to do."""
    play.graphs.open("s", {"slots": 1})
    jobs = [play.new(graph="s", command="until test -e go; do sleep 0.1; done")]
    halted = {"raised": "", "given-up": ""}
    for name in halted:
        play.graphs.open(name, {"limits": {"iterations": 1}})
        jobs.append(play.new(graph=name))
        halted[name] = play.new(graph=name, depends_on=[jobs[-1]])
    dear: dict[str, dict[str, Any]] = {
        "dear-work": {"worker": {"cost_micro": 10}},
        "dear-review": {"review": {"command": "true", "cost_micro": 10}},
    }
    for name, more in dear.items():
        play.graphs.open(name, {"limits": {"cost_micro": 5}})
        play.new(graph=name, **more)
        play.ends[name] = "halted"
    yield
    # Begun together, either might be the one that has to stand in line.
    play.deployment.reaches(jobs[0], "running")
    jobs.append(second := play.new(graph="s"))
    play.sees(lambda: play.graphs.job(second).data.get("slots"), f"{second} stands in line")
    (play.folder / "go").touch()
    play.graphs.configure_graph("s", {"description": "of a person"})
    play.producer.configure_graph("s", {"description": "of a producer"})
    for name in halted:
        play.deployment.reaches(name, "halted")
    play.graphs.command(halted["given-up"], "cancel")
    play.graphs.configure_graph("raised", {"limits": {"iterations": 9}})
    for of in (*jobs, halted["raised"]):
        play.reaches(of, "success")
    # Its last job ended a day ago.
    ended = str(play.dispatch.views.now_ms() - 86_400_000)
    for of in (*jobs, *halted.values()):
        play.redis.hset(play.dispatch.keys.record(of), "since", ended)
    for name in ("s", *halted):
        play.due(name, "recheck")
        play.ends[name] = "finished"


def lost(play: Scenes) -> None:
    """Kill whoever works while jobs are worked on and reviewed; then let the disk be full."""
    jobs = []
    for recoveries in (0, 1):
        works, reviews = (f"touch {who}{recoveries}; {HANGS}" for who in ("works", "reviews"))
        jobs.append(play.new(command=works, recoveries_max=recoveries))
        jobs.append(play.new(review={"command": reviews}, recoveries_max=recoveries))
    play.sees(lambda: len(list(play.folder.glob("*s[01]"))) == len(jobs), "all are at work")
    for process in play.deployment.processes:
        if process.name.startswith("w"):
            process.kill()
    play.deployment.worker(concurrency=20, INTERLOCK_DISK_FREE_MIN_MB=str(10**9))
    play.reaches(play.new(), "suspended")
    play.sees(
        lambda: all("recovered" in triggers(play.deployment, of) for of in jobs), "all is found"
    )


def triggers(deployment: Deployment, of: str) -> list[str]:
    """Return what happened to a record, in order."""
    return [event.trigger for event in deployment.events(of)]


def last(deployment: Deployment, of: str, trigger: str) -> Event:
    """Return the last event of a kind."""
    return next(one for one in reversed(deployment.events(of)) if one.trigger == trigger)


SCENES: tuple[Scene, ...] = (
    silent,
    limits,
    workers,
    graphs,
    dependencies,
    unheard,
    people,
    producers,
)


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_every_row_is_fired_by_each_of_its_producers(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> None:
    play = Scenes(new_deployment(), tmp_path, client)
    before_anybody_works(play)
    play.deployment.full(concurrency=80)
    at_once = [scene(play) for scene in SCENES]
    for scene in at_once:
        next(scene)
    for scene in at_once:
        assert next(scene, "over") == "over", "a scene waits once"
    play.settle()
    lost(play)

    table = {
        (name, str(row.source), str(row.trigger), str(row.target), who)
        for name in ("job", "graph")
        for row in MACHINES[name].transitions
        for who in row.by
    }
    fired = play.fired()
    assert table - fired - RACES == set(), "fired by nobody"
    assert fired - table == set(), "fired by one whom the table does not name"
    assert {one[:4] for one in fired} == {one[:4] for one in table}
