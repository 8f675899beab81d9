"""What a stopped agent leaves in its worktree is on its branch before the worktree is removed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.kernel.event import Note
from tests.git.scene import commit, git, make_repository, write
from tests.systems.loops.lives import InProcessAgents

BRANCH = "interlock/agents/owl"


@dataclass
class Stopped:
    """An agent whose worktree is not cleaned up yet."""

    agents: InProcessAgents
    repository: Path
    tree: Path

    def clean_up(self) -> list[str]:
        """Clean up, and return the reasons why the worktree stays."""
        self.agents.worker.client.fire("owl/1", "operator_stop", {"reason": "the test is over"})
        self.agents.worker.perform("owl/1", "agent_cleanup")
        lines = self.agents.worker.client.history("owl/1")
        notes = [line for line in lines if isinstance(line, Note) and line.kind == "worktree_kept"]
        return [str(note.detail["reason"]) for note in notes]


@pytest.fixture
def stopped(agents: InProcessAgents, tmp_path: Path) -> Stopped:
    repository = make_repository(tmp_path / "repository")
    agents.create("owl/1", repo=str(repository), base="main")
    agents.worker.perform("owl/1", "worktree")
    return Stopped(agents, repository, Path(agents.record("owl/1").data["worktree"]))


def test_uncommitted_changes_are_committed_and_the_worktree_is_removed(stopped: Stopped) -> None:
    write(stopped.tree, a__txt="an hour of work\n")

    assert stopped.clean_up() == []

    assert not stopped.tree.exists()
    assert git(stopped.repository, "show", f"{BRANCH}:a.txt") == "an hour of work"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("detached", "on no branch"),
        ("repository", "'vendor/'"),
        ("patches", "`git am`"),
        ("pick", "commits that are on no branch"),
    ],
)
def test_a_worktree_with_work_that_is_not_on_the_branch_stays(
    stopped: Stopped, what: str, why: str
) -> None:
    if what == "detached":
        git(stopped.tree, "switch", "-q", "--detach")
        commit(stopped.tree, "work", a__txt="an hour of work\n")
    elif what == "repository":
        git(stopped.tree, "init", "-q", "vendor")
        commit(stopped.tree / "vendor", "inside", x__txt="x\n")
    elif what == "patches":
        commit(stopped.tree, "one", a__txt="1\n")
        patch = stopped.tree.parent / "patch"
        patch.write_text(git(stopped.tree, "format-patch", "-1", "--stdout") + "\n")
        git(stopped.tree, "reset", "-q", "--hard", "HEAD~1")
        commit(stopped.tree, "in the way", a__txt="2\n")
        git(stopped.tree, "am", str(patch), fails=True)
    else:  # a commit that only a pick under way needs
        git(stopped.tree, "switch", "-q", "--detach")
        picked = commit(stopped.tree, "picked", a__txt="one\n")
        git(stopped.tree, "switch", "-q", BRANCH)
        commit(stopped.tree, "in the way", a__txt="two\n")
        git(stopped.tree, "cherry-pick", picked, fails=True)
        git(stopped.tree, "checkout", "-q", "--ours", "a.txt")
        git(stopped.tree, "add", "a.txt")

    (reason,) = stopped.clean_up()
    assert why in reason
    assert stopped.tree.is_dir()


def test_a_removal_that_was_cut_off_goes_on_and_commits_nothing(stopped: Stopped) -> None:
    (stopped.tree / "a.txt").unlink()
    (admin,) = (stopped.repository / ".git" / "worktrees").iterdir()
    (admin / "interlock-removing").touch()

    assert stopped.clean_up() == []

    assert not stopped.tree.exists()
    assert git(stopped.repository, "show", f"{BRANCH}:a.txt") == "a"


@pytest.mark.parametrize("by", ["the cleanup", "the next life"])
def test_commits_of_a_worktree_that_somebody_has_deleted_come_to_the_branch(
    stopped: Stopped, by: str
) -> None:
    git(stopped.tree, "switch", "-q", "--detach")
    work = commit(stopped.tree, "work", a__txt="an hour of work\n")
    if by == "the cleanup":
        shutil.rmtree(stopped.tree)
        assert stopped.clean_up() == []
        assert git(stopped.repository, "worktree", "list").count("\n") == 0
    else:
        stopped.clean_up()
        shutil.rmtree(stopped.tree)
        stopped.agents.create("owl/2", repo=str(stopped.repository), base="main")
        stopped.agents.worker.perform("owl/2", "worktree")
        assert git(stopped.tree, "rev-parse", "HEAD") == work

    assert git(stopped.repository, "rev-parse", BRANCH) == work
