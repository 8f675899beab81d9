"""Graphs of jobs in a real deployment: each job runs once and in order, although workers die."""

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
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Event
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.scripts import read
from interlock.systems.jobs.client import Graphs
from interlock.systems.jobs.machines.job.table import DEPENDENCIES
from interlock.systems.jobs.manifest import manifest_now, read_manifest
from interlock.workers.ops.verify import verify_all
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment

SEED = "JOB_GRAPHS_SEED"
QUEUES = {"wide": 3, "narrow": 1}
SLOTS = {"g": 2, "h": 0, "k": 5}
SETTINGS = {
    "INTERLOCK_QUEUE_SLOTS": ",".join(f"{name}={slots}" for name, slots in QUEUES.items()),
}
AT_WORK = ("running", "paused")
WORKERS = 3
Span = tuple[int, int]


@dataclass
class Plan:
    """Random jobs of several graphs; each depends on some of the jobs before it."""

    seed: str
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, number: int, folder: Path, *, commands: float, work_s: float = 0) -> Plan:
        """Draw a plan from the seed of this run; `commands` is the share of shell commands."""
        seed = os.environ.get(SEED) or secrets.token_hex(4)
        sys.stdout.write(f"{SEED}={seed}\n")
        found, draw = cls(seed), random.Random(seed)
        for n in range(number):
            job_id = f"{draw.choice(list(SLOTS))}/j{n}"
            before = list(found.jobs)[-25:]
            needed = draw.sample(before, min(len(before), draw.choice((0, 1, 1, 2, 2, 3, 8))))
            payload: dict[str, Any] = {"depends_on": needed, "auto_approve": True}
            worker: dict[str, Any] = {"capability": "jot"}
            if work_s:
                worker = {"capability": "slow", "parameters": {"seconds": work_s}}
            if draw.random() < commands:
                worker, payload["dir"] = {"command": f"sleep {work_s}"}, str(folder / job_id)
            payload |= {"phases": [{"worker": worker}], "recoveries_max": 100}
            if queue := draw.choice((*QUEUES, None, None)):
                payload["queue"] = queue
            found.jobs[job_id], found.priorities[job_id] = payload, draw.randrange(10)
        return found

    def hand_in(self, graphs: Graphs) -> None:
        """Create all jobs in one random order and activate them in another."""
        draw = random.Random(f"{self.seed} order")
        for graph, slots in SLOTS.items():
            graphs.open(graph, {"slots": slots})
        for job_id in shuffled(draw, self.jobs):
            graphs.create(job_id, self.jobs[job_id], priority=self.priorities[job_id])
        for job_id in shuffled(draw, self.jobs):
            graphs.command(job_id, "activate")


def shuffled(draw: random.Random, ids: Mapping[str, Any]) -> list[str]:
    return draw.sample(list(ids), len(ids))


def all_went_well(deployment: Deployment, plan: Plan, *, killed: bool = False) -> None:
    """Check that every job succeeded, in order and within its slots, and that nothing is left."""
    events = {job_id: deployment.events(job_id) for job_id in plan.jobs}
    faults = [
        *wrong_jobs(plan, events, killed=killed),
        *wrong_order(plan, events),
        *wrong_slots(plan, events),
    ]
    assert faults == []
    # A graph keeps its recheck timer, even when all its jobs have ended.
    rest = {f"{graph}:recheck" for graph in SLOTS}
    deployment.sees(lambda: set(indexed(deployment)) == rest, what="no effect is due")
    for job_id, payload in plan.jobs.items():
        if folder := payload.get("dir"):
            assert read_manifest(Path(folder)) == manifest_now(deployment.client.records, job_id), (
                job_id
            )
    assert list(left(deployment, plan)) == []
    assert verify_all(deployment.client.dispatch, None)["faults"] == []


