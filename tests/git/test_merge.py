"""Merging into a branch: with a commit, once, never over anything of the user's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.git.admission import admit
from interlock.git.branch import delete_branch
from interlock.git.changes import changed_files
from interlock.git.errors import FailedError, LockedError, Refusal, RefusedError
from interlock.git.merge import (
    AlreadyMerged,
    BranchMerged,
    BranchMoved,
    MergeConflict,
    MergeOutcome,
    MergeUnverified,
    TargetMoved,
    merge,
)
from interlock.git.remote import push
from interlock.git.repository import Repository
from interlock.git.worktree import remove_worktree, worktrees
from tests.git.scene import (
    AGENT,
    a_branch,
    a_task,
    assert_refused,
    commit,
    git,
    in_main,
    locks,
    shown,
    tip_of,
    user_files,
    work_of_the_user,
    write,
)

BRANCH = "interlock/t"


def merged(
    repository: Repository,
    branch: str = BRANCH,
    target: str = "main",
    message: str = "merge t",
    verified: tuple[str, ...] | None = None,
    commit: str | None = None,
) -> MergeOutcome:
    return merge(
        repository,
        branch=branch,
        target=target,
        message=message,
        identity=AGENT,
        verified=verified,
        commit=commit,
    )


def refused(repository: Repository, target: str = "main") -> RefusedError:
    """Check that a merge is refused and changes neither a branch nor anything of the user's."""
    before = user_files(repository.root), git(repository.root, "for-each-ref", "refs/heads")
    with pytest.raises(RefusedError) as caught:
        merged(repository, target=target)
    after = user_files(repository.root), git(repository.root, "for-each-ref", "refs/heads")
    assert after == before
    return caught.value


@pytest.fixture
def elsewhere(repository: Repository) -> Repository:
    """A repository whose user is on another branch than main."""
    git(repository.root, "switch", "-q", "-c", "users")
    return repository


def test_a_branch_is_merged_with_a_commit_of_its_own(elsewhere: Repository) -> None:
    tree = a_task(elsewhere, "t", a__txt="x\n")
    old, tip = tip_of(elsewhere), tip_of(elsewhere, tree.branch)

    answer = merged(elsewhere, message="merge t\n\nwith ü")

    assert answer == BranchMerged(tip_of(elsewhere))
    assert git(elsewhere.root, "log", "-1", "--format=%P|%an|%ce|%B", "main") == (
        f"{old} {tip}|Ann Agent|ann@example.org|merge t\n\nwith ü\n"
    )
    assert shown(elsewhere, "a.txt") == "x"
    assert "interlock merge" in git(elsewhere.root, "reflog", "-1", "main")


def test_a_second_merge_finds_it_merged(elsewhere: Repository) -> None:
    a_branch(elsewhere, "t", a__txt="x\n")
    merged(elsewhere)
    commit_of_main = tip_of(elsewhere)

    assert merged(elsewhere) == AlreadyMerged(commit_of_main)
    assert tip_of(elsewhere) == commit_of_main
    assert in_main(elsewhere, BRANCH)


def test_a_branch_without_a_commit_is_merged_already(repository: Repository) -> None:
    a_task(repository, "t")

    assert merged(repository) == AlreadyMerged(tip_of(repository))


def test_a_branch_that_changes_nothing_is_merged_as_well(repository: Repository) -> None:
    a_branch(repository, "t")

    assert merged(repository) == BranchMerged(tip_of(repository))
    assert in_main(repository, BRANCH)


def test_a_branch_that_is_not_at_the_commit_to_merge_is_not_merged(repository: Repository) -> None:
    before, tip = tip_of(repository), tip_of(repository, a_branch(repository, "t", a__txt="x\n"))

    assert merged(repository, commit=before) == BranchMoved(tip)

    assert tip_of(repository) == before
    assert isinstance(merged(repository, commit=tip), BranchMerged)


def test_only_files_that_were_verified_are_merged(repository: Repository) -> None:
    tip = tip_of(repository, a_branch(repository, "t", a__txt="x\n"))
    before = commit(repository.root, "the user goes on", b__txt="y\n")

    unverified = merged(repository, verified=(tip,))

    assert isinstance(unverified, MergeUnverified)
    assert git(repository.root, "show", f"{unverified.commit}:a.txt") == "x"
    assert git(repository.root, "show", f"{unverified.commit}:b.txt") == "y"
    assert tip_of(repository) == before
    assert isinstance(merged(repository, verified=(tip, unverified.commit)), BranchMerged)


