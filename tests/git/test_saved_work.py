"""Whatever an agent leaves in its worktree is on the branch of its try before that is removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git.branch import delete_branch, head, put_away
from interlock.git.errors import GitError, Refusal, RefusedError
from interlock.git.repository import Repository
from interlock.git.saved_work import leave_worktree, save_work
from interlock.git.worktree import Worktree, remove_worktree, worktrees
from tests.git.scene import (
    AGENT,
    a_task,
    assert_refused,
    commit,
    git,
    shown,
    tip_of,
    write,
)

SAVED = "refs/interlock/saved/t"
SUBMODULE = ("-c", "protocol.file.allow=always", "submodule", "--quiet")


def save(repository: Repository, tree: Worktree) -> str:
    """Save the work of a worktree, remove it, and return the commit of its branch."""
    save_work(repository, tree, message="work that was not accepted", identity=AGENT)
    remove_worktree(repository, tree.folder, force=True)
    assert not tree.folder.exists()
    return tip_of(repository, tree.branch)


def refused(repository: Repository, tree: Worktree) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        save_work(repository, tree, message="m", identity=AGENT)
    assert tree.folder.is_dir()
    return caught.value


def leads_to(repository: Repository, branch: str, commit_id: str) -> bool:
    return git(repository.root, "merge-base", commit_id, branch) == commit_id


@pytest.mark.parametrize("where", ["--detach", "-c mine", "--orphan new"])
def test_files_that_are_on_no_branch_of_the_task_are_brought_to_it(
    repository: Repository, tree: Worktree, where: str
) -> None:
    on_branch = commit(tree.folder, "on its branch", b__txt="b\n")
    git(tree.folder, "switch", "-q", *where.split())
    write(tree.folder, a__txt="changed\n", new__txt="an hour of work\n", secret__env="ignored\n")

    save(repository, tree)

    assert shown(repository, "new.txt", tree.branch) == "an hour of work"
    assert shown(repository, "a.txt", tree.branch) == "changed"
    assert leads_to(repository, tree.branch, on_branch)
    is_ignored = "orphan" not in where  # such a branch begins without the file .gitignore
    git(repository.root, "cat-file", "-e", f"{tree.branch}:secret.env", fails=is_ignored)


def test_commits_on_no_branch_are_brought_to_that_of_the_task_as_they_are(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    work = commit(tree.folder, "work", new__txt="x\n")

    assert save(repository, tree) == work


def test_commits_are_brought_to_the_branch_also_if_somebody_has_deleted_the_worktree(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    work = commit(tree.folder, "work", new__txt="x\n")
    shutil.rmtree(tree.folder)

    assert save(repository, tree) == work
    assert git(repository.root, "worktree", "list").count("\n") == 0


def test_a_branch_that_the_agent_has_deleted_is_made_again_with_its_work(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    git(tree.folder, "branch", "-q", "-D", tree.branch)
    work = commit(tree.folder, "work", new__txt="x\n")

    assert save(repository, tree) == work


def test_conflicts_are_saved_with_both_sides_and_what_the_agent_staged(
    repository: Repository, tree: Worktree
) -> None:
    theirs = commit(repository.root, "main goes on", a__txt="theirs\n")
    ours = commit(tree.folder, "work", a__txt="ours\n")
    git(tree.folder, "merge", "main", fails=True)
    write(tree.folder, new__txt="an hour of work\n")

    save(repository, tree)

    assert "<<<<<<<" in shown(repository, "a.txt", tree.branch)
    assert shown(repository, "new.txt", tree.branch) == "an hour of work"
    assert leads_to(repository, tree.branch, theirs)
    assert leads_to(repository, tree.branch, ours)


def test_what_is_only_staged_is_saved_beside_the_files(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    write(tree.folder, a__txt="staged\n")
    git(tree.folder, "add", "a.txt")
    write(tree.folder, a__txt="changed again\n")

    save(repository, tree)

    assert shown(repository, "a.txt", tree.branch) == "changed again"
    assert "a.txt" in git(repository.root, "log", "-m", "--name-only", tree.branch)
    staged = git(repository.root, "log", "--format=%H", "--grep=^What was staged", tree.branch)
    assert git(repository.root, "show", f"{staged}:a.txt") == "staged"


@pytest.mark.parametrize("options", [(), ("--autostash",)])
def test_a_rebase_under_way_is_saved_with_its_stash_and_the_commits_still_to_come(
    repository: Repository, tree: Worktree, options: tuple[str, ...]
) -> None:
    commit(repository.root, "main goes on", a__txt="theirs\n")
    commit(tree.folder, "first", a__txt="ours\n")
    last = commit(tree.folder, "last", b__txt="last\n")
    git(tree.folder, "switch", "-q", "--detach")
    git(tree.folder, "branch", "-q", "-f", tree.branch, "main")
    if options:
        write(tree.folder, c__txt="not committed\n")
    git(tree.folder, "rebase", *options, "main", fails=True)

    save(repository, tree)

    assert leads_to(repository, tree.branch, last)
    everything = git(repository.root, "log", "-m", "-p", tree.branch)
    assert ("not committed" in everything) == bool(options)


def test_a_bisect_under_way_loses_no_commit(repository: Repository, tree: Worktree) -> None:
    good = commit(tree.folder, "good", a__txt="1\n")
    commit(tree.folder, "between", a__txt="2\n")
    git(tree.folder, "switch", "-q", "--detach")
    bad = commit(tree.folder, "bad", a__txt="3\n")
    git(tree.folder, "bisect", "start", bad, good)

    save(repository, tree)

    assert leads_to(repository, tree.branch, bad)


def test_commits_of_a_pick_under_way_on_the_branch_itself_are_saved(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    picked = [commit(tree.folder, name, **{f"{name}__txt": "x\n"}) for name in ("one", "two")]
    git(tree.folder, "switch", "-q", tree.branch)
    commit(tree.folder, "in the way", one__txt="other\n")
    git(tree.folder, "cherry-pick", *picked, fails=True)
    git(tree.folder, "add", "-A")

    save(repository, tree)

    assert all(leads_to(repository, tree.branch, one) for one in picked)


def test_work_that_is_saved_twice_is_the_same_commit(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    write(tree.folder, a__txt="staged\n")
    git(tree.folder, "add", "a.txt")
    write(tree.folder, a__txt="x\n")

    save_work(repository, tree, message="m", identity=AGENT)
    first = tip_of(repository, tree.branch)

    assert save(repository, tree) == first


@pytest.mark.parametrize("cut_off", ["making", "removal"])
def test_files_that_are_missing_in_half_a_worktree_are_not_saved_as_deleted(
    repository: Repository, tree: Worktree, cut_off: str
) -> None:
    work = commit(tree.folder, "work", new__txt="x\n")
    if cut_off == "making":
        reason = ("--reason", "initializing")
        git(repository.root, "worktree", "lock", *reason, str(tree.folder))
    else:
        (repository.common / "worktrees" / "t" / "interlock-removing").touch()
    (tree.folder / "a.txt").unlink()

    assert save(repository, tree) == work


def test_what_the_agent_itself_has_dropped_is_no_work(
    repository: Repository, tree: Worktree
) -> None:
    commit(tree.folder, "dropped", a__txt="x\n")
    git(tree.folder, "reset", "-q", "--hard", "HEAD~1")

    assert save(repository, tree) == tree.base


@pytest.mark.parametrize("state", ["empty", "with a commit", "committed by the agent", "at .git"])
def test_a_worktree_with_a_repository_inside_stays(
    repository: Repository, tree: Worktree, state: str
) -> None:
    inside = tree.folder / ("" if state == "at .git" else "vendor")
    if state == "at .git":
        (tree.folder / ".git").unlink()
    git(tree.folder, "init", "-q", str(inside))
    write(inside, x__txt="x\n")
    if state != "empty":
        commit(inside, "inside")
    if state == "committed by the agent":
        commit(tree.folder, "all of it")

    error = refused(repository, tree)

    assert_refused(Refusal.UNSAVED, error, tree.folder, "." if state == "at .git" else "vendor")


def test_a_worktree_with_a_clone_that_is_no_submodule_stays(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "clone", "-q", str(repository.root), "clone")

    assert_refused(Refusal.UNSAVED, refused(repository, tree), "clone")


def test_a_folder_that_git_knows_no_more_as_a_worktree_stays(
    repository: Repository, tree: Worktree
) -> None:
    shutil.rmtree(repository.common / "worktrees" / "t")

    assert_refused(Refusal.UNSAVED, refused(repository, tree), tree.folder)


def test_a_repository_that_git_ignores_is_no_work(repository: Repository, tree: Worktree) -> None:
    commit(tree.folder, "ignore it", __gitignore="build/\n")
    git(tree.folder, "init", "-q", "build/dependency")
    commit(tree.folder / "build" / "dependency", "inside", x__txt="x\n")

    save(repository, tree)


@pytest.fixture
def with_submodule(repository: Repository) -> Worktree:
    other = repository.root.parent / "other"
    git(repository.root.parent, "init", "-q", "-b", "main", "other")
    commit(other, "inside", x__txt="x\n")
    git(repository.root, *SUBMODULE, "add", str(other), "sub")
    commit(repository.root, "with a submodule")
    tree = a_task(repository, "t")
    git(tree.folder, *SUBMODULE, "update", "--init")
    return tree


def test_a_submodule_whose_commits_its_remote_has_keeps_no_worktree(
    repository: Repository, with_submodule: Worktree
) -> None:
    later = commit(repository.root.parent / "other", "later", x__txt="y\n")
    git(with_submodule.folder / "sub", "fetch", "-q")
    git(with_submodule.folder / "sub", "switch", "-q", "--detach", later)

    save(repository, with_submodule)

    assert later in git(repository.root, "ls-tree", with_submodule.branch, "sub")


def test_a_submodule_at_the_commit_that_the_task_began_with_keeps_no_worktree(
    repository: Repository, with_submodule: Worktree
) -> None:
    sub = with_submodule.folder / "sub"
    git(sub, "branch", "-q", "-D", "main")
    git(sub, "remote", "remove", "origin")

    save(repository, with_submodule)


@pytest.mark.parametrize("change", ["commit", "file", "new file", "stash"])
def test_a_worktree_whose_submodule_has_work_of_its_own_stays(
    repository: Repository, with_submodule: Worktree, change: str
) -> None:
    sub = with_submodule.folder / "sub"
    write(sub, **{"new__txt" if change == "new file" else "x__txt": "an hour of work\n"})
    if change == "commit":
        commit(sub, "work")
    if change == "stash":
        git(sub, "stash", "-q")

    assert_refused(Refusal.UNSAVED, refused(repository, with_submodule), "sub")


def test_a_worktree_with_patches_that_are_not_applied_stays(
    repository: Repository, tree: Worktree
) -> None:
    commit(tree.folder, "one", a__txt="1\n")
    patch = tree.folder.parent / "patch"
    patch.write_text(git(tree.folder, "format-patch", "-1", "--stdout") + "\n")
    git(tree.folder, "reset", "-q", "--hard", "HEAD~1")
    commit(tree.folder, "in the way", a__txt="2\n")
    git(tree.folder, "am", str(patch), fails=True)

    assert_refused(Refusal.UNSAVED, refused(repository, tree), "git am")


def test_a_branch_that_the_user_has_checked_out_is_not_moved(
    repository: Repository, tree: Worktree
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    commit(tree.folder, "work", a__txt="x\n")
    git(repository.root, "switch", "-q", tree.branch)

    assert_refused(Refusal.CHECKOUT_BUSY, refused(repository, tree), repository.root)
    assert tip_of(repository, tree.branch) == tree.base


@pytest.mark.parametrize("command", ["add", "commit-tree", "update-ref"])
def test_a_full_disk_changes_nothing_and_a_repeat_saves_the_work(
    repository: Repository,
    tree: Worktree,
    instead_of_git: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    git(tree.folder, "switch", "-q", "--detach")
    write(tree.folder, a__txt="staged\n")
    git(tree.folder, "add", "a.txt")
    write(tree.folder, a__txt="x\n")
    with monkeypatch.context() as full:
        bin_folder = instead_of_git(
            f'case " $* " in *" {command} "*) echo "No space left on device" >&2; exit 128;; esac'
        )
        with pytest.raises(GitError, match="No space left") as caught:
            save_work(repository, tree, message="m", identity=AGENT)
        assert not isinstance(caught.value, RefusedError)
        full.setenv("PATH", "")
    shutil.rmtree(bin_folder)

    assert (tree.folder / "a.txt").read_text() == "x\n"
    assert tip_of(repository, tree.branch) == tree.base
    save(repository, tree)
    assert shown(repository, "a.txt", tree.branch) == "x"


def test_a_worktree_that_is_left_to_its_user_frees_the_name_of_its_branch(
    repository: Repository, tree: Worktree
) -> None:
    work = commit(tree.folder, "work", a__txt="x\n")
    write(tree.folder, b__txt="not committed\n")

    leave_worktree(repository, tree, target="main")

    assert worktrees(repository) == ()
    assert head(repository, tree.branch) is None
    assert git(tree.folder, "rev-parse", "HEAD") == work
    assert git(tree.folder, "status", "--short") == " M b.txt"
    assert git(repository.root, "rev-parse", SAVED) == work
    other = repository.root.parent / "trees" / "other"
    git(repository.root, "worktree", "remove", "--force", "--force", str(tree.folder))
    assert a_task(repository, "t").branch == tree.branch
    assert not other.exists()


def test_a_branch_that_is_put_away_leaves_its_commits_under_a_ref(repository: Repository) -> None:
    tree = a_task(repository, "t", a__txt="x\n")
    work = tip_of(repository, tree.branch)
    remove_worktree(repository, tree.folder, force=False)

    assert put_away(repository, tree.branch, target="main") == SAVED
    assert git(repository.root, "rev-parse", SAVED) == work
    assert worktrees(repository) == ()

    again = a_task(repository, "t", b__txt="y\n")
    later = tip_of(repository, again.branch)
    remove_worktree(repository, again.folder, force=False)
    assert put_away(repository, again.branch, target="main") == SAVED
    assert leads_to(repository, SAVED, work)
    assert leads_to(repository, SAVED, later)


@pytest.mark.parametrize("target", ["main", "moved back"])
def test_a_branch_without_work_leaves_nothing(
    repository: Repository, tree: Worktree, target: str
) -> None:
    remove_worktree(repository, tree.folder, force=False)
    if target == "moved back":
        git(repository.root, "commit", "-q", "--amend", "--allow-empty", "-m", "another first")

    assert put_away(repository, tree.branch, target="main") == ""
    assert git(repository.root, "for-each-ref", "refs/interlock", "refs/heads/interlock") == ""
    assert not delete_branch(repository, tree.branch, target="main", force=False)
