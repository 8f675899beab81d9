"""Where an agent lives: one worktree and one branch a name, found again wherever it was made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.kernel.errors import InvalidIdError
from interlock.workers.config import Settings
from interlock.workers.gateways.git.branch import marks
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.gateways.git.repository import Identity, Repository
from interlock.workers.gateways.git.worktree import Worktree, git_in
from interlock.workers.loops.home import Home, is_name, name_of, ready
from tests.workers.gateways.git.scene import commit, git, make_repository, tip_of, write


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.open(make_repository(tmp_path / "repository"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home("owl/1", Settings(home=tmp_path / "here"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Home:
    """Return the same life as another machine sees it."""
    return Home("owl/1", Settings(home=tmp_path / "there"))


def registered(repository: Repository) -> int:
    return git(repository.root, "worktree", "list", "--porcelain").count("worktree ") - 1


def test_a_life_has_its_names_and_folders(home: Home, tmp_path: Path) -> None:
    assert (home.name, home.branch) == ("owl", "interlock/agents/owl")
    assert home.folder == tmp_path / "here" / "worktrees" / "agents" / "owl"
    assert home.work_folder == tmp_path / "here" / "agents" / "owl" / "1"
    assert home.session(7) == home.work_folder / "000007"
    assert home.identity == Identity("owl", "owl@interlock.invalid")
    next_life = Home("owl/2", home.settings)
    assert (next_life.branch, next_life.folder) == (home.branch, home.folder)
    assert next_life.work_folder != home.work_folder


def test_a_relative_home_is_a_whole_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    home = Home("owl/1", Settings(home=Path("here")))

    assert home.folder.is_absolute()
    assert home.work_folder == tmp_path / "here" / "agents" / "owl" / "1"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("owl", True), ("o", True), ("owl-2", True), ("o" * 63, True), ("o" * 64, False)]
    + [(name, False) for name in ("", "Owl", "2", "-", "a_b", "a/b", "a b", "owl\n", "é", "a.b")],
)
def test_a_name_is_a_letter_then_letters_digits_and_dashes(name: str, *, is_one: bool) -> None:
    assert is_name(name) is is_one


def test_a_record_that_can_be_none_has_no_name() -> None:
    assert name_of("owl/3") == "owl"
    with pytest.raises(InvalidIdError):
        name_of("../owl")


def test_a_worktree_is_made_at_the_base_and_found_again_with_all_work(
    repository: Repository, home: Home
) -> None:
    base = tip_of(repository)
    commit(repository.root, "main goes on", a__txt="later\n")

    made = ready(home, repository, base=base)
    write(made.folder, b__txt="not committed\n")
    again = ready(home, repository, base=tip_of(repository))

    assert made == again == Worktree(home.branch, home.folder, base, present=True)
    assert (made.folder / "a.txt").read_text() == "a\n"
    assert (made.folder / "b.txt").read_text() == "not committed\n"
    assert registered(repository) == 1


def test_the_next_life_goes_on_where_the_last_left_off(repository: Repository, home: Home) -> None:
    made = ready(home, repository, base="main")
    tip = commit(made.folder, "work", a__txt="work\n")
    git(repository.root, "worktree", "remove", "--force", str(made.folder))
    commit(repository.root, "main goes on", b__txt="later\n")

    again = ready(Home("owl/2", home.settings), repository, base="main")

    assert again == made
    assert git(again.folder, "rev-parse", "HEAD") == tip


@pytest.mark.parametrize("cut_off", ["its folder is gone", "its files were never checked out"])
def test_a_worktree_of_which_a_part_is_missing_is_completed_here(
    repository: Repository, home: Home, cut_off: str
) -> None:
    made = ready(home, repository, base="main")
    commit(made.folder, "work", a__txt="work\n")
    if cut_off == "its folder is gone":
        shutil.rmtree(made.folder)
    else:
        git(repository.root, "worktree", "lock", "--reason", "initializing", str(made.folder))
        (made.folder / "a.txt").unlink()

    assert ready(home, repository, base="main") == made

    assert (made.folder / "a.txt").read_text() == "work\n"
    assert registered(repository) == 1


def test_what_went_with_its_machine_is_made_here_on_the_same_branch_with_the_work_on_it(
    repository: Repository, home: Home, elsewhere: Home
) -> None:
    there = ready(elsewhere, repository, base="main")
    tip = commit(there.folder, "work", a__txt="work\n")
    shutil.rmtree(there.folder)

    here = ready(home, repository, base="main")

    assert here == Worktree(home.branch, home.folder, there.base, present=True)
    assert git(here.folder, "rev-parse", "HEAD") == tip
    assert (here.folder / "a.txt").read_text() == "work\n"
    assert registered(repository) == 1
    assert [mark.folder for mark in marks(repository)] == [home.folder]


def test_where_machines_share_their_files_it_is_used_where_it_was_made(
    repository: Repository, home: Home, elsewhere: Home
) -> None:
    there = ready(elsewhere, repository, base="main")
    write(there.folder, a__txt="not committed\n")

    assert ready(home, repository, base="main") == there

    assert (there.folder / "a.txt").read_text() == "not committed\n"
    assert not home.folder.exists()
    assert registered(repository) == 1


@pytest.mark.parametrize("how", [("checkout", "-q", "-b", "own"), ("checkout", "-q", "--detach")])
def test_an_agent_that_checked_out_something_else_keeps_its_worktree(
    repository: Repository, home: Home, elsewhere: Home, how: tuple[str, ...]
) -> None:
    made = ready(home, repository, base="main")
    git(made.folder, *how)
    write(made.folder, a__txt="not committed\n")
    head = git(made.folder, "rev-parse", "--symbolic-full-name", "HEAD")

    for seen_from in (home, elsewhere):
        kept = ready(seen_from, repository, base="main")

        assert kept == made
        status = git_in(repository, kept).run("status", "--short").output
        assert status == b" M a.txt\n"
        assert git(kept.folder, "rev-parse", "--symbolic-full-name", "HEAD") == head
    assert registered(repository) == 1


def test_a_folder_of_somebody_else_is_refused_and_stays(repository: Repository, home: Home) -> None:
    home.folder.mkdir(parents=True)
    write(home.folder, mine__txt="mine\n")

    with pytest.raises(RefusedError, match="is not an empty folder; choose another folder"):
        ready(home, repository, base="main")

    assert (home.folder / "mine.txt").read_text() == "mine\n"
    assert registered(repository) == 0


def test_a_folder_that_somebody_else_filled_since_is_refused_and_stays(
    repository: Repository, home: Home
) -> None:
    ready(home, repository, base="main")
    git(repository.root, "worktree", "remove", "--force", str(home.folder))
    home.folder.mkdir()
    write(home.folder, mine__txt="mine\n")

    with pytest.raises(RefusedError, match="is not an empty folder; choose another folder"):
        ready(home, repository, base="main")

    assert (home.folder / "mine.txt").read_text() == "mine\n"


def test_a_branch_of_the_users_by_that_name_is_refused_and_stays(
    repository: Repository, home: Home
) -> None:
    git(repository.root, "branch", home.branch)
    tip = tip_of(repository, home.branch)

    with pytest.raises(RefusedError, match="has a branch 'interlock/agents/owl' already"):
        ready(home, repository, base="main")

    assert tip_of(repository, home.branch) == tip
    assert marks(repository) == ()
    assert not home.folder.exists()
