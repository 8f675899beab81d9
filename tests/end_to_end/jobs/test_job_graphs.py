"""Graphs of jobs in a real deployment: in order and each once, whichever process dies."""

from __future__ import annotations

import itertools
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Event
from interlock.kernel.machines.jobs.job.table import DEPENDENCIES
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.scripts import read
from interlock.workers.jobs.graphs import Graphs
from interlock.workers.jobs.manifest import read_manifest
from interlock.workers.jobs.view import manifest_now
from interlock.workers.ops.inspection import verify_all
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment

SEED = "JOB_GRAPHS_SEED"
QUEUES = {"wide": 3, "narrow": 1}
SLOTS = {"g": 2, "h": 0, "k": 5}
HOUSE = {
    "INTERLOCK_LEASE_S": "3",
    "INTERLOCK_QUEUE_SLOTS": ",".join(f"{name}={slots}" for name, slots in QUEUES.items()),
}
AT_WORK = ("running", "paused")
WORKERS = 3
PAUSE_S = 0.5  # between two kills, on the average
Span = tuple[int, int]


@dataclass
class Plan:
    """Jobs of several graphs at random; each depends on some of those before it."""

    seed: str
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, number: int, folder: Path, *, commands: float, work_s: float = 0) -> Plan:
        """Draw one from the seed of this run; `commands` is the part that runs a shell command."""
        seed = os.environ.get(SEED) or secrets.token_hex(4)
        sys.stdout.write(f"{SEED}={seed}\n")
        found, draw = cls(seed), random.Random(seed)
        for n in range(number):
            of = f"{draw.choice(list(SLOTS))}/j{n}"
            before = list(found.jobs)[-25:]
            needed = draw.sample(before, min(len(before), draw.choice((0, 1, 1, 2, 2, 3, 8))))
            payload: dict[str, Any] = {"depends_on": needed, "auto_approve": True}
            worker: dict[str, Any] = {"capability": "jot"}
            if work_s:
                worker = {"capability": "slow", "parameters": {"seconds": work_s}}
            if draw.random() < commands:
                worker, payload["dir"] = {"command": f"sleep {work_s}"}, str(folder / of)
            payload |= {"phases": [{"worker": worker}], "recoveries_max": 100}
            if queue := draw.choice((*QUEUES, None, None)):
                payload["queue"] = queue
            found.jobs[of], found.priorities[of] = payload, draw.randrange(10)
        return found

    def hand_in(self, graphs: Graphs) -> None:
        """Create all in one random order and activate them in another."""
        draw = random.Random(f"{self.seed} order")
        for graph, slots in SLOTS.items():
            graphs.open(graph, {"slots": slots})
        for of in shuffled(draw, self.jobs):
            graphs.create(of, self.jobs[of], priority=self.priorities[of])
        for of in shuffled(draw, self.jobs):
            graphs.command(of, "activate")


def shuffled(draw: random.Random, ids: Mapping[str, Any]) -> list[str]:
    return draw.sample(list(ids), len(ids))


# --- what is true at the end -----------------------------------------------------------------


def all_went_well(deployment: Deployment, plan: Plan, *, killed: bool = False) -> None:
    """See that every job ran to its success, in order, within its slots; nothing may be left."""
    events = {of: deployment.events(of) for of in plan.jobs}
    faults = [
        *wrong_jobs(plan, events, killed=killed),
        *wrong_order(plan, events),
        *wrong_slots(plan, events),
    ]
    assert faults == []
    # A graph looks after itself from time to time, also when all its jobs have ended.
    rest = {f"{graph}:recheck" for graph in SLOTS}
    deployment.sees(lambda: set(indexed(deployment)) == rest, what="nothing is owed", within_s=60)
    for of, payload in plan.jobs.items():
        if folder := payload.get("dir"):
            assert read_manifest(Path(folder)) == manifest_now(deployment.client.dispatch, of), of
    assert list(left(deployment, plan)) == []
    assert verify_all(deployment.client.dispatch, None)["faults"] == []


