"""Submodules: there for agents and verifications, fetched as the user allows, never changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interlock.git import submodules
from interlock.git.admission import admit
from interlock.git.changes import commit_all
from interlock.git.errors import FailedError, Refusal, RefusedError
from interlock.git.repository import Repository
from interlock.git.worktree import (
    Worktree,
    add_worktree,
    admin_of,
    remove_worktree,
    worktrees,
)
from interlock.workers.processes.sandbox import Sandbox
from tests.git.scene import (
    AGENT,
    a_task,
    assert_refused,
    commit,
    git,
    make_repository,
    tip_of,
)

# What a user does who trusts a folder on this computer.
FROM_FOLDERS = ("-c", "protocol.file.allow=always")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "library")


@pytest.fixture
def using(repository: Repository, library: Path) -> Repository:
    """Return a repository with the library as a submodule, which its user has checked out."""
    git(
        repository.root,
        *FROM_FOLDERS,
        "submodule",
        "add",
        "-q",
        "--name",
        "a=b",
        str(library),
        "lib",
    )
    commit(repository.root, "with a library")
    return repository


def cloned(repository: Repository) -> Repository:
    """Return a fresh clone, whose user has not checked out the submodule."""
    folder = repository.root.with_name("cloned")
    git(repository.root, "clone", "-q", str(repository.root), str(folder))
    return Repository.open(folder)


def configuration(repository: Repository) -> str:
    return (repository.common / "config").read_text()


def add(repository: Repository, name: str = "t") -> Worktree:
    folder = repository.root.parent / "trees" / name
    return add_worktree(repository, branch=f"interlock/{name}", folder=folder, base="main")


def commits_all(repository: Repository, tree: Worktree) -> bool:
    return commit_all(repository, tree, message="work", identity=AGENT)


def refused(repository: Repository, tree: Worktree) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        commits_all(repository, tree)
    return caught.value


def test_a_worktree_has_the_recorded_commit_also_where_the_remote_is_gone(
    using: Repository, library: Path
) -> None:
    recorded = git(using.root, "rev-parse", "main:lib")
    commit(library, "later", a__txt="later\n")
    library.rename(library.with_name("gone"))
    before = configuration(using)

    tree = add(using)

    inside = tree.folder / "lib"
    assert git(inside, "rev-parse", "HEAD") == recorded
    assert (inside / "a.txt").read_text() == "a\n"
    assert git(inside, "remote", "get-url", "origin") == str(library)
    assert git(tree.folder, "status", "--porcelain") == ""
    assert configuration(using) == before
    assert not commits_all(using, tree)
    assert not (admin_of(using, tree.folder) / "locked").exists()
    assert remove_worktree(using, tree.folder, force=False)


def test_a_submodule_inside_of_a_submodule_is_there_too(
    repository: Repository, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middle = make_repository(tmp_path / "middle")
    git(middle, *FROM_FOLDERS, "submodule", "add", "-q", str(library), "deep/er")
    commit(middle, "with a library")
    git(repository.root, *FROM_FOLDERS, "submodule", "add", "-q", str(middle), "mid")
    git(repository.root, *FROM_FOLDERS, "submodule", "update", "-q", "--init", "--recursive")
    commit(repository.root, "with both")

    assert (add(repository).folder / "mid" / "deep" / "er" / "a.txt").read_text() == "a\n"

    monkeypatch.setattr(submodules, "DEPTH_MAX", 1)
    with pytest.raises(RefusedError) as caught:
        add(repository, "another")
    assert_refused(Refusal.SUBMODULE, caught.value, "1 deep", "deep/er.update to none")


def test_what_the_user_has_not_checked_out_is_fetched_as_far_as_the_user_allows(
    using: Repository, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = cloned(using)
    before = configuration(fresh)

    with pytest.raises(RefusedError) as caught:
        add(fresh)

    assert_refused(Refusal.SUBMODULE, caught.value, "'lib'", "submodule update --init lib")
    for key, value in {"KEY_0": "protocol.file.allow", "VALUE_0": "always", "COUNT": "1"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    # What the first try has left is not taken for a complete worktree.
    assert (add(fresh).folder / "lib" / "a.txt").read_text() == "a\n"
    assert configuration(fresh) == before
    assert library.is_dir()


def test_a_remote_that_does_not_answer_is_told(using: Repository) -> None:
    fresh = cloned(using)
    git(fresh.root, "config", "submodule.a=b.url", "https://127.0.0.1:9/nobody.git")

    with pytest.raises(FailedError, match=r"git submodule update of 'lib' failed.*127\.0\.0\.1"):
        add(fresh)

    assert [tree.branch for tree in worktrees(fresh)] == ["interlock/t"]


@pytest.mark.parametrize("setting", ["submodule.a=b.update=none", "submodule.a=b.active=false"])
def test_a_submodule_that_the_user_leaves_out_is_left_out(using: Repository, setting: str) -> None:
    name, _, value = setting.rpartition("=")
    git(using.root, "config", name, value)

    assert list((add(using).folder / "lib").iterdir()) == []


def test_the_name_of_a_submodule_leads_to_no_other_repository(
    repository: Repository, tmp_path: Path
) -> None:
    """Its `.gitmodules` may be a stranger's: git may not copy what that names."""
    secret = make_repository(tmp_path / "secret")
    link = f"160000,{tip_of(Repository.open(secret))},lib"
    modules = f'[submodule "../../../secret/.git"]\npath = lib\nurl = {secret}\n'
    (repository.root / ".gitmodules").write_text(modules)
    git(repository.root, "add", ".gitmodules")
    git(repository.root, "update-index", "--add", "--cacheinfo", link)
    git(repository.root, "commit", "-qm", "evil")

    with pytest.raises(RefusedError, match="leads out of git's own folder"):
        add(repository)

    assert not (tmp_path / "trees" / "t" / "lib" / "a.txt").exists()