def test_both_sides_are_in_the_merge(elsewhere: Repository) -> None:
    a_branch(elsewhere, "t", a__txt="x\n")
    a_branch(elsewhere, "o", b__txt="y\n", new__txt="n\n")

    assert isinstance(merged(elsewhere), BranchMerged)
    assert isinstance(merged(elsewhere, "interlock/o"), BranchMerged)

    assert [shown(elsewhere, name) for name in ("a.txt", "b.txt", "new.txt")] == ["x", "y", "n"]


def test_a_conflict_names_its_paths_and_changes_nothing(elsewhere: Repository) -> None:
    a_branch(elsewhere, "t", **{"a__txt": "x\n", "-ü\n": "x\n", "b__txt": "x\n"})
    a_branch(elsewhere, "o", **{"a__txt": "y\n", "-ü\n": "y\n", "c__txt": "y\n"})
    merged(elsewhere)
    before = user_files(elsewhere.root), tip_of(elsewhere)

    assert merged(elsewhere, "interlock/o") == MergeConflict(("-ü\n", "a.txt"))
    assert (user_files(elsewhere.root), tip_of(elsewhere)) == before
    assert not in_main(elsewhere, "interlock/o")


def test_a_file_changed_here_and_deleted_there_is_a_conflict(elsewhere: Repository) -> None:
    a_branch(elsewhere, "t", a__txt=None)
    a_branch(elsewhere, "o", a__txt="y\n")
    merged(elsewhere, "interlock/o")

    assert merged(elsewhere) == MergeConflict(("a.txt",))


def test_histories_without_a_common_beginning_are_a_failure(elsewhere: Repository) -> None:
    a_branch(elsewhere, "t", a__txt="x\n")
    git(elsewhere.root, "switch", "-q", "--orphan", "other")
    commit(elsewhere.root, "other", z__txt="z\n")

    with pytest.raises(FailedError, match=r"unrelated histories"):
        merged(elsewhere, target="other")


@pytest.mark.parametrize(
    ("branch", "target", "refusal"),
    [
        ("interlock/no", "main", Refusal.BRANCH_MISSING),
        (BRANCH, "no", Refusal.TARGET_MISSING),
    ],
)
def test_a_branch_that_is_not_there_is_refused(
    repository: Repository, branch: str, target: str, refusal: Refusal
) -> None:
    a_branch(repository, "t", a__txt="x\n")

    with pytest.raises(RefusedError) as caught:
        merged(repository, branch, target)

    assert_refused(refusal, caught.value, "no'")


def test_a_clean_checkout_of_the_target_moves_along(repository: Repository) -> None:
    root = repository.root
    a_branch(repository, "t", a__txt="x\n", new__txt="n\n", c__txt=None)
    write(root, a__txt="stashed\n")
    git(root, "stash", "-q")
    write(root, untracked__txt="u\n", secret__env="s\n")
    stash = git(root, "rev-parse", "stash")

    assert merged(repository) == BranchMerged(tip_of(repository))

    assert git(root, "status", "--porcelain") == "?? untracked.txt"
    assert {path.name: path.read_text() for path in root.iterdir() if path.is_file()} == {
        ".gitignore": "*.env\n",
        "a.txt": "x\n",
        "b.txt": "b\n",
        "new.txt": "n\n",
        "secret.env": "s\n",
        "untracked.txt": "u\n",
    }
    assert git(root, "rev-parse", "stash") == stash
    assert git(root, "for-each-ref", "refs/interlock/merging") == ""


def test_the_target_may_be_the_branch_of_another_worktree(repository: Repository) -> None:
    other = repository.root.with_name("other")
    git(repository.root, "worktree", "add", "-q", "-b", "other", str(other))
    a_branch(repository, "t", a__txt="x\n")

    assert isinstance(merged(repository, target="other"), BranchMerged)

    assert (other / "a.txt").read_text() == "x\n"
    assert git(other, "status", "--porcelain") == ""


def test_the_branch_of_a_task_that_has_its_worktree_is_no_target(repository: Repository) -> None:
    parent = a_task(repository, "parent")
    a_branch(repository, "t", a__txt="x\n")

    with pytest.raises(RefusedError) as caught:
        merged(repository, target=parent.branch)

    assert_refused(Refusal.CHECKOUT_BUSY, caught.value, parent.branch, parent.folder)