def wrong_jobs(plan: Plan, events: Mapping[str, list[Event]], *, killed: bool) -> Iterator[str]:
    """Name each job that did not succeed once and for all."""
    for of in plan.jobs:
        told = Counter(event.trigger for event in events[of])
        once = {"activate", "dependencies_met", "agent_completed", "approve"}
        if not killed:
            once |= {"scheduled", "step", "review_completed"}
        if wrong := {name: told[name] for name in once if told[name] != 1}:
            yield f"{of}: {wrong}"
        if told["scheduled"] - 1 > told["recovered"]:
            yield f"{of} ran {told['scheduled']} times and was recovered {told['recovered']} times"
        if events[of][-1].target != "success":
            yield f"{of} is {events[of][-1].target}"


def wrong_order(plan: Plan, events: Mapping[str, list[Event]]) -> Iterator[str]:
    """Name each job that was met or began before all it depends on had ended."""
    ended = {of: events[of][-1].at_ms for of in plan.jobs}
    for of, payload in plan.jobs.items():
        began = min(e.at_ms for e in events[of] if e.trigger in ("dependencies_met", "scheduled"))
        for one in payload["depends_on"]:
            if began < ended[one]:
                yield f"{of} began {ended[one] - began} ms before {one} had ended"


def wrong_slots(plan: Plan, events: Mapping[str, list[Event]]) -> Iterator[str]:
    """Name each slot of which more were in use at once than there are."""
    for name, limit in [*SLOTS.items(), *QUEUES.items()]:
        users = [
            of
            for of, payload in plan.jobs.items()
            if name in (of.partition("/")[0], payload.get("queue"))
        ]
        most = at_once([span for of in users for span in spans(events[of])])
        if limit and most > limit:
            yield f"{most} used one of the {limit} slots of {name} at once"


def spans(events: list[Event]) -> Iterator[Span]:
    """Yield from when to when a job was at work, or paused in its place, in the store's ms."""
    began = None
    for event in events:
        if event.target in AT_WORK and began is None:
            began = event.at_ms
        elif event.target not in AT_WORK and began is not None:
            yield began, event.at_ms
            began = None


def at_once(found: list[Span]) -> int:
    """Return how many spans overlap most; one may begin in the very ms in which another ends."""
    steps = sorted([(at, 1) for at, _ in found] + [(at, -1) for _, at in found])
    return max(itertools.accumulate(step for _, step in steps), default=0)


def indexed(deployment: Deployment) -> list[str]:
    """Return every effect, timer and wait that somebody would look at."""
    keys = deployment.client.dispatch.keys
    places = (keys.effects, keys.timers, keys.waits)
    return [
        member.decode()
        for place, partition in itertools.product(places, range(PARTITIONS))
        for member in read(deployment.client.dispatch.client, "ZRANGE", place(partition), 0, -1)
    ]


def left(deployment: Deployment, plan: Plan) -> Iterator[str]:
    """Name what is left of slots, lines and countdowns."""
    dispatch = deployment.client.dispatch
    names = [f"graph:{graph}" for graph in SLOTS] + [f"queue:{queue}" for queue in QUEUES]
    for name, key in itertools.product(names, (dispatch.keys.slots, dispatch.keys.slots_line)):
        yield from map(str, read(dispatch.client, "ZRANGE", key(name), 0, -1))
    for of in plan.jobs:
        begun = [event.version for event in deployment.events(of) if event.trigger == "activate"]
        for version in begun:
            yield from dispatch.views.counted(of, f"{DEPENDENCIES}:{version}")


def over(deployment: Deployment, plan: Plan) -> bool:
    machine = deployment.client.dispatch.lifecycle.machine("job")
    return deployment.client.dispatch.views.counts(machine)["success"] == len(plan.jobs)


