"""What is refused before anything is written, each with one sentence that says what to do."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git.admission import Admitted, admit
from interlock.git.branch import head
from interlock.git.errors import FailedError, Refusal, RefusedError
from interlock.git.repository import Identity, Repository
from tests.git.scene import assert_refused, commit, git, tip_of, user_files, write

BRANCH = "interlock/backlog/task-1"


def refused(path: Path) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        Repository.open(path)
    return caught.value


def not_admitted(repository: Repository, **changes: object) -> RefusedError:
    given = {"target": None, "branch": BRANCH, "paths": ()} | changes
    before = user_files(repository.root)
    with pytest.raises(RefusedError) as caught:
        admit(repository, **given)  # type: ignore[arg-type]
    assert user_files(repository.root) == before
    return caught.value


def test_a_fit_repository_gives_target_and_base(repository: Repository) -> None:
    main = tip_of(repository)
    git(repository.root, "branch", "release")

    assert admit(repository, target=None, branch=BRANCH, paths=["a.txt"]) == Admitted("main", main)
    assert admit(repository, target="release", branch=BRANCH, paths=()).target == "release"


def test_untracked_files_are_no_reason_to_refuse(repository: Repository) -> None:
    write(repository.root, scratch__txt="x\n", local__env="x\n")

    assert admit(repository, target=None, branch=BRANCH, paths=()).target == "main"


def test_a_file_that_was_only_touched_is_not_a_change(repository: Repository) -> None:
    os.utime(repository.root / "a.txt", (1, 1))
    index = repository.root / ".git/index"
    before = index.read_bytes()

    assert admit(repository, target=None, branch=BRANCH, paths=())
    assert index.read_bytes() == before


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()

    assert_refused(Refusal.NOT_A_REPOSITORY, refused(folder), folder, "git init")


@pytest.mark.parametrize(
    ("path", "why"), [("missing", "does not exist"), ("repository/a.txt", "not an absolute")]
)
def test_what_is_no_folder_is_refused(root: Path, path: str, why: str) -> None:
    assert_refused(Refusal.NOT_A_REPOSITORY, refused(root.parent / path), path, why)


def test_a_relative_path_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)

    assert_refused(Refusal.NOT_A_REPOSITORY, refused(Path(root.name)), "'repository'")


def test_a_folder_inside_a_repository_is_refused_and_the_top_named(root: Path) -> None:
    (root / "sub").mkdir()

    assert_refused(Refusal.NOT_A_REPOSITORY, refused(root / "sub"), f"its top folder, {root}")


def test_a_bare_repository_and_the_folder_of_git_are_refused(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")

    assert_refused(Refusal.BARE, refused(tmp_path / "bare"), "no working tree")
    assert_refused(Refusal.BARE, refused(root / ".git"), "no working tree")


def test_git_is_asked_about_a_repository_once(
    root: Path, instead_of_git: Callable[[str], Path]
) -> None:
    opened = Repository.open(root)
    instead_of_git('case " $* " in *" rev-parse "*) exit 1;; esac')

    assert Repository.open(root) == opened


def test_a_repository_that_has_changed_since_it_was_opened_is_refused(root: Path) -> None:
    Repository.open(root)
    git(root, "config", "core.bare", "true")

    assert_refused(Refusal.BARE, refused(root), "no working tree")

    git(root, "config", "core.bare", "false")
    Repository.open(root)
    shutil.rmtree(root / ".git")

    assert_refused(Refusal.NOT_A_REPOSITORY, refused(root), root, "git init")


@pytest.mark.parametrize("name", ["config", "config.worktree"])
@pytest.mark.parametrize("way", ["in place", "by another file of the same time"])
def test_a_configuration_that_has_changed_since_is_noticed(root: Path, name: str, way: str) -> None:
    git(root, "config", "extensions.worktreeConfig", "true")
    file = root / ".git" / name
    git(root, "config", "--file", str(file), "core.bare", "false")
    os.utime(file, (1, 1))
    Repository.open(root)
    changed = file.read_text().replace("bare = false", "bare = true")
    if way == "in place":
        file.write_text(changed)
    else:
        other = file.with_name("other")
        other.write_text(changed)
        os.utime(other, (1, 1))
        other.replace(file)

    assert_refused(Refusal.BARE, refused(root), "no working tree")


def test_the_first_configuration_of_a_worktree_is_noticed(root: Path) -> None:
    git(root, "config", "extensions.worktreeConfig", "true")
    Repository.open(root)
    git(root, "config", "--worktree", "core.bare", "true")

    assert_refused(Refusal.BARE, refused(root), "no working tree")


def test_a_repository_that_git_does_not_trust_is_a_failure_in_its_words(root: Path) -> None:
    (root / ".git/config").write_text("[core\n")

    with pytest.raises(FailedError, match=r"bad config"):
        Repository.open(root)


def test_a_repository_is_found_through_a_link_and_from_a_worktree(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    git(root, "worktree", "add", "-q", "../users own", "-b", "own")

    assert Repository.open(link).root == root
    assert Repository.open(root.parent / "users own").common == root / ".git"


def test_a_detached_head_is_refused_unless_a_target_is_named(repository: Repository) -> None:
    git(repository.root, "checkout", "-q", "--detach")

    assert_refused(Refusal.DETACHED, not_admitted(repository), repository.root, "--target")
    admitted = admit(repository, target="main", branch="interlock/t", paths=())
    assert admitted.target == "main"


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "empty")

    empty = Repository.open(tmp_path / "empty")

    assert_refused(Refusal.NO_COMMIT, not_admitted(empty), "'main'", "commit something")


@pytest.mark.parametrize("kind", ["changed", "staged", "deleted", "added", "renamed"])
def test_a_tree_with_tracked_changes_is_refused_and_one_is_named(
    repository: Repository, kind: str
) -> None:
    root = repository.root
    match kind:
        case "deleted":
            (root / "a.txt").unlink()
        case "renamed":
            git(root, "mv", "a.txt", "a b.txt")
        case "added":
            write(root, new__txt="n\n")
            git(root, "add", "-N", "new.txt")
        case _:
            write(root, a__txt="x\n")
    if kind == "staged":
        git(root, "add", "-A")

    error = not_admitted(repository)

    assert_refused(Refusal.DIRTY, error, "new.txt" if kind == "added" else "a.txt", "stash")


def test_a_target_that_does_not_exist_is_refused(repository: Repository) -> None:
    git(repository.root, "tag", "v1")

    for target in ("nowhere", "v1", "main~0", "-x", "../tags/v1", "a b", "HEAD"):
        error = not_admitted(repository, target=target)
        assert_refused(Refusal.TARGET_MISSING, error, repr(target))


def test_a_branch_that_exists_is_refused(repository: Repository) -> None:
    git(repository.root, "branch", BRANCH)

    assert_refused(Refusal.BRANCH_EXISTS, not_admitted(repository), BRANCH, "choose another")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["interlock", "interlock/shop", "interlock/shop/t@1/more"])
def test_a_branch_beside_which_git_can_make_no_task_branch_is_refused_and_named(
    repository: Repository,
    name: str,
    packed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    git(repository.root, "branch", name)
    if packed:
        git(repository.root, "pack-refs", "--all")

    error = not_admitted(repository, branch="interlock/shop/t@1")

    assert_refused(Refusal.BRANCH_EXISTS, error, repr(name), f"git branch -m {name} ")


def test_branches_of_similar_names_are_no_reason_to_refuse(repository: Repository) -> None:
    for name in ("interlocking", "interloc", "interlock/shop/t", "interlock/shop/t@1=", "shop"):
        git(repository.root, "branch", name)

    assert admit(repository, target=None, branch="interlock/shop/t@1", paths=())


@pytest.mark.parametrize(
    "branch", ["main", "interlock/", "interlock/a b", "interlock/a..b", "-x", "interlock/x.lock"]
)
def test_a_name_that_no_branch_of_ours_can_have_is_refused(
    repository: Repository, branch: str
) -> None:
    error = not_admitted(repository, branch=branch)

    assert_refused(Refusal.BRANCH_NAME, error, repr(branch), "begins with interlock/")


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "/etc/passwd", "", "out/x", ".git/config", "sub/.GIT/x", "x\0y", ".."],
)
def test_a_path_that_leaves_the_repository_is_refused(repository: Repository, path: str) -> None:
    (repository.root / "out").symlink_to("/etc")

    error = not_admitted(repository, paths=["a.txt", path])

    assert_refused(Refusal.PATH_OUTSIDE, error, repr(path), repository.root)


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("a.txt", "a.txt"),
        ("./new/../a.txt", "a.txt"),
        ("-x", "-x"),
        ("src/**/*.py", "src/**/*.py"),
        (".", "."),
        (".github/x", ".github/x"),
        ("..a", "..a"),
    ],
)
def test_a_path_inside_is_given_as_git_writes_it(
    repository: Repository, path: str, same: str
) -> None:
    assert repository.inside(path) == same
    assert repository.inside(str(repository.root / path)) == same


def test_a_branch_is_told_from_a_tag_of_its_name(repository: Repository) -> None:
    first = tip_of(repository)
    git(repository.root, "tag", "main")
    second = commit(repository.root, "second", a__txt="2\n")

    assert (head(repository, "main"), first == second) == (second, False)
    assert head(repository, "main^") is None


@pytest.mark.parametrize("name", ["", "  ", "<>", "a\nb", "..."])
def test_an_identity_that_no_commit_can_hold_is_refused(name: str) -> None:
    with pytest.raises(RefusedError) as caught:
        Identity(name, "a@b")

    assert_refused(Refusal.IDENTITY, caught.value, repr(name))


def test_values_cannot_be_changed(repository: Repository) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        repository.root = Path("/")  # type: ignore[misc]


def test_branches_that_lie_in_a_reftable_are_refused(repository: Repository) -> None:
    (repository.common / "reftable").mkdir()

    assert_refused(Refusal.REF_FORMAT, not_admitted(repository), "git refs migrate")