@pytest.mark.parametrize("has_lock", [True, False])
@pytest.mark.parametrize("head", ["ref: refs/heads/main", "a rebase"])
def test_the_worktree_of_a_task_is_no_checkout_of_the_target(
    elsewhere: Repository, head: str, *, has_lock: bool
) -> None:
    """Whatever an agent has checked out, the merge of another task runs no git there."""
    tree = a_task(elsewhere, "hostile")
    admin = elsewhere.common / "worktrees" / "hostile"
    if head == "a rebase":
        git(tree.folder, "checkout", "-q", "--detach")
        (admin / "rebase-merge").mkdir()
        (admin / "rebase-merge" / "head-name").write_text("refs/heads/main\n")
    else:
        (admin / "HEAD").write_text(f"{head}\n")
    if not has_lock:
        (admin / "interlock").unlink()
    escaped = tree.folder / "escaped"
    (tree.folder / ".git").unlink()
    git(tree.folder, "init", "-q", "-b", "main")
    git(tree.folder, "config", "core.fsmonitor", f"touch {escaped}")
    git(tree.folder, "config", "filter.evil.clean", f"touch {escaped}; cat")
    (tree.folder / ".gitattributes").write_text("* filter=evil\n")
    a_branch(elsewhere, "t", a__txt="x\n")

    assert isinstance(merged(elsewhere), BranchMerged)

    assert not escaped.exists()
    assert (tree.folder / "a.txt").read_text() == "a\n"


def test_a_tree_whose_folder_of_git_is_elsewhere_moves_along(repository: Repository) -> None:
    a_branch(repository, "t", a__txt="x\n")
    root, moved = repository.root, repository.root.with_name("folder-of-git")
    git(root, "init", "-q", "--separate-git-dir", str(moved))
    git(root, "worktree", "add", "-q", "-b", "other", str(root.with_name("linked")))

    error = refused(Repository.open(root.with_name("linked")))
    assert_refused(Refusal.CHECKOUT_BUSY, error, "does not find it")
    assert isinstance(merged(Repository.open(root)), BranchMerged)

    assert (root / "a.txt").read_text() == "x\n"
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("kind", ["changed", "staged", "deleted", "other file", "assumed"])
def test_a_checkout_with_uncommitted_changes_is_refused_and_stays_as_it_is(
    repository: Repository, kind: str
) -> None:
    a_branch(repository, "t", a__txt="x\n")
    root = repository.root
    match kind:
        case "deleted":
            (root / "a.txt").unlink()
        case "other file":
            write(root, b__txt="mine\n")
        case _:
            write(root, a__txt="mine\n")
    if kind == "staged":
        git(root, "add", "-A")
    if kind == "assumed":
        git(root, "update-index", "--assume-unchanged", "a.txt")

    error = refused(repository)

    refusal = Refusal.CHECKOUT_BUSY if kind == "assumed" else Refusal.DIRTY
    assert_refused(refusal, error, root, "b.txt" if kind == "other file" else "a.txt")


@pytest.mark.parametrize("name", ["a.txt", "new.txt", "secret.env"])
def test_a_change_made_in_the_last_moment_is_neither_lost_nor_stashed(
    repository: Repository, instead_of_git: Callable[[str], Path], name: str
) -> None:
    root, old = repository.root, tip_of(repository)
    git(root, "config", "merge.autoStash", "true")
    a_branch(repository, "t", a__txt="x\n", new__txt="x\n", secret__env="x\n")
    edit = f"echo mine > {root}/{name}"
    instead_of_git(f'case " $* " in *" merge --ff-only "*) {edit};; esac')

    with pytest.raises(RefusedError) as caught:
        merged(repository)

    refusal = Refusal.DIRTY if name == "a.txt" else Refusal.CHECKOUT_BUSY
    assert_refused(refusal, caught.value, name, root)
    assert tip_of(repository) == old
    assert git(root, "diff", "HEAD", "--name-only") == ("a.txt" if name == "a.txt" else "")
    assert (root / name).read_text() == "mine\n"
    assert git(root, "stash", "list") == ""


@pytest.mark.parametrize("options", ["--squash", "--no-commit", "--no-ff", "--verify-signatures"])
def test_no_option_that_the_user_set_for_merges_counts(
    repository: Repository, options: str
) -> None:
    git(repository.root, "config", "branch.main.mergeOptions", options)
    a_branch(repository, "t", a__txt="x\n")

    assert merged(repository) == BranchMerged(tip_of(repository))
    assert git(repository.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["new.txt", "secret.env", "folder/new.txt"])
def test_a_file_without_git_is_not_written_over(repository: Repository, name: str) -> None:
    a_branch(repository, "t", **{name: "of t\n"})
    (repository.root / name).parent.mkdir(exist_ok=True)
    (repository.root / name).write_text("the user's\n")

    error = refused(repository)

    assert_refused(Refusal.DIRTY, error, name, repository.root, "move it")


