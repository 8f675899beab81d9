"""The work of a task on top of a target that was rewritten, without what was dropped from it."""

from __future__ import annotations

import pytest

from interlock.git.errors import Refusal, RefusedError
from interlock.git.merge import (
    BranchMerged,
    MergeConflict,
    MergeOutcome,
    TargetRewritten,
    merge,
)
from interlock.git.replay import WorkReplayed, base_of_work, replay
from interlock.git.repository import Repository
from interlock.git.worktree import worktrees
from tests.git.scene import AGENT, a_task, assert_refused, commit, git, tip_of

BRANCH = "interlock/t"


def replayed(repository: Repository) -> WorkReplayed | MergeConflict | None:
    return replay(repository, branch=BRANCH, target="main", identity=AGENT)


def merged(repository: Repository) -> MergeOutcome:
    return merge(
        repository, branch=BRANCH, target="main", message="merge t", identity=AGENT, verified=None
    )


def files(repository: Repository, name: str) -> list[str]:
    return git(repository.root, "ls-tree", "-r", "--name-only", name).splitlines()


@pytest.fixture
def dropped(repository: Repository) -> str:
    """The last commit of main, on which a task is based, and which the user has dropped."""
    found = commit(repository.root, "a secret", secret="x\n")
    a_task(repository, "t", new="work\n")
    git(repository.root, "reset", "-q", "--hard", "HEAD~1")
    return found


def test_a_commit_that_was_dropped_from_the_target_is_not_merged(
    repository: Repository, dropped: str
) -> None:
    before = tip_of(repository)

    assert merged(repository) == TargetRewritten()

    assert tip_of(repository) == before
    assert git(repository.root, "branch", "--contains", dropped) == f"+ {BRANCH}"


def test_the_work_alone_is_put_on_top_of_the_target(repository: Repository, dropped: str) -> None:
    target, tip = tip_of(repository), tip_of(repository, BRANCH)
    subject = git(repository.root, "log", "-1", "--format=%B", BRANCH)

    done = replayed(repository)

    assert done == WorkReplayed(tip, tip_of(repository, BRANCH), target)
    assert git(repository.root, "log", "-1", "--format=%P|%an|%B", BRANCH) == (
        f"{target}|{AGENT.name}|{subject}"
    )
    assert set(files(repository, BRANCH)) == {*files(repository, "main"), "new"}
    (tree,) = worktrees(repository)
    assert tree.base == target
    assert git(tree.folder, "status", "--porcelain", "--ignored") == "", "its files follow"
    assert not (tree.folder / "secret").exists()
    assert merged(repository) == BranchMerged(tip_of(repository))
    assert git(repository.root, "branch", "--contains", dropped) == ""


def test_a_repetition_changes_nothing(repository: Repository, dropped: str) -> None:
    assert dropped
    replayed(repository)
    before = git(repository.root, "for-each-ref")

    assert replayed(repository) is None

    assert git(repository.root, "for-each-ref") == before


def test_a_target_that_only_moved_forward_is_merged_as_it_is(repository: Repository) -> None:
    a_task(repository, "t", new="work\n")
    commit(repository.root, "more", more="x\n")

    assert replayed(repository) is None
    assert isinstance(merged(repository), BranchMerged)


@pytest.mark.parametrize("way", ["amend", "rebase"])
def test_a_target_that_was_amended_or_rebased_keeps_its_own_commits(
    repository: Repository, way: str
) -> None:
    root = repository.root
    begun = tip_of(repository)
    commit(root, "first draft", draft="1\n")
    a_task(repository, "t", new="work\n")
    if way == "amend":
        (root / "draft").write_text("2\n")
        git(root, "commit", "-q", "--all", "--amend", "-m", "second draft")
    else:
        git(root, "switch", "-q", "-c", "other", begun)
        commit(root, "upstream", upstream="x\n")
        git(root, "switch", "-q", "main")
        git(root, "rebase", "-q", "other")

    assert isinstance(replayed(repository), WorkReplayed)
    assert isinstance(merged(repository), BranchMerged)

    said = git(root, "log", "--first-parent", "--format=%s", f"{begun}..main")
    assert said.splitlines()[1:] == (
        ["second draft"] if way == "amend" else ["first draft", "upstream"]
    )
    assert git(root, "show", "main:draft") == ("2" if way == "amend" else "1")
    assert git(root, "show", "main:new") == "work"


def test_all_commits_of_the_work_become_one_with_their_messages(repository: Repository) -> None:
    commit(repository.root, "a secret", secret="x\n")
    tree = a_task(repository, "t", new="work\n")
    git(tree.folder, "commit", "-q", "--allow-empty", "-m", "and more\n\nof it")
    first = git(repository.root, "log", "-1", "--format=%s", f"{BRANCH}~1")
    git(repository.root, "reset", "-q", "--hard", "HEAD~1")

    replayed(repository)

    said = git(repository.root, "log", "--format=%B", f"main..{BRANCH}")
    assert said.split() == [*first.split(), "and", "more", "of", "it"]


def test_work_that_conflicts_with_what_is_left_stays_where_it_is(repository: Repository) -> None:
    commit(repository.root, "draft", draft="1\n")
    a_task(repository, "t", draft="1\nwork\n")
    git(repository.root, "reset", "-q", "--hard", "HEAD~1")
    before = git(repository.root, "for-each-ref")

    assert replayed(repository) == MergeConflict(("draft",))

    assert git(repository.root, "for-each-ref") == before


def test_work_that_the_target_has_already_leaves_nothing_to_merge(
    repository: Repository, dropped: str
) -> None:
    assert dropped
    target = commit(repository.root, "the same by hand", new="work\n")
    tip = tip_of(repository, BRANCH)

    assert replayed(repository) == WorkReplayed(tip, target, target)


def test_a_branch_that_somebody_has_checked_out_elsewhere_is_refused(
    repository: Repository, dropped: str
) -> None:
    assert dropped
    (tree,) = worktrees(repository)
    git(tree.folder, "switch", "-q", "--detach")
    git(repository.root, "switch", "-q", BRANCH)

    with pytest.raises(RefusedError) as caught:
        replayed(repository)

    assert_refused(Refusal.CHECKOUT_BUSY, caught.value, repository.root, "switch to another branch")


def test_a_file_that_is_not_committed_is_left_in_the_worktree(
    repository: Repository, dropped: str
) -> None:
    assert dropped
    (tree,) = worktrees(repository)
    (tree.folder / "secret").write_text("changed since\n")

    assert isinstance(replayed(repository), WorkReplayed)

    assert (tree.folder / "secret").read_text() == "changed since\n"


def test_the_base_of_work_is_where_its_branch_leaves_the_target(repository: Repository) -> None:
    root = repository.root
    commit(root, "before", before="x\n")
    tree = a_task(repository, "t", new="work\n")
    began = {"base": tree.base, "target": "main"}
    assert base_of_work(repository, **began, commit=tip_of(repository, BRANCH)) == tree.base
    later = commit(root, "more", more="x\n")
    assert base_of_work(repository, **began, commit=tip_of(repository, BRANCH)) == tree.base

    git(tree.folder, "merge", "-q", "main")
    assert base_of_work(repository, **began, commit=tip_of(repository, BRANCH)) == later

    git(root, "reset", "-q", "--hard", f"{tree.base}~1")
    assert base_of_work(repository, **began, commit=tip_of(repository, BRANCH)) == tree.base
    gone = {"base": tree.base, "target": "gone"}
    assert base_of_work(repository, **gone, commit=tip_of(repository, BRANCH)) == tree.base
