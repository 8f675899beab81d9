"""Each name has one branch and one worktree, which are found again on every computer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.git.branch import marks
from interlock.git.errors import RefusedError
from interlock.git.private_copy import git_in
from interlock.git.repository import Identity, Repository
from interlock.git.worktree import Worktree
from interlock.systems.loops.paths import AgentPaths, is_name, name_of, prepare_worktree
from interlock.workers.config import Settings
from tests.git.scene import (
    commit,
    git,
    make_repository,
    open_copy,
    tip_of,
    write,
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return open_copy(make_repository(tmp_path / "repository"))


@pytest.fixture
def paths(tmp_path: Path) -> AgentPaths:
    return AgentPaths("owl/1", Settings(home=tmp_path / "here"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> AgentPaths:
    """Return the same life as another computer sees it."""
    return AgentPaths("owl/1", Settings(home=tmp_path / "there"))


def registered(repository: Repository) -> int:
    return git(repository.root, "worktree", "list", "--porcelain").count("worktree ") - 1


def test_the_lives_of_a_name_share_branch_and_worktree_but_no_work_folder(
    paths: AgentPaths, tmp_path: Path
) -> None:
    assert (paths.name, paths.branch) == ("owl", "interlock/agents/owl")
    assert paths.folder == paths.settings.worktree_folder / "agents" / "owl"
    assert paths.work_folder == tmp_path / "here" / "agents" / "owl" / "1"
    assert paths.session(7) == paths.work_folder / "000007"
    assert paths.identity == Identity("owl", "owl@interlock.invalid")
    next_life = AgentPaths("owl/2", paths.settings)
    assert (next_life.branch, next_life.folder) == (paths.branch, paths.folder)
    assert next_life.work_folder != paths.work_folder


def test_a_relative_home_gives_absolute_paths(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = AgentPaths("owl/1", Settings(home=Path("here")))

    assert paths.folder.is_absolute()
    assert paths.work_folder == tmp_path / "here" / "agents" / "owl" / "1"


@pytest.mark.parametrize(
    ("name", "valid"),
    [("owl", True), ("o", True), ("owl-2", True), ("o" * 63, True), ("o" * 64, False)]
    + [(name, False) for name in ("", "Owl", "2", "-", "a_b", "a/b", "a b", "owl\n", "é", "a.b")],
)
def test_a_name_is_a_letter_then_letters_digits_and_dashes(name: str, *, valid: bool) -> None:
    assert is_name(name) is valid


def test_an_invalid_record_id_has_no_name() -> None:
    assert name_of("owl/3") == "owl"
    with pytest.raises(AssertionError):
        name_of("../owl")


def test_a_worktree_is_created_at_the_base_and_found_again_with_all_changes(
    repository: Repository, paths: AgentPaths
) -> None:
    base = tip_of(repository)
    commit(repository.root, "main goes on", a__txt="later\n")

    created = prepare_worktree(paths, repository, base=base)
    write(created.folder, b__txt="not committed\n")
    again = prepare_worktree(paths, repository, base=tip_of(repository))

    assert created == again == Worktree(paths.branch, paths.folder, base, present=True)
    assert (created.folder / "a.txt").read_text() == "a\n"
    assert (created.folder / "b.txt").read_text() == "not committed\n"
    assert registered(repository) == 1


def test_the_next_life_continues_on_the_branch_of_the_last(
    repository: Repository, paths: AgentPaths
) -> None:
    created = prepare_worktree(paths, repository, base="main")
    tip = commit(created.folder, "work", a__txt="work\n")
    git(repository.root, "worktree", "remove", "--force", str(created.folder))
    commit(repository.root, "main goes on", b__txt="later\n")

    again = prepare_worktree(AgentPaths("owl/2", paths.settings), repository, base="main")

    assert again == created
    assert git(again.folder, "rev-parse", "HEAD") == tip


@pytest.mark.parametrize("cut_off", ["its folder is gone", "its files were never checked out"])
def test_a_worktree_that_is_partly_missing_is_completed(
    repository: Repository, paths: AgentPaths, cut_off: str
) -> None:
    created = prepare_worktree(paths, repository, base="main")
    commit(created.folder, "work", a__txt="work\n")
    if cut_off == "its folder is gone":
        shutil.rmtree(created.folder)
    else:
        git(repository.root, "worktree", "lock", "--reason", "initializing", str(created.folder))
        (created.folder / "a.txt").unlink()

    assert prepare_worktree(paths, repository, base="main") == created

    assert (created.folder / "a.txt").read_text() == "work\n"
    assert registered(repository) == 1


def test_a_worktree_that_is_gone_with_its_computer_is_created_here_on_the_same_branch(
    repository: Repository, paths: AgentPaths, elsewhere: AgentPaths
) -> None:
    remote = prepare_worktree(elsewhere, repository, base="main")
    tip = commit(remote.folder, "work", a__txt="work\n")
    shutil.rmtree(remote.folder)

    local = prepare_worktree(paths, repository, base="main")

    assert local == Worktree(paths.branch, paths.folder, remote.base, present=True)
    assert git(local.folder, "rev-parse", "HEAD") == tip
    assert (local.folder / "a.txt").read_text() == "work\n"
    assert registered(repository) == 1
    assert [mark.folder for mark in marks(repository)] == [paths.folder]


def test_computers_that_share_their_files_use_the_worktree_where_it_was_created(
    repository: Repository, paths: AgentPaths, elsewhere: AgentPaths
) -> None:
    remote = prepare_worktree(elsewhere, repository, base="main")
    write(remote.folder, a__txt="not committed\n")

    assert prepare_worktree(paths, repository, base="main") == remote

    assert (remote.folder / "a.txt").read_text() == "not committed\n"
    assert not paths.folder.exists()
    assert registered(repository) == 1


@pytest.mark.parametrize("how", [("checkout", "-q", "-b", "own"), ("checkout", "-q", "--detach")])
def test_a_worktree_in_which_the_agent_checked_out_another_branch_stays_as_it_is(
    repository: Repository, paths: AgentPaths, elsewhere: AgentPaths, how: tuple[str, ...]
) -> None:
    created = prepare_worktree(paths, repository, base="main")
    git(created.folder, *how)
    write(created.folder, a__txt="not committed\n")
    head = git(created.folder, "rev-parse", "--symbolic-full-name", "HEAD")

    for seen_from in (paths, elsewhere):
        kept = prepare_worktree(seen_from, repository, base="main")

        assert kept == created
        status = git_in(repository, kept).run("status", "--short").output
        assert status == b" M a.txt\n"
        assert git(kept.folder, "rev-parse", "--symbolic-full-name", "HEAD") == head
    assert registered(repository) == 1


def test_a_folder_that_the_user_filled_is_refused_and_stays(
    repository: Repository, paths: AgentPaths
) -> None:
    paths.folder.mkdir(parents=True)
    write(paths.folder, mine__txt="mine\n")

    with pytest.raises(RefusedError, match="is not an empty folder; choose another folder"):
        prepare_worktree(paths, repository, base="main")

    assert (paths.folder / "mine.txt").read_text() == "mine\n"
    assert registered(repository) == 0


def test_a_folder_that_the_user_filled_after_its_worktree_was_removed_is_refused_and_stays(
    repository: Repository, paths: AgentPaths
) -> None:
    prepare_worktree(paths, repository, base="main")
    git(repository.root, "worktree", "remove", "--force", str(paths.folder))
    paths.folder.mkdir()
    write(paths.folder, mine__txt="mine\n")

    with pytest.raises(RefusedError, match="is not an empty folder; choose another folder"):
        prepare_worktree(paths, repository, base="main")

    assert (paths.folder / "mine.txt").read_text() == "mine\n"


def test_a_branch_of_the_user_with_that_name_is_refused_and_stays(
    repository: Repository, paths: AgentPaths
) -> None:
    git(repository.root, "branch", paths.branch)
    tip = tip_of(repository, paths.branch)

    with pytest.raises(RefusedError, match="has a branch 'interlock/agents/owl' already"):
        prepare_worktree(paths, repository, base="main")

    assert tip_of(repository, paths.branch) == tip
    assert marks(repository) == ()
    assert not paths.folder.exists()
