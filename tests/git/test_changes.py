"""What a task changed, found and committed: every kind of change, under every kind of name."""

from __future__ import annotations

import pytest

from interlock.git.changes import changed_files, commit_all
from interlock.git.errors import Refusal, RefusedError
from interlock.git.repository import Identity, Repository
from interlock.git.worktree import Worktree, remove_worktree
from tests.git.scene import (
    AGENT,
    assert_refused,
    commit,
    git,
    shown,
    tip_of,
    user_files,
    write,
)


def keep(repository: Repository, tree: Worktree, message: str = "work") -> bool:
    return commit_all(repository, tree, message=message, identity=AGENT)


def refused(repository: Repository, tree: Worktree, base: str | None = None) -> RefusedError:
    before = git(repository.root, "for-each-ref", "refs/heads")
    with pytest.raises(RefusedError) as caught:
        changed_files(repository, tree, base=base) if base else keep(repository, tree)
    assert git(repository.root, "for-each-ref", "refs/heads") == before
    return caught.value


def test_an_untouched_worktree_has_no_changes(repository: Repository, tree: Worktree) -> None:
    write(tree.folder, a__txt="a\n", build__env="ignored\n")

    assert changed_files(repository, tree, base=tree.base) == ()
    assert not keep(repository, tree)


def test_every_kind_of_change_is_found_and_committed(
    repository: Repository, tree: Worktree
) -> None:
    commit(tree.folder, "by the agent", a__txt="committed\n")
    write(tree.folder, staged__txt="s\n")
    git(tree.folder, "add", "staged.txt")
    git(tree.folder, "mv", "b.txt", "renamed.txt")
    (tree.folder / "c.txt").unlink()
    write(tree.folder, untracked__txt="u\n", ignored__env="i\n")
    (tree.folder / "run").symlink_to("a.txt")
    expected = ("a.txt", "b.txt", "c.txt", "renamed.txt", "run", "staged.txt", "untracked.txt")

    assert changed_files(repository, tree, base=tree.base) == expected
    assert changed_files(repository, tree, base="main") == expected
    assert keep(repository, tree)

    assert changed_files(repository, tree, base=tree.base) == expected
    assert changed_files(repository, tree, base=tree.branch) == ()
    listing = git(repository.root, "ls-tree", "-r", "--name-only", tree.branch).split("\n")
    assert listing == [".gitignore", "a.txt", "renamed.txt", "run", "staged.txt", "untracked.txt"]


def test_a_mode_and_a_file_that_becomes_a_folder_are_changes(
    repository: Repository, tree: Worktree
) -> None:
    (tree.folder / "a.txt").chmod(0o755)
    (tree.folder / "b.txt").unlink()
    (tree.folder / "b.txt").mkdir()
    write(tree.folder / "b.txt", x="x\n")

    assert changed_files(repository, tree, base="main") == ("a.txt", "b.txt", "b.txt/x")
    assert keep(repository, tree)


def test_what_was_changed_and_changed_back_is_no_change(
    repository: Repository, tree: Worktree
) -> None:
    commit(tree.folder, "there", a__txt="x\n", new__txt="n\n")
    (tree.folder / "new.txt").unlink()
    commit(tree.folder, "and back", a__txt="a\n")

    assert changed_files(repository, tree, base=tree.base) == ()


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_staged_and_changed_back_leaves_nothing_to_commit(
    repository: Repository, tree: Worktree, *, committed: bool
) -> None:
    if committed:
        commit(tree.folder, "by the agent", b__txt="x\n")
    write(tree.folder, a__txt="x\n")
    git(tree.folder, "add", "a.txt")
    write(tree.folder, a__txt="a\n")

    assert not keep(repository, tree)


def test_names_of_every_kind_are_found_and_committed(
    repository: Repository, tree: Worktree
) -> None:
    names = ["-n", "--all", " x ", "a\nb", 'q"u', "ü\N{SNOWMAN}", "*?[x]", ":(top)", "\udcff.bin"]
    for name in names:
        (tree.folder / name).write_text("x")

    assert changed_files(repository, tree, base="main") == tuple(sorted(names))
    assert keep(repository, tree)
    assert changed_files(repository, tree, base="main") == tuple(sorted(names))
    assert git(tree.folder, "status", "--porcelain") == ""


def test_a_second_commit_finds_nothing_to_do(repository: Repository, tree: Worktree) -> None:
    write(tree.folder, a__txt="x\n")
    assert keep(repository, tree)
    made = tip_of(repository, tree.branch)

    assert not keep(repository, tree)
    assert tip_of(repository, tree.branch) == made


def test_a_commit_that_was_cut_off_after_adding_is_made(
    repository: Repository, tree: Worktree
) -> None:
    write(tree.folder, a__txt="x\n")
    git(tree.folder, "add", "-A")

    assert keep(repository, tree)
    assert shown(repository, "a.txt", tree.branch) == "x"


def test_a_commit_bears_the_name_it_is_given_and_any_message(
    repository: Repository, tree: Worktree
) -> None:
    write(tree.folder, a__txt="x\n")
    git(repository.root, "config", "commit.cleanup", "strip")

    keep(repository, tree, "#1 fix ü\n\n# not a comment\0\ud800")

    log = git(repository.root, "log", "-1", "--format=%an|%ae|%cn|%ce|%B", tree.branch)
    who = "Ann Agent|ann@example.org|Ann Agent|ann@example.org"
    assert log == f"{who}|#1 fix ü\n\n# not a comment\\ud800\n"


