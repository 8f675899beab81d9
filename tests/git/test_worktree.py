"""Worktrees of tasks: made once, found again, completed after a crash, removed, never another's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git.branch import delete_branch, head
from interlock.git.changes import changed_files, commit_all
from interlock.git.errors import FailedError, Refusal, RefusedError, TimedOutError
from interlock.git.merge import merge
from interlock.git.repository import Repository
from interlock.git.worktree import (
    Worktree,
    add_worktree,
    remove_worktree,
    worktree_and_tip,
    worktrees,
)
from tests.git.scene import (
    AGENT,
    a_task,
    assert_refused,
    commit,
    git,
    locks,
    tip_of,
    write,
)

BRANCH = "interlock/t"
SLOW = "a.txt filter=slow\n"


def refused_removal(repository: Repository, folder: Path, *, force: bool = True) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        remove_worktree(repository, folder, force=force)
    return caught.value


def refused_addition(repository: Repository, folder: Path, branch: str = BRANCH) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        add_worktree(repository, branch=branch, folder=folder, base="main")
    return caught.value


def registered(repository: Repository) -> int:
    """Count the worktrees that git knows besides the user's."""
    return git(repository.root, "worktree", "list", "--porcelain").count("worktree ") - 1


def test_a_worktree_has_the_base_on_a_branch_of_its_own(repository: Repository) -> None:
    tree = a_task(repository, "t")

    assert tree == Worktree(BRANCH, tree.folder, tip_of(repository), present=True)
    assert (tree.folder / "a.txt").read_text() == "a\n"
    assert git(tree.folder, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert worktrees(repository) == (tree,)


def test_the_folders_above_a_worktree_are_closed_to_other_users(
    repository: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "state" / "backlog" / "t"

    add_worktree(repository, branch=BRANCH, folder=folder, base="main")

    modes = {above.stat().st_mode & 0o777 for above in (folder.parent, folder.parent.parent)}
    assert modes == {0o700}


def test_a_repeat_finds_its_own_with_all_work_and_the_first_base(repository: Repository) -> None:
    tree = a_task(repository, "t", a__txt="committed\n")
    write(tree.folder, b__txt="not yet\n")
    commit(repository.root, "main goes on", c__txt="later\n")

    again = a_task(repository, "t")

    assert again == tree
    assert (tree.folder / "b.txt").read_text() == "not yet\n"
    assert registered(repository) == 1


def test_a_repeat_finds_its_own_whose_branch_the_user_has_checked_out_too(
    repository: Repository,
    tree: Worktree,
) -> None:
    for name in ("first", "second"):
        git(repository.root, "worktree", "add", "-q", "--force", f"../{name}", BRANCH)

    assert a_task(repository, "t") == tree


def test_a_base_may_be_a_commit(repository: Repository) -> None:
    first = tip_of(repository)
    commit(repository.root, "second", a__txt="2\n")

    tree = add_worktree(
        repository, branch=BRANCH, folder=repository.root.parent / "old", base=first
    )

    assert (tree.folder / "a.txt").read_text() == "a\n"


def test_without_a_base_it_begins_at_the_commit_that_is_checked_out(repository: Repository) -> None:
    git(repository.root, "switch", "-q", "--detach")
    checked_out = commit(repository.root, "second", a__txt="2\n")

    folder = repository.root.parent / "t"
    tree = add_worktree(repository, branch=BRANCH, folder=folder, base=None)

    assert tree.base == checked_out
    assert (tree.folder / "a.txt").read_text() == "2\n"


@pytest.mark.parametrize("base", ["nowhere", "0" * 40, "main~0", ""])
def test_a_base_that_is_not_there_is_refused_and_nothing_is_left(
    repository: Repository, base: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        add_worktree(repository, branch=BRANCH, folder=repository.root.parent / "t", base=base)

    assert_refused(Refusal.BRANCH_MISSING, caught.value, repr(base))
    assert worktrees(repository) == ()
    assert head(repository, BRANCH) is None


def test_a_branch_that_somebody_else_made_is_refused(repository: Repository) -> None:
    git(repository.root, "branch", BRANCH)

    error = refused_addition(repository, repository.root.parent / "t")

    assert_refused(Refusal.BRANCH_EXISTS, error, BRANCH)
    assert registered(repository) == 0


def test_a_branch_of_another_task_is_refused(repository: Repository, tree: Worktree) -> None:
    error = refused_addition(repository, repository.root.parent / "other")

    assert_refused(Refusal.BRANCH_EXISTS, error, BRANCH, tree.folder)


@pytest.mark.parametrize(
    "kind", ["filled", "file", "link", "users worktree", "other task", "removed"]
)
def test_a_folder_that_is_not_ours_is_refused_and_left_alone(
    repository: Repository, kind: str
) -> None:
    folder = repository.root.parent / "folder"
    match kind:
        case "filled":
            folder.mkdir()
            write(folder, precious__txt="p")
        case "file":
            folder.write_text("p")
        case "link":
            (repository.root.parent / "empty").mkdir()
            folder.symlink_to(repository.root.parent / "empty")
        case "users worktree":
            git(repository.root, "worktree", "add", "-q", str(folder), "-b", "own")
        case _:
            add_worktree(repository, branch="interlock/o", folder=folder, base="main")
    if kind == "removed":
        remove_worktree(repository, folder, force=True)
    before = sorted(folder.parent.rglob("*"))

    error = refused_addition(repository, folder)

    assert_refused(Refusal.FOLDER_TAKEN, error, folder)
    assert head(repository, BRANCH) is None
    assert [p for p in sorted(folder.parent.rglob("*")) if ".git" not in p.parts] == [
        p for p in before if ".git" not in p.parts
    ]


def test_an_empty_folder_may_be_used(repository: Repository) -> None:
    folder = repository.root.parent / "trees" / "t"
    folder.mkdir(parents=True)

    assert a_task(repository, "t").folder == folder


@pytest.mark.parametrize("place", ["repository/t", "repository/.git/t", "trees/o/t", "repository"])
def test_a_folder_inside_a_working_tree_is_refused(repository: Repository, place: str) -> None:
    a_task(repository, "o")

    error = refused_addition(repository, repository.root.parent / place)

    assert_refused(Refusal.FOLDER_TAKEN, error, place)


def test_a_folder_inside_the_main_working_tree_is_refused_from_another_one(root: Path) -> None:
    git(root, "worktree", "add", "-q", "../own", "-b", "own")
    repository = Repository.open(root.parent / "own")

    error = refused_addition(repository, root / "t")

    assert_refused(Refusal.FOLDER_TAKEN, error, root / "t", "inside")


def test_a_relative_folder_is_refused(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.root.parent)
    for refused in (refused_addition, refused_removal):
        error = refused(repository, Path("trees/x"))
        assert_refused(Refusal.FOLDER_FOREIGN, error, "'trees/x'")


@pytest.mark.parametrize("left", ["mark", "branch", "empty folder", "filled folder"])
def test_a_repeat_completes_what_a_crash_left(
    repository: Repository, tree: Worktree, left: str
) -> None:
    remove_worktree(repository, tree.folder, force=True)
    if left == "mark":
        git(repository.root, "branch", "-D", BRANCH)
    if left.endswith("folder"):
        tree.folder.mkdir()
    if left == "filled folder":
        write(tree.folder, precious__txt="p")
        assert_refused(Refusal.FOLDER_TAKEN, refused_addition(repository, tree.folder))
        return

    assert a_task(repository, "t") == tree
    assert (tree.folder / "c.txt").read_text() == "c\n"


def test_a_worktree_that_was_deleted_by_hand_is_made_again_from_its_branch(
    repository: Repository,
) -> None:
    tree = a_task(repository, "t", a__txt="committed\n")
    shutil.rmtree(tree.folder)

    assert not worktrees(repository)[0].present
    assert a_task(repository, "t") == tree
    assert (tree.folder / "a.txt").read_text() == "committed\n"
    assert registered(repository) == 1


def slow_down(repository: Repository, lines: str) -> None:
    """Run lines of shell while git writes a.txt to a working tree."""
    (repository.root / ".git/info/attributes").write_text(SLOW)
    git(repository.root, "config", "filter.slow.smudge", f"{lines}; cat")


def test_a_repeat_makes_anew_what_a_killed_git_left_half_made(repository: Repository) -> None:
    slow_down(repository, "kill -9 0")
    with pytest.raises(FailedError, match=r"exit code -9"):
        a_task(repository, "t")
    assert registered(repository) == 1
    slow_down(repository, "true")

    tree = a_task(repository, "t")

    assert git(tree.folder, "status", "--porcelain") == ""
    assert (tree.folder / "a.txt").read_text() == "a\n"
    assert registered(repository) == 1
    assert locks(repository.root) == []


@pytest.mark.parametrize(
    "lost", ["HEAD", "gitdir", "commondir", "index", ".git", "folder", "all but locked"]
)
def test_a_repeat_copes_with_every_half_of_a_worktree(
    repository: Repository, tree: Worktree, lost: str
) -> None:
    admin = repository.common / "worktrees" / "t"
    (admin / "locked").write_text("initializing\n")
    for name in ("HEAD", "gitdir", "commondir", "index") if lost == "all but locked" else (lost,):
        (admin / name).unlink(missing_ok=True)
    if lost in {".git", "gitdir", "all but locked"}:
        (tree.folder / ".git").unlink()
    if lost in {"gitdir", "folder", "all but locked"}:
        shutil.rmtree(tree.folder)

    assert a_task(repository, "t") == tree
    assert git(tree.folder, "status", "--porcelain", "--branch") == f"## {BRANCH}"


@pytest.mark.parametrize("lost", ["nothing", "folder"])
def test_a_half_made_worktree_is_removed_without_force(repository: Repository, lost: str) -> None:
    slow_down(repository, "kill -9 0")
    with pytest.raises(FailedError):
        a_task(repository, "t")
    folder = repository.root.parent / "trees" / "t"
    if lost == "folder":
        shutil.rmtree(folder)

    assert remove_worktree(repository, folder, force=False) == (lost == "nothing")

    assert not folder.exists()
    assert registered(repository) == 0


def test_a_git_that_hangs_in_a_checkout_leaves_nothing_behind(
    root: Path, tmp_path: Path, hangs_from: Callable[[Path], Path]
) -> None:
    begun = hangs_from(tmp_path / "begun")
    repository = Repository.open(root, command_s=0.1)
    slow_down(repository, f"touch {begun}; sleep 1000")

    with pytest.raises(TimedOutError):
        a_task(repository, "t")

    slow_down(repository, "true")
    assert a_task(Repository.open(root), "t").present


@pytest.mark.parametrize("gone", ["nothing", "folder", "worktree", "branch"])
def test_the_worktree_of_a_branch_and_its_tip_are_found_unless_they_are_gone(
    repository: Repository, tree: Worktree, gone: str
) -> None:
    tip = commit(tree.folder, "later", a__txt="later\n")
    match gone:
        case "folder":
            shutil.rmtree(tree.folder)
        case "worktree" | "branch":
            remove_worktree(repository, tree.folder, force=True)
    if gone == "branch":
        delete_branch(repository, BRANCH, target="main", force=True)

    found = worktree_and_tip(repository, BRANCH)

    assert found == (
        tree if gone == "nothing" else None,
        None if gone == "branch" else tip,
    )


def test_a_clean_worktree_is_removed_and_its_branch_stays(repository: Repository) -> None:
    tree = a_task(repository, "t", a__txt="x\n")
    write(tree.folder, build__env="ignored\n")

    assert remove_worktree(repository, tree.folder, force=False)

    assert not tree.folder.exists()
    assert registered(repository) == 0
    assert head(repository, BRANCH)
    assert worktrees(repository) == (Worktree(BRANCH, tree.folder, tree.base, present=False),)


def test_a_second_removal_is_no_error(repository: Repository, tree: Worktree) -> None:
    remove_worktree(repository, tree.folder, force=False)

    assert not remove_worktree(repository, tree.folder, force=False)


def test_removing_one_that_was_deleted_by_hand_makes_git_forget_it(
    repository: Repository, tree: Worktree
) -> None:
    other = repository.root.parent / "users own"
    git(repository.root, "worktree", "add", "-q", str(other), "-b", "own")
    shutil.rmtree(tree.folder)
    other.rename(other.with_name("unmounted"))

    assert not remove_worktree(repository, tree.folder, force=False)

    assert registered(repository) == 1, "the user's is not pruned along"


@pytest.mark.parametrize("kind", ["changed", "staged", "untracked", "deleted"])
def test_work_that_is_not_committed_is_removed_by_force_only(
    repository: Repository, tree: Worktree, kind: str
) -> None:
    if kind == "deleted":
        (tree.folder / "a.txt").unlink()
    else:
        write(tree.folder, **{"new.txt" if kind == "untracked" else "a.txt": "x\n"})
    if kind == "staged":
        git(tree.folder, "add", "-A")

    error = refused_removal(repository, tree.folder, force=False)

    assert_refused(Refusal.DIRTY, error, tree.folder, "new" if kind == "untracked" else "a.txt")
    assert tree.folder.exists()
    assert remove_worktree(repository, tree.folder, force=True)
    assert not tree.folder.exists()


@pytest.mark.parametrize("kind", ["users worktree", "main", "plain", "link", "unregistered"])
def test_nothing_of_somebody_else_is_removed_even_by_force(
    repository: Repository, tree: Worktree, kind: str
) -> None:
    folder = repository.root.parent / "folder"
    match kind:
        case "users worktree":
            git(repository.root, "worktree", "add", "-q", str(folder), "-b", "interlock/own")
        case "main":
            folder = repository.root
        case "plain":
            folder.mkdir()
        case "link":
            folder = tree.folder
            shutil.move(folder, elsewhere := folder.with_name("elsewhere"))
            folder.symlink_to(elsewhere)
        case _:
            folder = tree.folder
            remove_worktree(repository, folder, force=True)
            folder.mkdir()
    write(folder, precious__txt="p\n")

    error = refused_removal(repository, folder)

    assert_refused(Refusal.FOLDER_FOREIGN, error, folder)
    assert (folder / "precious.txt").read_text() == "p\n"


def test_a_link_inside_a_worktree_is_removed_and_not_what_it_leads_to(
    repository: Repository,
    tree: Worktree,
) -> None:
    outside = repository.root.parent / "outside"
    outside.mkdir()
    write(outside, precious__txt="p\n")
    (tree.folder / "link").symlink_to(outside)
    outside.chmod(0o500)

    assert remove_worktree(repository, tree.folder, force=True)

    assert (outside / "precious.txt").read_text() == "p\n"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_folders_that_a_tool_made_read_only_are_removed(
    repository: Repository, tree: Worktree
) -> None:
    folder = tree.folder / "cache" / "module"
    folder.mkdir(parents=True)
    write(folder, x__txt="x")
    folder.chmod(0o500)
    folder.parent.chmod(0o000)
    if os.access(folder, os.W_OK):
        pytest.skip("rights hold nobody back here")

    assert remove_worktree(repository, tree.folder, force=True)
    assert not tree.folder.exists()


@pytest.mark.parametrize("made", ["nothing", "repository", "nonsense", "locked"])
def test_whatever_an_agent_did_to_git_in_its_worktree_it_can_be_removed(
    repository: Repository, tree: Worktree, made: str
) -> None:
    if made == "locked":
        git(repository.root, "worktree", "lock", str(tree.folder))
    else:
        (tree.folder / ".git").unlink()
    if made == "repository":
        git(tree.folder, "init", "-q")
    if made == "nonsense":
        (tree.folder / ".git").write_text("gitdir: /nowhere\n")

    assert remove_worktree(repository, tree.folder, force=True)

    assert not tree.folder.exists()
    assert registered(repository) == 0


def test_a_removal_that_was_cut_off_goes_on_without_force(
    repository: Repository, tree: Worktree
) -> None:
    (repository.common / "worktrees" / "t" / "interlock-removing").touch()
    (tree.folder / ".git").unlink()
    (tree.folder / "a.txt").unlink()

    assert remove_worktree(repository, tree.folder, force=False)
    assert not tree.folder.exists()


def test_a_worktree_whose_removal_was_cut_off_is_made_anew_when_added(
    repository: Repository,
    tree: Worktree,
) -> None:
    (repository.common / "worktrees" / "t" / "interlock-removing").touch()
    (tree.folder / "a.txt").unlink()

    assert a_task(repository, "t") == tree
    write(tree.folder, b__txt="new work\n")

    error = refused_removal(repository, tree.folder, force=False)

    assert error.refusal is Refusal.DIRTY
    assert (tree.folder / "a.txt").exists()


def test_a_worktree_that_was_left_on_another_branch_is_refused(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")

    error = refused_addition(repository, tree.folder)

    assert_refused(Refusal.WRONG_BRANCH, error, tree.folder, "on no branch")


def test_a_branch_is_deleted_when_it_is_merged(repository: Repository) -> None:
    tree = a_task(repository, "t", a__txt="x\n")
    remove_worktree(repository, tree.folder, force=False)
    with pytest.raises(RefusedError) as caught:
        delete_branch(repository, BRANCH, target="main", force=False)
    assert_refused(Refusal.NOT_MERGED, caught.value, BRANCH, "main")

    merge(repository, branch=BRANCH, target="main", message="m", identity=AGENT, verified=None)

    assert delete_branch(repository, BRANCH, target="main", force=False)
    assert not delete_branch(repository, BRANCH, target="main", force=False)
    assert head(repository, BRANCH) is None
    assert worktrees(repository) == ()
    assert git(repository.root, "for-each-ref", "refs/interlock") == ""


def test_a_branch_that_is_not_merged_is_deleted_by_force_only(repository: Repository) -> None:
    tree = a_task(repository, "t", a__txt="x\n")
    remove_worktree(repository, tree.folder, force=False)

    assert delete_branch(repository, BRANCH, target="main", force=True)
    assert worktrees(repository) == ()


@pytest.mark.parametrize("branch", ["main", "interlock/own"])
def test_a_branch_of_the_user_is_never_deleted(repository: Repository, branch: str) -> None:
    git(repository.root, "branch", "interlock/own")

    with pytest.raises(RefusedError, match=r"was not made for a task"):
        delete_branch(repository, branch, target="main", force=True)

    assert head(repository, branch)


def test_a_branch_that_is_checked_out_is_not_deleted(
    repository: Repository, tree: Worktree
) -> None:
    with pytest.raises(RefusedError) as caught:
        delete_branch(repository, BRANCH, target="main", force=True)

    assert_refused(Refusal.CHECKOUT_BUSY, caught.value, tree.folder)


def test_work_that_comes_in_the_last_moment_keeps_the_branch_and_its_mark(
    repository: Repository, tree: Worktree, instead_of_git: Callable[[str], Path]
) -> None:
    remove_worktree(repository, tree.folder, force=True)
    later = commit(repository.root, "later", a__txt="x\n")
    work = f'"$real" -C {repository.root} update-ref refs/heads/{BRANCH} {later}'
    instead_of_git(f'case " $* " in *" update-ref "*) {work};; esac')

    with pytest.raises(FailedError):
        delete_branch(repository, BRANCH, target="main", force=True)

    assert head(repository, BRANCH) == later
    assert worktrees(repository) == (Worktree(BRANCH, tree.folder, tree.base, present=False),)


def test_a_deletion_that_was_cut_off_is_completed(repository: Repository, tree: Worktree) -> None:
    remove_worktree(repository, tree.folder, force=False)
    git(repository.root, "branch", "-D", BRANCH)

    assert not delete_branch(repository, BRANCH, target="main", force=False)
    assert worktrees(repository) == ()


def test_names_with_spaces_line_ends_and_dashes_are_worktrees_as_well(
    repository: Repository,
) -> None:
    folder = repository.root.parent / "-t r\u00e9\ne" / "-f"
    tree = add_worktree(repository, branch="interlock/-ü", folder=folder, base="main")
    write(folder, a__txt="x\n")

    assert worktrees(repository) == (tree,)
    assert changed_files(repository, tree, base="main") == ("a.txt",)
    assert commit_all(repository, tree, message="m", identity=AGENT)
    assert remove_worktree(repository, folder, force=False)
    assert delete_branch(repository, "interlock/-ü", target="main", force=True)


def test_a_worktree_is_refused_where_git_can_make_no_branch_for_it(repository: Repository) -> None:
    git(repository.root, "branch", "interlock")
    before = git(repository.root, "for-each-ref")

    error = refused_addition(repository, repository.root.parent / "t")

    assert_refused(Refusal.BRANCH_EXISTS, error, "'interlock'", "git branch -m interlock ")
    assert git(repository.root, "for-each-ref") == before
