"""Git LFS without its hooks: real files in worktrees, objects at the remote before the branch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.git.admission import admit
from interlock.git.errors import FailedError, Refusal, RefusedError
from interlock.git.merge import BranchMerged, merge
from interlock.git.remote import push
from interlock.git.repository import Repository
from tests.git.scene import AGENT, a_task, assert_refused, commit, git, tip_of

ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
CONTENT = "not a pointer, but what the user has drawn\n"


@pytest.fixture
def lfs(root: Path) -> Repository:
    """Return a repository that keeps one file in Git LFS."""
    git(root, "lfs", "install", "--skip-repo")
    commit(root, "lfs", __gitattributes=ATTRIBUTES, first__bin=CONTENT)
    return Repository.open(root)


@pytest.fixture
def remote(lfs: Repository) -> Path:
    folder = lfs.root.parent / "remote.git"
    git(lfs.root, "init", "-q", "--bare", "-b", "main", str(folder))
    git(lfs.root, "remote", "add", "origin", f"file://{folder}")
    return folder


def clone(remote: Path) -> Path:
    """Return a fresh clone with real files; it fails if an object is not there."""
    folder = remote.with_name("clone")
    git(remote.parent, "clone", "-q", f"file://{remote}", str(folder))
    return folder


def objects(remote: Path) -> int:
    return len([file for file in (remote / "lfs").rglob("*") if file.is_file()])


def admits(repository: Repository) -> None:
    admit(repository, target=None, branch="interlock/t", paths=())


def test_an_agent_finds_the_file_and_its_own_is_at_the_remote_before_the_branch(
    lfs: Repository, remote: Path
) -> None:
    tree = a_task(lfs, "t", second__bin="by an agent\n")
    assert (tree.folder / "first.bin").read_text() == CONTENT
    assert git(lfs.root, "show", f"{tree.branch}:second.bin").startswith("version https://git-lfs")
    merged = merge(
        lfs, branch=tree.branch, target="main", message="m", identity=AGENT, verified=None
    )
    assert isinstance(merged, BranchMerged)

    push(lfs, branch="main", remote="origin")

    cloned = clone(remote)
    assert (cloned / "first.bin").read_text() == CONTENT
    assert (cloned / "second.bin").read_text() == "by an agent\n"
    assert (lfs.root / "second.bin").read_text() == "by an agent\n"


def test_objects_of_a_branch_that_was_pushed_without_them_follow(
    lfs: Repository, remote: Path
) -> None:
    git(lfs.root, "push", "-q", "--no-verify", "origin", "main")
    assert objects(remote) == 0

    push(lfs, branch="main", remote="origin")
    assert objects(remote) == 1

    commit(lfs.root, "second", second__bin="more\n")
    push(lfs, branch="main", remote="origin")
    assert (clone(remote) / "second.bin").read_text() == "more\n"


def test_a_branch_whose_objects_are_nowhere_is_not_pushed(lfs: Repository, remote: Path) -> None:
    before = commit(lfs.root, "old", first__bin="an object that is lost\n")
    lost = git(lfs.root, "show", f"{before}:first.bin").split("sha256:")[1].split()[0]
    (lfs.common / "lfs" / "objects" / lost[:2] / lost[2:4] / lost).unlink()

    with pytest.raises(RefusedError) as caught:
        push(lfs, branch="main", remote="origin")

    assert_refused(Refusal.OBJECTS_MISSING, caught.value, "first.bin", "git lfs fetch --all")
    assert git(remote, "for-each-ref") == ""


def test_an_object_that_only_earlier_commits_of_the_remote_lack_holds_nothing_back(
    lfs: Repository, remote: Path
) -> None:
    git(lfs.root, "push", "-q", "--no-verify", "origin", "main")
    commit(lfs.root, "second", first__bin="what is there\n")
    for file in (lfs.common / "lfs" / "objects").rglob("*"):
        if file.is_file() and file.read_text() == CONTENT:
            file.unlink()

    push(lfs, branch="main", remote="origin")

    assert (clone(remote) / "first.bin").read_text() == "what is there\n"


def test_a_remote_that_takes_no_objects_gets_no_branch(lfs: Repository, remote: Path) -> None:
    git(lfs.root, "config", "lfs.url", "https://127.0.0.1:9/nobody")

    with pytest.raises(FailedError, match="lfs push failed"):
        push(lfs, branch="main", remote="origin")

    assert git(remote, "for-each-ref") == ""


def test_a_computer_without_git_lfs_is_told_at_once_and_pushes_nothing(
    lfs: Repository, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admits(lfs)
    without = tmp_path / "programs"
    without.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.glob("*"):
            if program.name != "git-lfs" and not (without / program.name).exists():
                (without / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(without))

    with pytest.raises(RefusedError) as caught:
        admits(lfs)
    assert_refused(Refusal.FILTER_MISSING, caught.value, "Git LFS", "install git-lfs")
    with pytest.raises(RefusedError) as caught:
        push(lfs, branch="main", remote="origin")
    assert_refused(Refusal.FILTER_MISSING, caught.value, "push again")
    assert git(remote, "for-each-ref") == ""


def test_git_lfs_that_is_not_set_up_is_refused(lfs: Repository) -> None:
    git(lfs.root, "lfs", "uninstall", "--skip-repo")

    with pytest.raises(RefusedError) as caught:
        admits(lfs)

    assert_refused(Refusal.FILTER_MISSING, caught.value, "not set up", "git lfs install")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"smudge": "no-such-program %f"},
        {"smudge": "no-such-program %f", "required": "true"},
        {"process": "no-such-program", "required": "yes"},
        {"smudge": "cat", "clean": "cat", "required": "true"},
    ],
)
def test_a_filter_that_git_needs_and_does_not_find_is_refused(
    root: Path, settings: dict[str, str]
) -> None:
    (root / "deep").mkdir()
    (root / "deep" / ".gitattributes").write_text("# filter=none\n*.key  diff=x filter=crypt\n")
    commit(root, "crypt")
    for name, value in settings.items():
        git(root, "config", f"filter.crypt.{name}", value)
    repository = Repository.open(root)

    if "required" not in settings or "clean" in settings:
        admits(repository)
        return
    with pytest.raises(RefusedError) as caught:
        admits(repository)
    assert_refused(Refusal.FILTER_MISSING, caught.value, "'crypt'", "no-such-program")
    assert tip_of(repository)