def wrong_jobs(plan: Plan, events: Mapping[str, list[Event]], *, killed: bool) -> Iterator[str]:
    """Yield a fault for each job that did not succeed, or did anything twice."""
    for job_id in plan.jobs:
        counts = Counter(event.trigger for event in events[job_id])
        once = {"activate", "dependencies_met", "agent_completed", "approve"}
        if not killed:
            once |= {"scheduled", "step", "review_completed"}
        if wrong := {name: counts[name] for name in once if counts[name] != 1}:
            yield f"{job_id}: {wrong}"
        if counts["scheduled"] - 1 > counts["recovered"]:
            ran, recovered = counts["scheduled"], counts["recovered"]
            yield f"{job_id} ran {ran} times and was recovered {recovered} times"
        if events[job_id][-1].target != "success":
            yield f"{job_id} is {events[job_id][-1].target}"


def wrong_order(plan: Plan, events: Mapping[str, list[Event]]) -> Iterator[str]:
    """Yield a fault for each job that was met or began before its dependencies had ended."""
    ended = {job_id: events[job_id][-1].at_ms for job_id in plan.jobs}
    for job_id, payload in plan.jobs.items():
        began = min(
            e.at_ms for e in events[job_id] if e.trigger in ("dependencies_met", "scheduled")
        )
        for one in payload["depends_on"]:
            if began < ended[one]:
                yield f"{job_id} began {ended[one] - began} ms before {one} had ended"


def wrong_slots(plan: Plan, events: Mapping[str, list[Event]]) -> Iterator[str]:
    """Yield a fault for each slot that more jobs held at once than its limit allows."""
    for name, limit in [*SLOTS.items(), *QUEUES.items()]:
        users = [
            job_id
            for job_id, payload in plan.jobs.items()
            if name in (job_id.partition("/")[0], payload.get("queue"))
        ]
        used_at_once = at_once([span for job_id in users for span in spans(events[job_id])])
        if limit and used_at_once > limit:
            yield f"{used_at_once} used one of the {limit} slots of {name} at once"


def spans(events: list[Event]) -> Iterator[Span]:
    """Yield the spans in which a job held its slots, running or paused, in the store's ms."""
    began = None
    for event in events:
        if event.target in AT_WORK and began is None:
            began = event.at_ms
        elif event.target not in AT_WORK and began is not None:
            yield began, event.at_ms
            began = None


def at_once(found: list[Span]) -> int:
    """Return how many spans overlap at most; one may begin in the ms in which another ends."""
    steps = sorted([(at, 1) for at, _ in found] + [(at, -1) for _, at in found])
    return max(itertools.accumulate(step for _, step in steps), default=0)


def indexed(deployment: Deployment) -> list[str]:
    """Return every effect, timer and wait in the indexes of the store."""
    keys = deployment.client.dispatch.keys
    indexes = (keys.effects, keys.timers, keys.waits)
    return [
        member.decode()
        for key_of, partition in itertools.product(indexes, range(PARTITIONS))
        for member in read(deployment.client.dispatch.client, "ZRANGE", key_of(partition), 0, -1)
    ]


def left(deployment: Deployment, plan: Plan) -> Iterator[str]:
    """Yield every member that is left in slots, their queues, and countdowns."""
    dispatch = deployment.client.dispatch
    names = [f"graph:{graph}" for graph in SLOTS] + [f"queue:{queue}" for queue in QUEUES]
    for name, key in itertools.product(names, (dispatch.keys.slots, dispatch.keys.slots_queue)):
        yield from map(str, read(dispatch.client, "ZRANGE", key(name), 0, -1))
    for job_id in plan.jobs:
        begun = [
            event.version for event in deployment.events(job_id) if event.trigger == "activate"
        ]
        for version in begun:
            yield from dispatch.views.counted(job_id, f"{DEPENDENCIES}:{version}")


def succeeded(deployment: Deployment) -> int:
    """Return how many jobs have succeeded."""
    machine = deployment.client.dispatch.lifecycle.machine("job")
    return deployment.client.dispatch.views.counts([machine])[machine.name]["success"]


def has_succeeded(deployment: Deployment, jobs: int) -> bool:
    """Whether at least so many jobs have succeeded."""
    return succeeded(deployment) >= jobs