def succeed(deployment: Deployment, plan: Plan, *, within_s: float) -> None:
    """Wait until every job has ended well; tell the story of one that has not."""
    try:
        deployment.sees(
            lambda: over(deployment, plan), what="every job has succeeded", within_s=within_s
        )
    except AssertionError as late:
        stuck = [of for of in plan.jobs if deployment.client.show(of).state != "success"]
        first = next(of for of in stuck if not set(plan.jobs[of]["depends_on"]) & set(stuck))
        told = f"{len(stuck)} have not: {stuck[:20]}\n{deployment.story(first)}"
        raise AssertionError(f"{late}\n{told}") from None


# --- graphs at random ------------------------------------------------------------------------


def test_graphs_at_random_run_in_order_within_their_slots_each_job_once(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment(**HOUSE).full(workers=2)
    graphs, plan = Graphs(deployment.client), Plan.drawn(60, tmp_path, commands=0.2)
    plan.hand_in(graphs)

    succeed(deployment, plan, within_s=90)
    all_went_well(deployment, plan)


def under_fire(deployment: Deployment, plan: Plan, *, kills_max: int, within_s: float) -> int:
    """Kill one worker after the other while there is work; return how many died."""
    graphs, draw = Graphs(deployment.client), random.Random(f"{plan.seed} kills")
    for _ in range(WORKERS):
        deployment.worker(concurrency=2, ready=False)
    deployment.beat()
    plan.hand_in(graphs)
    kills, until = 0, time.monotonic() + within_s
    while kills < kills_max and time.monotonic() < until and not over(deployment, plan):
        # The workload, not a wait: whoever is killed is in the middle of something.
        time.sleep(draw.uniform(0, 2 * PAUSE_S))
        ready = [
            w for w in deployment.processes if w.name.startswith("w") and w.alive and w.is_ready()
        ]
        if ready:
            draw.choice(ready).kill()
            deployment.worker(concurrency=2, ready=False)
            kills += 1
    sys.stdout.write(f"{kills} workers were killed\n")
    succeed(deployment, plan, within_s=until - time.monotonic())
    all_went_well(deployment, plan, killed=True)
    return kills


@pytest.mark.proof
def test_whoever_is_killed_a_small_graph_ends_in_order_each_job_once(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    plan = Plan.drawn(30, tmp_path, commands=0.1, work_s=0.05)

    assert under_fire(new_deployment(**HOUSE), plan, kills_max=4, within_s=90) >= 1


@pytest.mark.proof
@pytest.mark.timeout(1_200)
def test_whoever_is_killed_three_hundred_jobs_end_in_order_each_job_once(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    plan = Plan.drawn(300, tmp_path, commands=0.15, work_s=0.05)

    assert under_fire(new_deployment(**HOUSE), plan, kills_max=1_000, within_s=900) > 20


# --- a blocked head --------------------------------------------------------------------------


def test_a_head_that_waits_for_a_full_queue_holds_up_nobody_behind_it(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment(**HOUSE).full()
    graphs = Graphs(deployment.client)
    graphs.open("g", {"slots": 1})
    stays = f"until test -e {tmp_path / 'go'}; do sleep 0.05; done"
    common = {"auto_approve": True, "folder": str(tmp_path)}
    full = {"phases": [{"worker": {"command": stays}}], "queue": "narrow"}
    graphs.create("h/full", {**common, **full}, held=False)
    deployment.reaches("h/full", "running")
    quick = {"phases": [{"worker": {"capability": "jot"}}]}
    graphs.create("g/head", {**common, **quick, "queue": "narrow"}, priority=0, held=False)
    deployment.sees(
        lambda: deployment.client.show("g/head").data.get("slots"), what="the head waits"
    )
    behind = [f"g/b{n}" for n in range(5)]
    for of in behind:
        graphs.create(of, {**common, **quick}, priority=9, held=False)

    deployment.ends(*behind)
    assert deployment.client.show("g/head").state == "pending"
    assert deployment.client.show("g/head").data["slots"] == ["queue:narrow"]
    (tmp_path / "go").touch()
    deployment.ends("h/full", "g/head")
