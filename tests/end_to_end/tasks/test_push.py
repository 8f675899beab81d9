"""Merged work is pushed to a bare repository by real workers, with real agents."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.record import Record
from interlock.workers.cli import app
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.tasks.coding import SHARED_AGENTS, gate_of

AUTHOR = ("-c", "user.name=u", "-c", "user.email=u@x")


def git(folder: Path, *arguments: str) -> str:
    command = ["/usr/bin/env", "git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def shared_variables() -> dict[str, str]:
    return SHARED_AGENTS


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own backlog."""
    return joint_deployment


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a repository whose remote `origin` is a bare one beside it."""
    folder = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    (folder / "answer.txt").write_text("41\n")
    git(folder, "add", "--all")
    git(folder, *AUTHOR, "commit", "-qm", "begin")
    git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(folder, "push", "-q", "origin", "main")
    return folder


@pytest.fixture
def remote(repo: Path) -> Path:
    return repo.with_name("remote.git")


def submit(deployment: Deployment, name: str, repo: Path, agent: str, **more: Any) -> str:
    payload = {"title": name, "repo": str(repo), "agent": agent, "push": "origin", **more}
    return str(
        deployment.client.submit(payload, id=f"{deployment.scope}/{name}", machine="task").id
    )


def ends(deployment: Deployment, task_id: str) -> Record:
    return deployment.reaches(task_id, "closed", "failed")


def activities(deployment: Deployment, task_id: str) -> list[str]:
    noted = [note.detail["doing"] for note in deployment.notes(task_id, "activity")]
    return [name for name in noted if name != "committing"]


def test_merged_work_is_pushed_and_both_are_shown(
    deployment: Deployment, repo: Path, remote: Path
) -> None:
    task_id = submit(deployment, "fix", repo, "echo 42 > answer.txt")

    record = ends(deployment, task_id)

    assert record.state == "closed", deployment.story(task_id)
    assert git(remote, "rev-parse", "main") == record.data["merged"]
    assert activities(deployment, task_id) == ["merging", "pushing"]
    pushed = deployment.notes(task_id, "pushed")[0].detail
    assert (pushed["remote"], pushed["commit"]) == ("origin", record.data["merged"])


def test_a_task_that_names_no_remote_pushes_nothing(
    deployment: Deployment, repo: Path, remote: Path
) -> None:
    before = git(remote, "rev-parse", "main")
    task_id = submit(deployment, "local", repo, "echo 42 > answer.txt", push=None)

    assert ends(deployment, task_id).state == "closed"
    assert git(remote, "rev-parse", "main") == before
    assert activities(deployment, task_id) == ["merging"]


def test_a_push_is_tried_again_until_the_remote_is_back(
    deployment: Deployment, repo: Path, remote: Path
) -> None:
    moved = remote.rename(remote.with_name("gone"))
    task_id = submit(deployment, "away", repo, "echo 42 > answer.txt")
    deployment.sees(
        lambda: deployment.notes(task_id, "effect_failed"), what="a push failed", within_s=180
    )
    assert deployment.client.show(task_id).state == "done"
    merged = git(repo, "rev-parse", "main")

    moved.rename(remote)

    record = ends(deployment, task_id)
    assert (record.state, record.data["merged"]) == ("closed", merged), deployment.story(task_id)
    assert git(remote, "rev-parse", "main") == merged
    assert record.data["claimed"] == 1


def test_a_refused_push_is_shown_to_a_person_and_the_merge_remains(
    deployment: Deployment, repo: Path, remote: Path
) -> None:
    theirs = git(remote, *AUTHOR, "commit-tree", "-p", "main", "-m", "theirs", "main^{tree}")
    git(remote, "update-ref", "refs/heads/main", theirs)
    task_id = submit(deployment, "late", repo, "echo 42 > answer.txt")

    record = ends(deployment, task_id)

    reason = record.data["failure"]["reason"]
    assert reason.startswith("it is merged into main here, but origin does not have it: ")
    assert "'origin' rejects 'main'" in reason
    assert record.data["given_up"], "another agent could not help"
    assert (repo / "answer.txt").read_text() == "42\n"
    assert git(remote, "rev-parse", "main") == theirs, "nothing is forced"
    assert task_id in {card.record_id for card in deployment.client.cards()}


def test_the_command_line_names_the_remote(
    new_deployment: NewDeployment, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = new_deployment()
    for name, value in deployment.environment.items():
        if name.startswith("INTERLOCK_"):
            monkeypatch.setenv(name, value)
    arguments = ["--title", "x", "--repo", str(repo), "--agent", "true", "--push", "origin"]

    done = CliRunner().invoke(app, ["task", "submit", *arguments, "--name", "x", "--json"])

    assert done.exit_code == 0, done.output
    assert deployment.client.show("repo/x").data["push"] == "origin"


def test_tasks_that_end_at_the_same_time_are_all_pushed(
    deployment: Deployment, repo: Path, remote: Path, tmp_path: Path
) -> None:
    gate = gate_of(tmp_path / "go")
    names = [f"n{number}" for number in range(4)]
    for name in names:
        submit(deployment, name, repo, f"{gate}; echo {name} > {name}.txt")
    for name in names:
        deployment.reaches(f"{deployment.scope}/{name}", "in_progress")

    (tmp_path / "go").touch()

    assert {ends(deployment, f"{deployment.scope}/{name}").state for name in names} == {"closed"}
    assert git(remote, "rev-parse", "main") == git(repo, "rev-parse", "main")
