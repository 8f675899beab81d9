"""A worktree whose folder went with its computer is made elsewhere, on the same branch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.git.branch import mark_of
from interlock.git.changes import commit_all
from interlock.git.errors import Refusal, RefusedError
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree, add_worktree, rehome, worktrees
from tests.git.scene import (
    AGENT,
    a_task,
    assert_refused,
    git,
    locks,
    tip_of,
    write,
)

BRANCH = "interlock/t"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path / "other-computer" / "t"


def seen(repository: Repository) -> tuple[str, str]:
    """Return all that git knows of refs and worktrees."""
    root = repository.root
    return git(root, "show-ref"), git(root, "worktree", "list", "--porcelain")


def refused(repository: Repository, branch: str, folder: Path) -> RefusedError:
    """Rehome what cannot be, and see that nothing came of it."""
    before = seen(repository)
    with pytest.raises(RefusedError) as caught:
        rehome(repository, branch, folder)
    assert seen(repository) == before
    assert not locks(repository.root)
    return caught.value


def test_what_is_gone_with_its_computer_is_made_elsewhere_with_all_that_was_committed(
    repository: Repository, elsewhere: Path
) -> None:
    tree = a_task(repository, "t", a__txt="committed\n")
    write(tree.folder, b__txt="lost with the computer\n")
    shutil.rmtree(tree.folder)

    rehome(repository, BRANCH, elsewhere)
    again = add_worktree(repository, branch=BRANCH, folder=elsewhere, base="main")

    assert again == Worktree(BRANCH, elsewhere, tree.base, present=True)
    assert (elsewhere / "a.txt").read_text() == "committed\n"
    assert (elsewhere / "b.txt").read_text() == "b\n"
    assert git(elsewhere, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert worktrees(repository) == (again,)
    assert str(tree.folder) not in git(repository.root, "worktree", "list"), "no dead one is left"
    assert not commit_all(repository, again, message="go on", identity=AGENT)
    write(elsewhere, c__txt="more\n")
    assert commit_all(repository, again, message="go on", identity=AGENT)
    assert not tree.folder.exists()


def test_a_removed_worktree_is_rehomed_where_git_has_forgotten_it_already(
    repository: Repository, tree: Worktree, elsewhere: Path
) -> None:
    git(repository.root, "worktree", "remove", "--force", str(tree.folder))

    rehome(repository, BRANCH, elsewhere)

    mark = mark_of(repository, BRANCH)
    assert mark is not None
    assert (mark.folder, mark.base) == (elsewhere, tree.base)
    assert worktrees(repository)[0].present is False


def test_what_was_rehomed_but_never_made_there_is_rehomed_again(
    repository: Repository, elsewhere: Path
) -> None:
    tree = a_task(repository, "t", a__txt="committed\n")
    shutil.rmtree(tree.folder)

    rehome(repository, BRANCH, elsewhere)
    rehome(repository, BRANCH, third := elsewhere.with_name("third"))

    assert add_worktree(repository, branch=BRANCH, folder=third, base="main").present
    assert (third / "a.txt").read_text() == "committed\n"
    assert not elsewhere.exists()


def test_a_worktree_that_is_there_is_not_rehomed(
    repository: Repository, tree: Worktree, elsewhere: Path
) -> None:
    write(tree.folder, a__txt="not committed\n")

    error = refused(repository, BRANCH, elsewhere)

    assert_refused(Refusal.FOLDER_TAKEN, error, tree.folder, BRANCH, "use it there")
    assert (tree.folder / "a.txt").read_text() == "not committed\n"


@pytest.mark.parametrize("branch", ["main", "interlock/none"])
def test_a_branch_that_is_not_ours_is_not_rehomed(
    repository: Repository, elsewhere: Path, branch: str
) -> None:
    error = refused(repository, branch, elsewhere)

    assert_refused(
        Refusal.BRANCH_MISSING, error, repr(branch), "not a branch that was made for a task"
    )


def test_it_goes_into_nobody_elses_folder(repository: Repository, tmp_path: Path) -> None:
    gone, other = a_task(repository, "t"), a_task(repository, "other")
    shutil.rmtree(gone.folder)
    filled = tmp_path / "filled"
    filled.mkdir()
    write(filled, mine__txt="mine\n")
    tip = tip_of(repository, BRANCH)

    for folder, word in (
        (filled, "not an empty folder"),
        (other.folder, "inside the repository or one of its worktrees"),
        (repository.root / "inside", "inside the repository or one of its worktrees"),
    ):
        with pytest.raises(RefusedError) as caught:
            rehome(repository, BRANCH, folder)
        assert_refused(Refusal.FOLDER_TAKEN, caught.value, folder, word)

    assert (filled / "mine.txt").read_text() == "mine\n"
    assert tip_of(repository, BRANCH) == tip
    mark = mark_of(repository, BRANCH)
    assert mark is not None
    assert mark.folder == gone.folder, "it can still be made where it was"
    assert add_worktree(repository, branch=BRANCH, folder=gone.folder, base="main").present


def test_a_relative_folder_is_refused(repository: Repository) -> None:
    shutil.rmtree(a_task(repository, "t").folder)

    error = refused(repository, BRANCH, Path("trees/t"))

    assert_refused(Refusal.FOLDER_FOREIGN, error, "'trees/t' is not an absolute path")
