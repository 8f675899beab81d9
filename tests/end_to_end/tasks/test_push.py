"""Merged work that is pushed: to a real bare repository, on real workers, with real agents."""

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

AGENTS = {"INTERLOCK_AGENTS_MAX": "2", "INTERLOCK_LEASE_S": "3"}
AUTHOR = ("-c", "user.name=u", "-c", "user.email=u@x")


def git(folder: Path, *words: str) -> str:
    command = ["/usr/bin/env", "git", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
    return str(deployment.client.submit(payload, id=f"b/{name}", machine="task").id)


def ends(deployment: Deployment, of: str) -> Record:
    return deployment.reaches(of, "closed", "failed", within_s=60)


def activities(deployment: Deployment, of: str) -> list[str]:
    told = [note.detail["word"] for note in deployment.notes(of, "activity")]
    return [word for word in told if word != "committing"]


def test_merged_work_is_pushed_and_both_are_shown(
    new_deployment: NewDeployment, repo: Path, remote: Path
) -> None:
    deployment = new_deployment(**AGENTS).full()
    of = submit(deployment, "mend", repo, "echo 42 > answer.txt")

    record = ends(deployment, of)

    assert record.state == "closed", deployment.story(of)
    assert git(remote, "rev-parse", "main") == record.data["merged"]
    assert activities(deployment, of) == ["merging", "pushing"]
    pushed = deployment.notes(of, "pushed")[0].detail
    assert (pushed["remote"], pushed["commit"]) == ("origin", record.data["merged"])


def test_a_task_that_names_no_remote_pushes_nothing(
    new_deployment: NewDeployment, repo: Path, remote: Path
) -> None:
    deployment = new_deployment(**AGENTS).full()
    before = git(remote, "rev-parse", "main")
    of = submit(deployment, "local", repo, "echo 42 > answer.txt", push=None)

    assert ends(deployment, of).state == "closed"
    assert git(remote, "rev-parse", "main") == before
    assert activities(deployment, of) == ["merging"]


def test_a_remote_that_is_away_is_tried_again_until_it_is_back(
    new_deployment: NewDeployment, repo: Path, remote: Path
) -> None:
    deployment = new_deployment(**AGENTS).full()
    gone = remote.rename(remote.with_name("gone"))
    of = submit(deployment, "away", repo, "echo 42 > answer.txt")
    deployment.sees(
        lambda: deployment.notes(of, "effect_failed"), what="a push failed", within_s=60
    )
    assert deployment.client.show(of).state == "done"
    merged = git(repo, "rev-parse", "main")

    gone.rename(remote)

    record = ends(deployment, of)
    assert (record.state, record.data["merged"]) == ("closed", merged), deployment.story(of)
    assert git(remote, "rev-parse", "main") == merged
    assert record.data["claimed"] == 1


def test_a_remote_that_has_more_refuses_and_a_person_is_told_that_it_is_merged_here(
    new_deployment: NewDeployment, repo: Path, remote: Path
) -> None:
    deployment = new_deployment(**AGENTS).full()
    theirs = git(remote, *AUTHOR, "commit-tree", "-p", "main", "-m", "theirs", "main^{tree}")
    git(remote, "update-ref", "refs/heads/main", theirs)
    of = submit(deployment, "late", repo, "echo 42 > answer.txt")

    record = ends(deployment, of)

    reason = record.data["failure"]["reason"]
    assert reason.startswith("it is merged into main here, but origin does not have it: ")
    assert "'origin' rejects 'main'" in reason
    assert record.data["given_up"], "another agent could not help"
    assert (repo / "answer.txt").read_text() == "42\n"
    assert git(remote, "rev-parse", "main") == theirs, "nothing is forced"
    assert deployment.client.cards()[0].record_id == of


def test_the_command_line_names_the_remote(
    new_deployment: NewDeployment, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = new_deployment()
    for name, value in deployment.environment.items():
        if name.startswith("INTERLOCK_"):
            monkeypatch.setenv(name, value)
    words = ["--title", "x", "--repo", str(repo), "--agent", "true", "--push", "origin"]

    done = CliRunner().invoke(app, ["task", "submit", *words, "--name", "x", "--json"])

    assert done.exit_code == 0, done.output
    assert deployment.client.show("repo/x").data["push"] == "origin"


def test_tasks_that_end_at_once_are_all_pushed(
    new_deployment: NewDeployment, repo: Path, remote: Path, tmp_path: Path
) -> None:
    deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "4"}).full()
    gate = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    names = [f"n{number}" for number in range(4)]
    for name in names:
        submit(deployment, name, repo, f"{gate}; echo {name} > {name}.txt")
    for name in names:
        deployment.reaches(f"b/{name}", "in_progress", within_s=60)

    (tmp_path / "go").touch()

    assert {ends(deployment, f"b/{name}").state for name in names} == {"closed"}
    assert git(remote, "rev-parse", "main") == git(repo, "rev-parse", "main")
