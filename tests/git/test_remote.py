"""Pushing to a remote that is a folder: done, done before, or refused with the remote's words."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from interlock.git import remote as module
from interlock.git.errors import BusyError, FailedError, Refusal, RefusedError
from interlock.git.program import COMMAND_S
from interlock.git.remote import Pushed, push
from interlock.git.repository import Repository
from tests.git.scene import assert_refused, commit, git, tip_of
from tests.waiting import until


@pytest.fixture
def remote(repository: Repository) -> Path:
    folder = repository.root.parent / "remote.git"
    git(repository.root, "init", "-q", "--bare", str(folder))
    git(repository.root, "remote", "add", "origin", str(folder))
    return folder


def refused(repository: Repository, *, branch: str = "main", remote: str) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        push(repository, branch=branch, remote=remote)
    return caught.value


def test_a_branch_is_pushed_under_its_own_name_and_nothing_else(
    repository: Repository, remote: Path
) -> None:
    git(repository.root, "branch", "other")
    git(repository.root, "tag", "-a", "-m", "v1", "v1")
    git(repository.root, "config", "push.followTags", "true")

    assert push(repository, branch="main", remote="origin") == Pushed(
        "origin", "main", tip_of(repository)
    )

    assert git(remote, "for-each-ref", "--format=%(refname) %(objectname)") == (
        f"refs/heads/main {tip_of(repository)}"
    )


def test_a_second_push_finds_it_there(repository: Repository, remote: Path) -> None:
    first = push(repository, branch="main", remote="origin")

    assert push(repository, branch="main", remote="origin") == first
    assert remote.exists()


@pytest.mark.parametrize("name", ["upstream", "", "--all", "origin\nx"])
def test_a_remote_that_is_not_set_up_is_refused(
    repository: Repository, remote: Path, name: str
) -> None:
    error = refused(repository, remote=name)

    assert_refused(Refusal.REMOTE_MISSING, error, repr(name), "name one of these: origin")
    assert git(remote, "for-each-ref") == ""


def test_a_repository_without_remotes_says_so(repository: Repository) -> None:
    assert_refused(Refusal.REMOTE_MISSING, refused(repository, remote="origin"), "git remote add")


@pytest.mark.usefixtures("remote")
def test_a_branch_that_is_not_there_is_refused(repository: Repository) -> None:
    error = refused(repository, branch="nowhere", remote="origin")

    assert_refused(Refusal.BRANCH_MISSING, error, "'nowhere'")


def test_a_remote_that_has_more_is_not_forced(repository: Repository, remote: Path) -> None:
    first = tip_of(repository)
    commit(repository.root, "second", a__txt="2\n")
    push(repository, branch="main", remote="origin")
    theirs = tip_of(repository)
    git(repository.root, "reset", "-q", "--hard", first)
    commit(repository.root, "other", a__txt="3\n")

    error = refused(repository, remote="origin")

    assert_refused(Refusal.PUSH_REJECTED, error, "'origin'", "'main'", "rejected")
    assert git(remote, "rev-parse", "main") == theirs


def test_two_that_push_at_once_come_after_each_other(
    repository: Repository, remote: Path, tmp_path: Path
) -> None:
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    go = tmp_path / "go"
    os.mkfifo(go)
    hook.write_text(f"#!/bin/sh\nif mkdir {tmp_path}/in; then read -r _ <{go}; fi 2>/dev/null\n")
    hook.chmod(0o755)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(push, repository, branch="main", remote="origin")
        until((tmp_path / "in").exists, what="the first is on its way")
        commit(repository.root, "second", a__txt="2\n")
        second = threads.submit(push, repository, branch="main", remote="origin")
        # Alone, the second would have to wait for nobody but the hook; it must not get so far.
        wait([second], 0.5)
        go.write_text("go\n")

    assert first.result().commit != second.result().commit
    assert git(remote, "rev-parse", "main") == second.result().commit == tip_of(repository)


def test_a_hook_of_the_remote_runs_and_its_words_are_told(
    repository: Repository, remote: Path
) -> None:
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho the gate is closed >&2\nexit 1\n")
    hook.chmod(0o755)

    error = refused(repository, remote="origin")

    assert_refused(Refusal.PUSH_REJECTED, error, "the gate is closed")


def test_a_remote_that_cannot_be_reached_is_a_failure(repository: Repository, remote: Path) -> None:
    remote.rename(remote.with_name("gone"))

    with pytest.raises(FailedError, match=r"git push failed with exit code 128: .*remote\.git"):
        push(repository, branch="main", remote="origin")


@pytest.mark.usefixtures("remote")
def test_nobody_waits_long_for_another_push(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    began = time.monotonic()

    with (
        repository.git.locked(repository.common / "interlock-push"),
        pytest.raises(BusyError, match="try again"),
    ):
        push(repository, branch="main", remote="origin")

    assert time.monotonic() - began < COMMAND_S / 2, "as long as a command may last"
