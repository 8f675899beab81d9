"""`interlock remove`: all of a deployment goes, and no work of an agent without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock.git.removable import repositories_of
from interlock.git.repository import Repository
from interlock.git.worktree import add_worktree
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.client import Tasks
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.home import lock_home, own_folder
from tests.servers import STORE_START_S

AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")


def run(*words: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ("remove", *words))
    return ended.exit_code, " ".join(ended.output.split())


def git(folder: Path, *words: str) -> str:
    command = ["/usr/bin/env", "git", *AUTHOR, *words]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home in a repository, with two tasks of it: one agent changed something."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    git(project, "init", "--quiet", "--initial-branch", "main")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "begin")
    settings = read_settings({})
    own_folder(settings.home.absolute())
    with EmbeddedServer(settings.home / "store", start_s=STORE_START_S) as server:
        tasks = Tasks(Client(settings.model_copy(update={"store_url": server.url})))
        for name in ("idle", "busy"):
            task = {"title": name, "repo": str(project), "agent": "true"}
            tasks.submit(task, backlog="p", name=name)
    for name in ("idle", "busy"):
        names = ClaimNames(f"p/{name}", 1)
        folder = names.worktree(settings)
        add_worktree(Repository.open(project), branch=names.branch, folder=folder, base=None)
    (folder / "made.txt").write_text("by the agent")
    return settings.home.absolute()


def test_all_goes_but_work_that_is_nowhere_else(home: Path, tmp_path: Path) -> None:
    project = home.parent
    assert git(project, "status", "--porcelain") == "", "the home is no part of the repository"

    shown = run()
    removed = run("--yes")

    assert shown[0] == 1
    assert "2 worktrees" in shown[1]
    assert "nothing was removed" in shown[1]
    assert removed[0] == 0, removed[1]
    assert f"kept: {project}: interlock/p/busy@1" in removed[1]
    assert not home.exists()
    assert [*(tmp_path / "state").iterdir()] == []
    assert git(project, "worktree", "list").count("\n") == 0
    assert git(project, "for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/interlock/p/busy@1",
        "refs/heads/main",
    ]
    assert git(project, "show", "interlock/p/busy@1:made.txt") == "by the agent"
    assert run() == (1, f"error there is nothing of Interlock in {home}")


def test_unmerged_work_goes_where_that_is_said(home: Path) -> None:
    assert run("--yes", "--unmerged")[0] == 0

    assert git(home.parent, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_worktrees_go_whose_records_are_gone(home: Path, tmp_path: Path) -> None:
    shutil.rmtree(home / "store")

    assert run("--yes")[0] == 0

    assert [*(tmp_path / "state").iterdir()] == []
    assert git(home.parent, "worktree", "list").count("\n") == 0
    assert git(home.parent, "branch", "--format=%(refname:short)").split() == [
        "interlock/p/busy@1",
        "main",
    ], "the other branch had nothing"


def test_a_worktree_leads_to_no_repository_that_does_not_have_it(
    home: Path, tmp_path: Path
) -> None:
    folder = read_settings({}).worktree_folder
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    assert {*repositories_of(folder)} == {home.parent}

    first, second = sorted(folder.glob("**/.git"))
    made = second.parent / "made"  # a repository that says what its agent wants
    for link, repository, said in ((first, other, ""), (second, made, str(second))):
        files = repository / ".git" / "worktrees" / "one"
        files.mkdir(parents=True)
        (files / "gitdir").write_text(said)
        link.write_text(f"gitdir: {files}")

    assert [*repositories_of(folder)] == []


def test_nothing_goes_while_something_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lock_home(home)
    running = run("--yes")
    os.close(lock)
    with subprocess.Popen(["/usr/bin/env", "sleep", "60"], cwd=home) as agent:
        working = run("--yes")
        agent.kill()
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://127.0.0.1:1/0")
    elsewhere = run("--yes")

    assert "runs Interlock in" in running[1]
    assert f"process {agent.pid} works in {home}" in working[1]
    assert "INTERLOCK_STORE_URL names a store that stays" in elsewhere[1]
    assert [code for code, _ in (running, working, elsewhere)] == [1, 1, 1]
    assert (home / "store").exists()


def test_files_of_others_in_a_chosen_folder_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    (tmp_path / "mine").touch()
    (tmp_path / "log").mkdir()

    code, said = run("--yes")

    assert (code, [*tmp_path.iterdir()]) == (0, [tmp_path / "mine"])
    assert said.endswith(f"removed kept: {tmp_path}/mine")
