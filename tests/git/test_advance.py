"""A git that dies while it moves the user's checkout: what it began is put back, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git.errors import (
    FailedError,
    LockedError,
    Refusal,
    RefusedError,
    TimedOutError,
)
from interlock.git.merge import BranchMerged, MergeOutcome, merge
from interlock.git.repository import Repository
from tests.git.scene import (
    AGENT,
    a_branch,
    assert_refused,
    git,
    in_main,
    locks,
    tip_of,
    user_files,
    write,
)

BRANCH = "interlock/t"


def merged(repository: Repository) -> MergeOutcome:
    return merge(
        repository, branch=BRANCH, target="main", message="m", identity=AGENT, verified=None
    )


@pytest.fixture
def ready(repository: Repository) -> Repository:
    """A task that changes, adds and deletes, each before and after the file s.txt."""
    new = {"a__txt": "x\n", "new__txt": "n\n", "s__txt": "s\n", "z__txt": "z\n"}
    a_branch(repository, "t", **new, c__txt=None)
    write(repository.root, untracked__txt="u\n", secret__env="s\n")
    return repository


def at_s(repository: Repository, lines: str) -> None:
    """Run lines of shell while git writes s.txt to the user's checkout."""
    (repository.root / ".git/info/attributes").write_text("s.txt filter=slow\n")
    git(repository.root, "config", "filter.slow.smudge", f"{lines}; cat")
    git(repository.root, "config", "filter.slow.clean", "cat")
    git(repository.root, "config", "filter.slow.required", "true")


def files(root: Path) -> dict[str, bytes]:
    """Return everything but the index, which git may refresh."""
    return {name: data for name, data in user_files(root).items() if name != ".git/index"}


def stopped_half_way(repository: Repository, *, index: bool) -> None:
    """Do by hand what git does, and stop before the index, or before the branch."""
    root = repository.root
    person = ("-c", "user.name=u", "-c", "user.email=u")
    tree = git(root, "merge-tree", "--write-tree", "main", BRANCH)
    new = git(root, *person, "commit-tree", "-p", "main", "-p", BRANCH, "-m", "m", tree)
    git(root, "update-ref", "refs/interlock/merging/main", new)
    before = (root / ".git/index").read_bytes()
    git(root, "read-tree", "-m", "-u", "main", new)
    if not index:
        (root / ".git/index").write_bytes(before)


def test_a_merge_that_hangs_is_ended_and_put_back(
    ready: Repository, tmp_path: Path, hangs_from: Callable[[Path], Path]
) -> None:
    before, old, begun = files(ready.root), tip_of(ready), hangs_from(tmp_path / "begun")
    at_s(ready, f"touch {begun}; sleep 1000")

    with pytest.raises(TimedOutError):
        merged(Repository.open(ready.root, command_s=0.1))

    assert files(ready.root) == before
    assert tip_of(ready) == old
    assert locks(ready.root) == []
    assert git(ready.root, "status", "--porcelain") == "?? untracked.txt"
    at_s(ready, "true")
    assert merged(ready) == BranchMerged(tip_of(ready))


def test_a_merge_that_fails_half_way_is_put_back(ready: Repository) -> None:
    before, old = files(ready.root), tip_of(ready)
    at_s(ready, "exit 1")

    with pytest.raises(RefusedError) as caught:
        merged(ready)

    assert_refused(Refusal.CHECKOUT_BUSY, caught.value, "s.txt", ready.root)
    assert files(ready.root) == before
    assert tip_of(ready) == old
    at_s(ready, "true")
    assert merged(ready) == BranchMerged(tip_of(ready))


def test_after_a_killed_git_the_lock_is_named_and_then_the_merge_comes_through(
    ready: Repository,
) -> None:
    at_s(ready, "kill -9 0")
    with pytest.raises((LockedError, FailedError)):
        merged(ready)
    assert git(ready.root, "status", "--porcelain") != "?? untracked.txt", "it is half-way"
    at_s(ready, "true")

    with pytest.raises(LockedError) as caught:
        merged(ready)
    assert caught.value.lock == ready.root / ".git/index.lock"
    caught.value.lock.unlink()

    assert merged(ready) == BranchMerged(tip_of(ready))
    assert git(ready.root, "status", "--porcelain") == "?? untracked.txt"
    assert (ready.root / "s.txt").read_text() == "s\n"


@pytest.mark.parametrize("index", [True, False])
def test_a_merge_that_was_cut_off_is_put_back_and_done(ready: Repository, *, index: bool) -> None:
    stopped_half_way(ready, index=index)

    assert merged(ready) == BranchMerged(tip_of(ready))

    assert git(ready.root, "status", "--porcelain") == "?? untracked.txt"
    assert git(ready.root, "log", "--format=%s", "-1") == "m"
    assert git(ready.root, "for-each-ref", "refs/interlock/merging") == ""


@pytest.mark.parametrize("index", [True, False])
def test_a_merge_that_was_cut_off_and_is_not_wanted_any_more_is_put_back(
    ready: Repository, *, index: bool
) -> None:
    before, old = files(ready.root), tip_of(ready)
    stopped_half_way(ready, index=index)
    git(ready.root, "update-ref", f"refs/heads/{BRANCH}", old)

    merged(ready)

    assert files(ready.root) == before
    assert tip_of(ready) == old


@pytest.mark.parametrize(
    ("path", "index"),
    [("a.txt", True), ("b.txt", False), ("c.txt", True), ("c.txt", False)],
)
def test_work_on_top_of_what_was_cut_off_is_not_touched(
    ready: Repository, path: str, *, index: bool
) -> None:
    stopped_half_way(ready, index=index)
    (ready.root / path).write_text("the user's own\n")
    before = user_files(ready.root)

    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            merged(ready)
        assert_refused(Refusal.DIRTY, caught.value, path, ready.root)
        assert user_files(ready.root) == before

    git(ready.root, "stash", "-q", "-u")
    assert merged(ready) == BranchMerged(tip_of(ready))


def test_what_the_user_committed_of_it_stays_committed(ready: Repository) -> None:
    stopped_half_way(ready, index=True)
    git(ready.root, "commit", "-q", "-m", "mine")

    assert merged(ready) == BranchMerged(tip_of(ready))

    assert git(ready.root, "log", "--format=%s", "--first-parent", "-2") == "m\nmine"
    assert git(ready.root, "status", "--porcelain") == "?? untracked.txt"


def test_a_merge_cut_off_after_the_branch_moved_is_found_merged(ready: Repository) -> None:
    stopped_half_way(ready, index=True)
    new = git(ready.root, "rev-parse", "refs/interlock/merging/main")
    git(ready.root, "update-ref", "refs/heads/main", new)

    merged(ready)

    assert tip_of(ready) == new
    assert in_main(ready, BRANCH)
    assert git(ready.root, "for-each-ref", "refs/interlock/merging") == ""


def test_what_was_cut_off_in_a_checkout_that_is_gone_holds_nothing_up(ready: Repository) -> None:
    stopped_half_way(ready, index=True)
    git(ready.root, "reset", "-q", "--hard")
    git(ready.root, "switch", "-q", "-c", "users")

    assert merged(ready) == BranchMerged(tip_of(ready))
