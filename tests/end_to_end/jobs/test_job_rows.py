"""Every row of job and graph is fired in a running deployment, by each component that it names.

One deployment plays all scenes at the same time; then its logs are compared with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.event import Cause
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.systems.jobs.client import Graphs
from interlock.workers.client import Client
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.jobs.bench import HANGS, answers, job, triggers

Fired = tuple[str, str, str, str, str]  # machine, from, trigger, to, actor
# Scheduling fires these rows only if a job is suspended while it is scheduled. The scenes fire the
# same rows by other components.
RACES: set[Fired] = {
    ("job", "suspended", "dependencies_met", "suspended", "scheduling"),
    ("job", "suspended", "dependency_lost", "suspended", "scheduling"),
    ("job", "suspended", "dependency_lost", "canceled", "scheduling"),
}
NEVER = "g/never"
REASON = {"reason": "so it is"}
# The payloads of jobs that reach each state; `brought` gives the commands on the way.
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
COMMANDS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # state of a job, command of a person
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


class Scenes:
    """Jobs in one deployment, and the commands of a person or a producer on them."""

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
        """Create an active job. `settle` waits for the state in which it ends by itself."""
        self.count += 1
        job_id = f"{graph}/j{self.count}"
        self.graphs.create(job_id, job(self.folder, **more), held=held)
        self.ends |= {job_id: ends} if ends else {}
        return job_id

    def at(self, state: str) -> str:
        """Create a job for a state; `brought` waits until it reaches the state."""
        return self.new(**RECIPES[state])

    def brought(self, job_id: str, state: str) -> Record:
        """Bring a job to the state that it was created for."""
        match state:
            case "suspended":
                self.graphs.command(job_id, "suspend")
            case "paused":
                self.reaches(job_id, "running")
                self.graphs.command(job_id, "pause")
            case "review_required":
                self.sees(lambda: self.graphs.job(job_id).data["met"], f"{job_id} can be stepped")
                self.graphs.step(job_id)
        return self.reaches(job_id, state)

    def reaches(self, job_id: str, state: str) -> Record:
        return self.deployment.reaches(job_id, state, within_s=120)

    def sees(self, condition: Callable[[], Any], what: str) -> None:
        self.deployment.sees(condition, what=what, within_s=120)

    def registered(self, *jobs: str) -> None:
        """Wait until waiting jobs have no due effects, so that they are subscribed."""
        for job_id in jobs:
            self.deployment.comes_to_rest(job_id)

    def starved(self, job_id: str) -> None:
        """Wait until a job is starved."""
        self.sees(lambda: self.graphs.job(job_id).data["lost"], f"{job_id} is starved")

    def due(self, job_id: str, timer: str) -> None:
        """Make a timer due now."""
        due(self.dispatch, self.redis, job_id, timer)

    def settle(self) -> None:
        """Wait for the end of every job that ends by itself."""
        for job_id, state in self.ends.items():
            self.reaches(job_id, state)

    def fired(self) -> set[Fired]:
        """Return each row that was fired, with its actor; check every record against its log."""
        found: set[Fired] = set()
        for name in ("job", "graph"):
            for record_id in self.dispatch.views.ids(MACHINES[name]):
                self.deployment.checked(record_id)
                found |= {
                    (name, event.source, event.trigger, event.target, event.cause.actor)
                    for event in self.deployment.events(record_id)
                    if event.trigger != "created"
                }
        return found


Scene = Callable[[Scenes], Iterator[None]]


def before_anybody_works(play: Scenes) -> None:
    """Suspend jobs before they are subscribed, and lose a producer before it activates its job."""
    lost = play.new(held=True)
    late = {
        play.new(held=True, depends_on=[lost], on_cancel=choice): end
        for choice, end in (("starve", "suspended"), ("cancel", "canceled"))
    }
    for job_id, end in late.items():
        play.graphs.command(job_id, "activate")
        play.graphs.command(job_id, "suspend")
        play.ends[job_id] = end
    play.graphs.command(lost, "cancel")
    play.dispatch.lifecycle.create("job", "g/abandoned", job(play.folder), Cause("producer"))
    play.due("g/abandoned", "kickoff")
    play.ends["g/abandoned"] = "success"


def people(play: Scenes) -> Iterator[None]:
    """Give each command that is legal in each state."""
    jobs = [(play.at(state), state, verb, words) for state, verb, words in COMMANDS]
    yield
    for job_id, state, verb, words in jobs:
        play.brought(job_id, state)
        play.graphs.command(job_id, verb, words)


def producers(play: Scenes) -> Iterator[None]:
    """Let a producer configure, submit and cancel jobs."""
    canceled = [(play.at(state), state) for state in CANCELABLE]
    play.producer.command(play.at("draft"), "config", {"description": "another"})
    play.producer.client.submit(job(play.folder), id="g/begun", machine="job")
    play.ends["g/begun"] = "success"
    yield
    for job_id, state in canceled:
        play.brought(job_id, state)
        play.producer.command(job_id, "cancel")


def workers(play: Scenes) -> Iterator[None]:
    """Let workers and reviewers give each kind of reply."""
    phases = [{"name": name, "worker": {"command": "true"}} for name in ("plan", "build")]
    play.new(ends="success", phases=phases)
    invalid = answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED", reasons=["no tests"])
    play.new(ends="intervention_required", review={"command": invalid})
    once: dict[str, Any] = {"retries_max": 1, "retry_delay_s": 1}
    play.new(ends="intervention_required", command="exit 75", **once)
    play.new(ends="intervention_required", review={"command": "exit 75"}, **once)
    limited = answers(action="RETRY", rate_limited=True, retry_after_s=1)
    play.new(ends="success", command=f"test -e paused || {{ touch paused; {limited}; }}")
    yield


def silent(play: Scenes) -> Iterator[None]:
    """Give no sign of life, in the first attempt and in the second."""
    once: dict[str, Any] = {"ends": "intervention_required", "recoveries_max": 1}
    play.new(command=HANGS, running_s=1, **once)
    play.new(review={"command": HANGS}, reviewing_s=1, **once)
    yield


def limits(play: Scenes) -> Iterator[None]:
    """Reach limits before a worker or reviewer starts, at its start, and by time."""
    ends: dict[str, Any] = {"ends": "intervention_required"}
    dear, poor = {"cost_micro": 10}, {"cost_micro": 5}
    spends = answers(action="COMPLETED", cost=1)
    play.new(limits={"cost_micro": 0}, **ends)
    play.new(command=spends, review={"command": "true"}, limits={"cost_micro": 10**6}, **ends)
    play.new(worker=dear, limits=poor, **ends)
    play.new(review={"command": "true", **dear}, limits=poor, **ends)
    play.new(command=HANGS, limits={"time_s": 1}, **ends)
    reviewed = f"touch reviewed; {HANGS}"
    late = play.new(review={"command": reviewed}, limits={"time_s": 600}, **ends)
    yield
    play.sees((play.folder / "reviewed").exists, "its reviewer is at work")
    play.due(late, "limit")


def hours(play: Scenes) -> Iterator[None]:
    """Suspend jobs outside their hours; one is scheduled when they begin, a person holds one."""
    hour = play.dispatch.views.now_ms() // 3_600_000
    window = f"{(hour + 3) % 24:02}:00-{(hour + 4) % 24:02}:00"
    goes_on, held = (play.new(hours=window) for _ in range(2))
    yield
    for job_id in (goes_on, held):
        play.reaches(job_id, "suspended")
    play.due(goes_on, "until")
    play.graphs.command(held, "suspend")


def dependencies(play: Scenes) -> Iterator[None]:
    """End dependencies of jobs that wait, of suspended ones, and of jobs that are created later."""
    lost, won = play.new(held=True), play.new(held=True)
    starved, dies, aside, dies_aside = (
        play.new(depends_on=[lost], on_cancel=choice) for choice in ("starve", "cancel") * 2
    )
    goes_on, waits = (play.new(depends_on=[won]) for _ in range(2))
    yield
    play.registered(starved, dies, aside, dies_aside, goes_on, waits)
    for job_id in (aside, dies_aside, waits):
        play.graphs.command(job_id, "suspend")
    play.graphs.command(lost, "cancel")
    play.graphs.command(won, "activate")
    play.starved(play.new(depends_on=[lost]))
    play.new(depends_on=[lost], on_cancel="cancel", ends="canceled")
    # All notifications are delivered by then, so that nothing else changes the waived job.
    play.registered(lost, starved)
    play.graphs.command(starved, "waive")
    play.starved(aside)
    play.sees(lambda: play.graphs.job(waits).data["met"], f"{waits} waits for nothing more")
    play.ends |= {starved: "success", dies: "canceled", dies_aside: "canceled", goes_on: "success"}


def missed_ends(play: Scenes) -> Iterator[None]:
    """Lose the notification of an end; the recheck of the waiting job finds the end."""
    lost, won = play.new(held=True), play.new(held=True)
    starved = play.new(depends_on=[lost])
    dies = play.new(depends_on=[lost], on_cancel="cancel", ends="canceled")
    goes_on = play.new(depends_on=[won], ends="success")
    yield
    play.registered(starved, dies, goes_on)
    for job_id in (lost, won):
        play.redis.delete(play.dispatch.keys.subscribers(job_id))
    play.graphs.command(lost, "cancel")
    play.graphs.command(won, "activate")
    play.reaches(won, "success")
    for job_id in (starved, dies, goes_on):
        play.due(job_id, "recheck")
    play.starved(starved)


def graphs(play: Scenes) -> Iterator[None]:
    """Fill the slots of a graph, reach the limits of others, and finish graphs that are over."""
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
    # Started together, either job could be the one that waits.
    play.deployment.reaches(jobs[0], "running")
    jobs.append(second := play.new(graph="s"))
    play.sees(lambda: play.graphs.job(second).data.get("slots"), f"{second} waits for a slot")
    (play.folder / "go").touch()
    play.graphs.configure_graph("s", {"description": "of a person"})
    play.producer.configure_graph("s", {"description": "of a producer"})
    for name in halted:
        play.deployment.reaches(name, "halted")
    play.graphs.command(halted["given-up"], "cancel")
    play.graphs.configure_graph("raised", {"limits": {"iterations": 9}})
    for job_id in (*jobs, halted["raised"]):
        play.reaches(job_id, "success")
    # Its last job ended a day ago.
    ended = str(play.dispatch.views.now_ms() - 86_400_000)
    for job_id in (*jobs, *halted.values()):
        play.redis.hset(play.dispatch.keys.record(job_id), "since", ended)
    for name in ("s", *halted):
        play.due(name, "recheck")
        play.ends[name] = "finished"


def lost_workers(play: Scenes) -> None:
    """Kill the workers while jobs run and are reviewed; then start one with a full disk."""
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
        lambda: all("recovered" in triggers(play.deployment, job_id) for job_id in jobs),
        "all is found",
    )


SCENES: tuple[Scene, ...] = (
    silent,
    limits,
    hours,
    workers,
    graphs,
    dependencies,
    missed_ends,
    people,
    producers,
)


@pytest.mark.slow(minutes=0.5)
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
    lost_workers(play)

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
