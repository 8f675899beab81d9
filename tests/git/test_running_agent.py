"""The commits of an agent that works on in its sandbox, as the repository has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.git.branch import head
from interlock.git.errors import GitError
from interlock.git.private_copy import bring_commits, bring_in
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree
from interlock.workers.processes.sandbox import Sandbox
from tests.git.scene import a_task, commit, git
from tests.git.test_private_copy import runs


@pytest.fixture
def repository(repository: Repository) -> Repository:
    return replace(repository, sandbox=Sandbox(hidden=()))


def subjects(repository: Repository, tree: Worktree, count: int) -> list[str]:
    return git(repository.root, "log", "--format=%s", f"-{count}", tree.branch).split("\n")


def test_what_a_running_agent_commits_later_follows_what_was_brought_in_before(
    repository: Repository, tree: Worktree
) -> None:
    bring_commits(repository, tree)
    runs(repository, tree, "echo 1 > one; git add one; git commit -qm one; echo 2 > two")
    bring_commits(repository, tree)
    assert subjects(repository, tree, 1) == ["one"]
    assert git(tree.folder, "status", "--porcelain", "two") == "?? two"

    said = runs(repository, tree, "git status --porcelain; git add two; git commit -qm two")
    assert said == "?? two"
    bring_commits(repository, tree)
    assert subjects(repository, tree, 2) == ["two", "one"]

    # What was brought in is amended, so that the branch goes back.
    runs(repository, tree, "git commit -q --amend -m again")
    bring_in(repository, tree)
    assert subjects(repository, tree, 2) == ["again", "one"]
    git(repository.root, "fsck", "--strict")


@pytest.mark.parametrize("commits", [1, 40], ids=["few objects", "many objects"])
def test_each_object_of_the_commits_is_brought_in(
    repository: Repository, tree: Worktree, commits: int
) -> None:
    one = "echo $i > f$i; git add f$i; git commit -qm $i"
    runs(repository, tree, f"for i in $(seq {commits}); do {one}; done")

    bring_commits(repository, tree)

    assert subjects(repository, tree, 1) == [str(commits)]
    git(repository.root, "fsck", "--strict")
    assert git(repository.root, "rev-list", "--objects", "--count", tree.branch)


def test_an_agent_sees_what_another_has_committed_since_its_last_session(
    repository: Repository, tree: Worktree
) -> None:
    other = a_task(repository, "other")
    for subject in ("first", "second", "third"):
        # The copy of the one is made, and the other one commits before it is taken over.
        runs(repository, tree, f"git merge -q {other.branch}")
        runs(repository, other, f"git commit -q --allow-empty -m {subject}")
        bring_commits(repository, other)
        bring_in(repository, tree)

        seen = runs(repository, tree, f"git log -1 --format=%s {other.branch}")
        assert seen == subject
        bring_in(repository, tree)


def test_a_branch_that_somebody_else_has_moved_stays_where_it_is(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "git commit -q --allow-empty -m inside")
    moved = commit(repository.root, "outside")
    git(repository.root, "update-ref", f"refs/heads/{tree.branch}", moved)

    with pytest.raises(GitError):
        bring_commits(repository, tree)

    assert head(repository, tree.branch) == moved


def test_nothing_is_brought_in_where_no_agent_works_or_no_sandbox_is(
    repository: Repository, tree: Worktree
) -> None:
    before = head(repository, tree.branch)
    bring_commits(repository, tree)
    bring_commits(replace(repository, sandbox=None), tree)
    assert head(repository, tree.branch) == before
