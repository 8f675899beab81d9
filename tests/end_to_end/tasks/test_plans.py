"""Plans with real workers, agents' processes and git."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from interlock.kernel.record import Record
from interlock.systems.tasks.plans.client import Plans
from interlock.systems.tasks.plans.file import PlanFile, read_plan
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment

AGENTS = {"INTERLOCK_AGENTS_MAX": "2"}
PLAN = """
plan: {plan}
backlog: b
defaults: {{repo: repo, verify: ["true"], retry_delay_s: 1}}
tasks:
  - name: {plan}-last
    title: The last
    after: [{plan}-middle, {plan}-first]
    agent: test -e {plan}-middle.txt && echo last > {plan}-last.txt
  - name: {plan}-first
    title: The first
    agent: echo first > {plan}-first.txt
    owns: [{plan}-first.txt]
  - name: {plan}-middle
    title: The middle
    after: [{plan}-first]
    agent: test -e {plan}-first.txt && echo middle > {plan}-middle.txt
"""


def git(folder: Path, *arguments: str) -> str:
    command = ["/usr/bin/env", "git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    author = ("-c", "user.name=u", "-c", "user.email=u@x")
    git(folder, *author, "commit", "-q", "--allow-empty", "-m", "begin")
    return folder


def plan(folder: Path, name: str) -> PlanFile:
    file = folder / f"{name}.yaml"
    file.write_text(PLAN.format(plan=name))
    return read_plan(file)


def closed(deployment: Deployment, task_id: str) -> Record:
    return deployment.reaches(task_id, "closed", within_s=90)


def wait_for_sweeps(deployment: Deployment) -> None:
    """Wait until each sweep that acts on the records of a plan has begun twice more."""
    begun: dict[str, set[int]] = {name: set() for name in ("orphans", "stalls", "assignments")}

    def often() -> bool:
        last = deployment.client.dispatch.indexes.last_sweeps()
        for name, seen in begun.items():
            seen.add(last.get(name, 0))
        return all(len(seen) > 2 for seen in begun.values())

    deployment.sees(often, what="a few sweeps have run")


def test_nothing_runs_before_approval_and_a_whole_plan_is_merged_in_order(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    deployment = new_deployment(**AGENTS).full()
    plans = Plans(deployment.client)
    before = git(repo, "rev-parse", "main")
    for name in ("good", "bad", "part"):
        plans.submit(plan(tmp_path, name))

    wait_for_sweeps(deployment)
    for name in ("good", "bad", "part"):
        assert {task.state for task in plans.show("b", name).tasks} == {"planned"}
    assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert git(repo, "rev-parse", "main") == before

    bad = plans.reject("b", "bad", seen=plans.show("b", "bad").proposals, reason="too expensive")
    part = plans.approve("b", "part", ["part-first"], seen=plans.show("b", "part").proposals)
    good = plans.approve("b", "good", seen=plans.show("b", "good").proposals)

    assert [one.answer for one in bad.tasks] == ["rejected"] * 3
    assert [one.answer for one in good.tasks] == ["approved"] * 3
    assert [one.id for one in part.tasks] == ["b/part-first"]
    merged = [
        closed(deployment, f"b/good-{name}").data["merged"] for name in ("first", "middle", "last")
    ]
    closed(deployment, "b/part-first")
    for earlier, later in pairwise(merged):
        git(repo, "merge-base", "--is-ancestor", earlier, later)
    for name in ("first", "middle", "last"):
        deployment.checked(f"b/good-{name}")
    files = git(repo, "ls-tree", "--name-only", "main").split()
    assert sorted(files) == [
        "good-first.txt",
        "good-last.txt",
        "good-middle.txt",
        "part-first.txt",
    ]
    left = {task.name: task.state for task in plans.show("b", "part").tasks}
    assert left == {"part-first": "closed", "part-middle": "planned", "part-last": "planned"}
    assert {task.state for task in plans.show("b", "bad").tasks} == {"cancelled"}
    everything = Plans(deployment.client).submit(plan(tmp_path, "good"))
    assert all(one.replayed for one in everything.tasks)


def test_a_planned_task_is_a_card_until_it_is_decided(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    del repo
    deployment = new_deployment(**AGENTS | {"INTERLOCK_CARDS": str(tmp_path / "cards")}).full()
    Plans(deployment.client).submit(plan(tmp_path, "good"))

    cards = tmp_path / "cards"
    deployment.sees(
        lambda: any("good-first" in path.name for path in cards.glob("*")), what="there is a card"
    )
    assert len(deployment.client.cards()) == len(plan(tmp_path, "good").tasks)
    deployment.client.decide("b/good-first", "approve", proposal="b/good-first:1")

    closed(deployment, "b/good-first")
    deployment.sees(
        lambda: not any("good-first" in path.name for path in cards.glob("*")),
        what="the card is gone",
    )
    assert deployment.client.show("b/good-middle").state == "planned"