@pytest.mark.parametrize("name", ["{evil}", "../../../../evil", "x/../../../../../evil", "."])
def test_the_name_of_a_submodule_lets_git_run_nothing_of_another_folder(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    """Git would fetch a commit that a partial clone lacks, by the program that the clone names."""
    evil, escaped = tmp_path / "evil", tmp_path / "escaped"
    git(tmp_path, "init", "-q", "--bare", str(evil))
    for setting, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(evil),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": f"touch {escaped}; false",
    }.items():
        git(evil, "config", setting, value)
    name = name.format(evil=evil)
    modules = repository.root / ".gitmodules"
    git(repository.root, "config", "-f", str(modules), f"submodule.{name}.path", "m")
    git(
        repository.root,
        "config",
        "-f",
        str(modules),
        f"submodule.{name}.url",
        "https://localhost:1",
    )
    link = f"160000,{'1' * 40},m"
    git(repository.root, "update-index", "--add", "--cacheinfo", link)
    git(repository.root, "add", ".gitmodules")
    git(repository.root, "commit", "-qm", "with a submodule")

    with pytest.raises(RefusedError) as caught:
        add(repository)

    assert_refused(Refusal.SUBMODULE, caught.value, repr(name), "leads out of git's own folder")
    assert not escaped.exists()
    with pytest.raises(RefusedError, match="leads out"):
        submodules.refuse_own_commits(repository.git, tmp_path / "m", {"m": "1" * 40})


def test_submodules_are_checked_out_in_the_sandbox(using: Repository, tmp_path: Path) -> None:
    """An agent may have named them, and their files choose among the filters of the user."""
    library, escaped = tmp_path / "library", tmp_path / "escaped"
    commit(library, "filtered", __gitattributes="* filter=user\n", filtered="1\n")
    git(using.root / "lib", "pull", "-q")
    commit(using.root, "a later library")
    git(using.root, "config", "--global", "filter.user.smudge", f"touch {escaped}; cat")
    config = configuration(using)

    tree = add(replace(using, sandbox=Sandbox(hidden=())))

    assert (tree.folder / "lib" / "filtered").read_text() == "1\n"
    assert not escaped.exists()
    assert configuration(using) == config
    assert git(tree.folder, "submodule", "status").startswith(" ")


@pytest.mark.parametrize(("file", "ignore"), [("a.txt", "dirty"), ("new.txt", "untracked")])
def test_changed_files_of_a_submodule_are_not_lost_in_silence(
    using: Repository, file: str, ignore: str
) -> None:
    tree = add(using)
    (tree.folder / "lib" / file).write_text("by an agent\n")
    (tree.folder / "mine.txt").write_text("mine\n")

    assert_refused(Refusal.SUBMODULE, refused(using, tree), "changed files", "'lib'", ignore)

    git(using.root, "config", "submodule.a=b.ignore", ignore)
    assert commits_all(using, tree)
    assert git(using.root, "show", f"{tree.branch}:mine.txt") == "mine"


def test_a_commit_that_only_the_worktree_has_is_not_recorded(
    using: Repository, library: Path
) -> None:
    tree = add(using)
    inside = tree.folder / "lib"
    commit(inside, "an agent's", a__txt="by an agent\n")
    assert_refused(Refusal.SUBMODULE, refused(using, tree), "commits of its own", "'lib'")
    git(tree.folder, "commit", "-qam", "record it")
    assert_refused(Refusal.SUBMODULE, refused(using, tree), "commits of its own", "'lib'")

    published = commit(library, "published", a__txt="published\n")
    git(inside, "fetch", "-q")
    git(inside, "checkout", "-q", published)

    assert commits_all(using, tree)
    assert git(using.root, "rev-parse", f"{tree.branch}:lib").startswith(published)


def test_a_submodule_of_the_user_that_a_merge_has_moved_is_told(using: Repository) -> None:
    commit(using.root / "lib", "another", a__txt="another\n")

    with pytest.raises(RefusedError) as caught:
        admit(using, target=None, branch="interlock/t", paths=())

    assert_refused(Refusal.DIRTY, caught.value, "'lib'", "run git submodule update there")


def test_an_agent_may_add_a_submodule(repository: Repository, library: Path) -> None:
    tree = a_task(repository, "t")
    git(tree.folder, *FROM_FOLDERS, "submodule", "add", "-q", str(library), "lib")

    assert commits_all(repository, tree)

    assert git(repository.root, "ls-tree", tree.branch, "lib").startswith("160000 commit")