@pytest.mark.parametrize("same", [True, False])
def test_a_file_without_git_stays_even_if_the_merge_has_the_same(
    repository: Repository, *, same: bool
) -> None:
    a_branch(repository, "t", new__txt="n\n")
    write(repository.root, new__txt="n\n" if same else "other\n")

    assert refused(repository).refusal is Refusal.DIRTY
    assert refused(repository).refusal is Refusal.DIRTY


def test_a_file_in_the_place_of_a_folder_is_not_written_over(repository: Repository) -> None:
    a_branch(repository, "t", **{"place/x.txt": "x\n"})
    write(repository.root, place="mine\n")

    error = refused(repository)

    assert_refused(Refusal.CHECKOUT_BUSY, error, "place", repository.root)


def test_a_folder_in_the_place_of_a_file_is_not_written_over(repository: Repository) -> None:
    a_branch(repository, "t", place="x\n")
    (repository.root / "place").mkdir()
    write(repository.root / "place", mine__txt="mine\n")

    assert_refused(Refusal.CHECKOUT_BUSY, refused(repository), "place", repository.root)


def test_a_target_in_the_middle_of_a_rebase_is_refused(repository: Repository) -> None:
    first = tip_of(repository)
    commit(repository.root, "on main", a__txt="m\n")
    git(repository.root, "branch", "onto", first)
    a_branch(repository, "t", b__txt="x\n")
    git(repository.root, "rebase", "-q", "--exec", "false", "onto", fails=True)

    error = refused(repository)

    assert_refused(Refusal.CHECKOUT_BUSY, error, "rebase", "'main'", repository.root)


def test_a_target_in_the_middle_of_a_bisect_or_a_merge_is_refused(repository: Repository) -> None:
    for number in "234":
        commit(repository.root, number, a__txt=f"{number}\n")
    a_branch(repository, "t", b__txt="x\n")
    git(repository.root, "bisect", "start", "main", "main~3")

    assert_refused(Refusal.CHECKOUT_BUSY, refused(repository), "bisect", "'main'")

    git(repository.root, "bisect", "reset")
    git(repository.root, "branch", "other", "main~1")
    git(repository.root, "merge", "-q", "--no-ff", "--no-commit", "-s", "ours", "other")
    (repository.root / ".git/MERGE_HEAD").write_text(tip_of(repository) + "\n")

    assert_refused(Refusal.CHECKOUT_BUSY, refused(repository), "MERGE_HEAD", repository.root)


def test_a_target_that_is_checked_out_twice_is_refused(repository: Repository) -> None:
    a_branch(repository, "t", a__txt="x\n")
    git(repository.root, "worktree", "add", "-q", "--force", "../second", "main")

    error = refused(repository)

    assert_refused(Refusal.CHECKOUT_BUSY, error, repository.root, "second")


@pytest.mark.parametrize("locked", [True, False])
def test_a_checkout_that_is_not_mounted_is_refused_but_a_deleted_one_is_none(
    elsewhere: Repository, *, locked: bool
) -> None:
    folder = elsewhere.root.parent / "disk"
    git(elsewhere.root, "worktree", "add", "-q", str(folder), "main")
    if locked:
        git(elsewhere.root, "worktree", "lock", str(folder))
    a_branch(elsewhere, "t", a__txt="x\n")
    folder.rename(folder.with_name("unmounted"))

    if locked:
        assert_refused(Refusal.CHECKOUT_BUSY, refused(elsewhere), folder, "not there now")
    else:
        assert isinstance(merged(elsewhere), BranchMerged)


def test_a_broken_worktree_of_the_user_holds_nothing_up(elsewhere: Repository) -> None:
    git(elsewhere.root, "worktree", "add", "-q", "--detach", "../own")
    (elsewhere.root.parent / "own" / ".git").unlink()
    a_branch(elsewhere, "t", a__txt="x\n")

    assert isinstance(merged(elsewhere), BranchMerged)


def test_two_merges_at_once_are_both_in_the_target(repository: Repository) -> None:
    names = ["t", "u", "v", "w"]
    for name in names:
        a_branch(repository, name, **{f"{name}__txt": f"{name}\n"})

    with ThreadPoolExecutor(len(names)) as pool:
        answers = pool.map(lambda name: merged(repository, f"interlock/{name}"), names)

    assert all(isinstance(answer, BranchMerged) for answer in answers)
    assert all(in_main(repository, f"interlock/{name}") for name in names)
    assert all((repository.root / f"{name}.txt").exists() for name in names)
    assert git(repository.root, "status", "--porcelain") == ""


