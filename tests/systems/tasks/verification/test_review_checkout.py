"""A commit is verified in a checkout of its own, even if an earlier one was left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.git.worktree import add_worktree, worktrees
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.verification.review_checkout import review_checkout
from interlock.workers.config import Settings
from tests.git.scene import commit, git, make_repository, open_copy, tip_of, write

NAMES = ClaimNames("backlog/task", 1)


@pytest.mark.parametrize(
    "left", ["its folder and branch", "its branch", "the mark of its branch with another folder"]
)
def test_the_checkout_of_a_lost_verification_is_made_anew(tmp_path: Path, left: str) -> None:
    repository = open_copy(make_repository(tmp_path / "repository"))
    verified, settings = tip_of(repository), Settings(home=tmp_path / "home")

    async def verify() -> Path:
        async with review_checkout(repository, NAMES, verified, settings) as folder:
            assert git(folder, "rev-parse", "HEAD") == verified
            assert git(folder, "status", "--porcelain") == ""
            return folder

    folder = asyncio.run(verify())
    assert worktrees(repository) == ()
    branch = NAMES.review_branch(verified)
    only_mark = left.startswith("the mark")
    earlier = tmp_path / "another home" if only_mark else folder
    add_worktree(repository, branch=branch, folder=earlier, base=verified)
    commit(earlier, "by a test", a__txt="committed\n")
    write(earlier, b__txt="written\n", new__txt="new\n")
    if left != "its folder and branch":
        git(repository.root, "worktree", "remove", "--force", str(earlier))
    if only_mark:
        git(repository.root, "branch", "-D", branch)

    assert asyncio.run(verify()) == folder

    assert worktrees(repository) == ()