def succeed(deployment: Deployment, plan: Plan, *, within_s: float) -> None:
    """Wait until every job has succeeded; show the events of a job that has not."""
    try:
        deployment.sees(
            partial(has_succeeded, deployment, len(plan.jobs)),
            what="every job has succeeded",
            within_s=within_s,
        )
    except AssertionError as late:
        stuck = [
            job_id for job_id in plan.jobs if deployment.client.show(job_id).state != "success"
        ]
        first = next(
            job_id for job_id in stuck if not set(plan.jobs[job_id]["depends_on"]) & set(stuck)
        )
        report = f"{len(stuck)} have not: {stuck[:20]}\n{deployment.story(first)}"
        raise AssertionError(f"{late}\n{report}") from None


@pytest.mark.fuzz
def test_graphs_at_random_run_in_order_within_their_slots_each_job_once(
    new_deployment: NewDeployment, tmp_path: Path, *, is_proof: bool
) -> None:
    deployment = new_deployment(**SETTINGS).full(workers=2)
    jobs, within_s = (120, 360) if is_proof else (30, 90)
    graphs, plan = Graphs(deployment.client), Plan.drawn(jobs, tmp_path, commands=0.2)
    plan.hand_in(graphs)

    succeed(deployment, plan, within_s=within_s)
    all_went_well(deployment, plan)


def under_fire(deployment: Deployment, plan: Plan, *, kills_max: int, within_s: float) -> int:
    """Kill one worker after another while there is work; return how many were killed.

    The next one is killed after a few more jobs have succeeded, so that a fast computer has as many
    kills as a slow one.
    """
    graphs, draw = Graphs(deployment.client), random.Random(f"{plan.seed} kills")
    for _ in range(WORKERS):
        deployment.worker(concurrency=2, ready=False)
    deployment.beat()
    plan.hand_in(graphs)
    kills, until, due_at = 0, time.monotonic() + within_s, 0
    while (
        kills < kills_max
        and time.monotonic() < until
        and not has_succeeded(deployment, len(plan.jobs))
    ):
        # This also ends the leases of the workers that were killed.
        due = partial(has_succeeded, deployment, due_at)
        deployment.sees(due, what="some more jobs have succeeded", within_s=within_s)
        # The workload, not a wait: each worker is killed in the middle of something.
        time.sleep(draw.uniform(0, 0.2))
        ready = [
            w for w in deployment.processes if w.name.startswith("w") and w.alive and w.is_ready()
        ]
        if ready:
            due_at = min(succeeded(deployment) + draw.randint(1, 5), len(plan.jobs))
            draw.choice(ready).kill()
            deployment.worker(concurrency=2, ready=False)
            kills += 1
    sys.stdout.write(f"{kills} workers were killed\n")
    succeed(deployment, plan, within_s=max(120, until - time.monotonic()))
    all_went_well(deployment, plan, killed=True)
    return kills


@pytest.mark.proof
def test_a_small_graph_ends_in_order_each_job_once_while_workers_are_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    plan = Plan.drawn(30, tmp_path, commands=0.1, work_s=0.05)

    assert under_fire(new_deployment(**SETTINGS), plan, kills_max=4, within_s=150) >= 1


@pytest.mark.proof
@pytest.mark.timeout(1_200)
def test_three_hundred_jobs_end_in_order_each_once_while_workers_are_killed(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    plan = Plan.drawn(300, tmp_path, commands=0.15, work_s=0.05)

    assert under_fire(new_deployment(**SETTINGS), plan, kills_max=1_000, within_s=900) > 20


def test_a_job_that_waits_for_a_full_queue_does_not_block_the_jobs_behind_it(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment(**SETTINGS).full()
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
    for job_id in behind:
        graphs.create(job_id, {**common, **quick}, priority=9, held=False)

    deployment.ends(*behind)
    assert deployment.client.show("g/head").state == "pending"
    assert deployment.client.show("g/head").data["slots"] == ["queue:narrow"]
    (tmp_path / "go").touch()
    deployment.ends("h/full", "g/head")