def test_tasks_that_live_side_by_side_end_merged_and_leave_nothing(
    repository: Repository,
) -> None:
    names = [f"task-{number}" for number in range(3)]

    def live(name: str) -> None:
        tree = a_task(repository, name, **{f"{name}__txt": f"{name}\n"})
        assert changed_files(repository, tree, base=tree.base) == (f"{name}.txt",)
        assert isinstance(merged(repository, tree.branch), BranchMerged)
        assert remove_worktree(repository, tree.folder, force=False)
        assert delete_branch(repository, tree.branch, target="main", force=False)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(live, names))

    assert sorted(path.stem for path in repository.root.glob("task-*")) == names
    assert git(repository.root, "status", "--porcelain") == ""
    assert git(repository.root, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(repository.root, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert locks(repository.root) == []
    assert not list((repository.root.parent / "trees").iterdir())


@pytest.mark.parametrize("checked_out", [True, False])
def test_a_target_that_somebody_moves_meanwhile_is_merged_into_on_the_second_try(
    repository: Repository, instead_of_git: Callable[[str], Path], *, checked_out: bool
) -> None:
    root = repository.root
    a_branch(repository, "t", a__txt="x\n")
    old = tip_of(repository)
    if not checked_out:
        git(root, "switch", "-q", "-c", "users")
    person = "-c user.name=u -c user.email=u"
    instead_of_git(
        'case " $* " in *" commit-tree "*) if mkdir "$0.moved" 2>/dev/null; then\n'
        f"cd {root}\n"
        f'new=$("$real" {person} commit-tree -p main -m mine "main^{{tree}}" </dev/null)\n'
        '"$real" update-ref refs/heads/main "$new"; fi;; esac'
    )

    answer = merged(repository)

    assert answer == TargetMoved(old, tip_of(repository))
    assert tip_of(repository) != old
    assert not in_main(repository, BRANCH)
    assert merged(repository) == BranchMerged(tip_of(repository))
    assert git(root, "log", "--format=%s", "--first-parent", "main").split("\n")[:2] == [
        "merge t",
        "mine",
    ]
    assert git(root, "status", "--porcelain") == ""


def test_a_checkout_that_is_switched_in_the_last_moment_is_no_merge(
    repository: Repository, instead_of_git: Callable[[str], Path]
) -> None:
    root, old = repository.root, tip_of(repository)
    a_branch(repository, "t", a__txt="x\n")
    switch = f'"$real" -C {root} switch -q -c users'
    instead_of_git(f'case " $* " in *" merge --ff-only "*) {switch};; esac')

    with pytest.raises(RefusedError) as caught:
        merged(repository)

    assert_refused(Refusal.CHECKOUT_BUSY, caught.value, root)
    assert tip_of(repository) == old
    assert git(root, "for-each-ref", "refs/interlock/merging") == ""


@pytest.mark.parametrize("checked_out", [True, False])
def test_another_git_at_work_is_named_and_nothing_changes(
    repository: Repository, *, checked_out: bool
) -> None:
    a_branch(repository, "t", a__txt="x\n")
    if not checked_out:
        git(repository.root, "switch", "-q", "-c", "users")
    before = user_files(repository.root), tip_of(repository)
    lock = repository.common / ("index.lock" if checked_out else "refs/heads/main.lock")
    lock.write_text("")

    with pytest.raises(LockedError) as caught:
        merged(repository)

    assert caught.value.lock == lock
    assert (user_files(repository.root), tip_of(repository)) == before
    lock.unlink()
    assert isinstance(merged(repository), BranchMerged)


def test_all_uncommitted_work_of_the_user_survives_every_operation(
    elsewhere: Repository,
) -> None:
    root = elsewhere.root
    git(root, "init", "-q", "--bare", "../remote.git")
    git(root, "remote", "add", "origin", "../remote.git")
    before = work_of_the_user(root)

    def unharmed() -> None:
        assert user_files(root) == before

    tree = a_task(elsewhere, "t", a__txt="x\n", untracked__txt="x\n")
    unharmed()
    assert changed_files(elsewhere, tree, base="main") == ("a.txt", "untracked.txt")
    unharmed()
    assert isinstance(merged(elsewhere), BranchMerged)
    unharmed()
    assert push(elsewhere, branch="main", remote="origin")
    unharmed()
    with pytest.raises(RefusedError):
        admit(elsewhere, target=None, branch="interlock/next", paths=())
    unharmed()
    assert remove_worktree(elsewhere, tree.folder, force=True)
    unharmed()
    assert delete_branch(elsewhere, BRANCH, target="main", force=False)
    assert worktrees(elsewhere) == ()
    unharmed()