def test_an_empty_message_and_another_identity_will_do(
    repository: Repository, tree: Worktree
) -> None:
    write(tree.folder, a__txt="x\n")

    assert commit_all(repository, tree, message="", identity=Identity("ü", "x"))
    assert git(repository.root, "log", "-1", "--format=%an%ae%B", tree.branch) == "üx"


def test_the_locks_of_a_killed_git_on_a_worktree_of_ours_and_its_branch_are_taken_away(
    repository: Repository, tree: Worktree
) -> None:
    write(tree.folder, a__txt="x\n")
    admin = repository.common / "worktrees" / "t"
    for name in ("index.lock", "HEAD.lock"):
        (admin / name).write_text("")
    (repository.common / "refs" / "heads" / f"{tree.branch}.lock").write_text("")

    assert keep(repository, tree)
    assert not list(repository.common.glob("**/*.lock"))


@pytest.mark.parametrize("where", ["detached", "another branch"])
def test_work_that_an_agent_left_on_another_branch_is_not_committed(
    repository: Repository, tree: Worktree, where: str
) -> None:
    git(tree.folder, "switch", "-q", *(["--detach"] if where == "detached" else ["-c", "mine"]))
    write(tree.folder, a__txt="x\n")

    error = refused(repository, tree)

    assert_refused(Refusal.WRONG_BRANCH, error, tree.folder, tree.branch)


def test_conflicts_that_an_agent_left_are_not_committed(
    repository: Repository, tree: Worktree
) -> None:
    commit(repository.root, "main goes on", a__txt="theirs\n")
    commit(tree.folder, "work", a__txt="ours\n")
    git(tree.folder, "merge", "main", fails=True)

    assert_refused(Refusal.CONFLICTS_LEFT, refused(repository, tree), "a.txt", "resolve")


def test_a_merge_that_an_agent_resolved_is_committed_as_one(
    repository: Repository, tree: Worktree
) -> None:
    commit(repository.root, "main goes on", a__txt="theirs\n")
    commit(tree.folder, "work", a__txt="ours\n")
    git(tree.folder, "merge", "main", fails=True)
    write(tree.folder, a__txt="both\n")
    git(tree.folder, "add", "a.txt")

    assert keep(repository, tree)
    assert git(tree.folder, "rev-parse", "HEAD^2") == tip_of(repository)


@pytest.mark.parametrize("state", ["empty", "with a commit", "committed by the agent"])
def test_a_repository_inside_a_worktree_is_not_lost_in_a_commit(
    repository: Repository, tree: Worktree, state: str
) -> None:
    git(tree.folder, "init", "-q", "sub")
    write(tree.folder / "sub", x__txt="x\n")
    if state != "empty":
        commit(tree.folder / "sub", "inside")
    if state == "committed by the agent":
        commit(tree.folder, "all of it")

    assert_refused(Refusal.EMBEDDED_REPOSITORY, refused(repository, tree), "sub", "submodule")


def test_a_submodule_may_be_added(repository: Repository, tree: Worktree) -> None:
    other = repository.root.parent / "other"
    git(repository.root.parent, "init", "-q", "other")
    commit(other, "inside", x__txt="x\n")
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    git(tree.folder, *add)

    assert keep(repository, tree)
    assert changed_files(repository, tree, base="main") == (".gitmodules", "sub")

    write(tree.folder / "sub", x__txt="changed inside\n")
    assert changed_files(repository, tree, base=tree.branch) == ("sub",)


@pytest.mark.parametrize("gone", ["folder", "worktree", "moved, with a link to it"])
def test_a_worktree_that_is_gone_is_said_to_be(
    repository: Repository, tree: Worktree, gone: str
) -> None:
    if gone.startswith("moved"):
        tree.folder.symlink_to(tree.folder.rename(tree.folder.with_name("elsewhere")))
    else:
        remove_worktree(repository, tree.folder, force=True)
    if gone == "worktree":
        tree.folder.mkdir()

    assert_refused(Refusal.FOLDER_MISSING, refused(repository, tree), tree.folder)
    assert_refused(Refusal.FOLDER_MISSING, refused(repository, tree, "main"), tree.folder)


def test_whatever_the_worktree_says_about_git_the_task_is_looked_at(
    repository: Repository, tree: Worktree
) -> None:
    """Without its pointer, git would look for a repository in the folders above."""
    git(repository.root.parent, "init", "-q")
    (tree.folder / ".git").unlink()
    write(tree.folder, a__txt="x\n")
    before = user_files(repository.root)

    assert changed_files(repository, tree, base="main") == ("a.txt",)
    assert keep(repository, tree)
    assert shown(repository, "a.txt", tree.branch) == "x"
    assert user_files(repository.root) == before


def test_a_base_that_is_not_there_is_refused(repository: Repository, tree: Worktree) -> None:
    assert_refused(Refusal.BRANCH_MISSING, refused(repository, tree, "nowhere"), "'nowhere'")
