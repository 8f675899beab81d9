"""What a judge is shown of the work: every change, bounded, whatever the work says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.git import diff as module
from interlock.git.changes import commit_all
from interlock.git.diff import (
    BLOB_BYTES_MAX,
    Diff,
    FileDiff,
    diff,
    lines_between,
    merge_of,
)
from interlock.git.errors import GitError, RefusedError, TimedOutError
from interlock.git.merge import BranchMerged, merge
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree
from tests.git.scene import AGENT, a_task, commit, git, tip_of, write

ROOM = 200_000


def keep(repository: Repository, tree: Worktree) -> None:
    assert commit_all(repository, tree, message="work", identity=AGENT)


def looked(repository: Repository, tree: Worktree, bytes_max: int = ROOM) -> Diff:
    return diff(repository, base=tree.base, commit=tree.branch, bytes_max=bytes_max)


def by_name(repository: Repository, tree: Worktree, bytes_max: int = ROOM) -> dict[str, FileDiff]:
    return {one.path: one for one in looked(repository, tree, bytes_max).files}


def test_work_that_changed_nothing_has_no_diff(repository: Repository, tree: Worktree) -> None:
    assert looked(repository, tree) == Diff(())


def test_every_kind_of_change_is_shown(repository: Repository, tree: Worktree) -> None:
    write(tree.folder, a__txt="changed\n", new__txt="added\n")
    git(tree.folder, "mv", "b.txt", "a name with \u00e4 and * in it")
    (tree.folder / "c.txt").unlink()
    (tree.folder / "c.txt").symlink_to("a.txt")
    (tree.folder / ".gitignore").chmod(0o755)
    keep(repository, tree)

    found = by_name(repository, tree)

    assert {name: one.kind for name, one in found.items()} == {
        ".gitignore": "changed",
        "a name with \u00e4 and * in it": "added",
        "a.txt": "changed",
        "b.txt": "deleted",
        "c.txt": "changed",
        "new.txt": "added",
    }
    assert not [one for one in found.values() if one.missing]
    assert "-a\n+changed\n" in found["a.txt"].text
    assert found["new.txt"].text.endswith("+added\n")
    assert "new mode 100755" in found[".gitignore"].text
    assert "-c\n" in found["c.txt"].text
    assert "+a.txt\n" in found["c.txt"].text
    assert found["a name with \u00e4 and * in it"].text.count("diff --git") == 1


def test_what_is_not_committed_is_not_shown(repository: Repository, tree: Worktree) -> None:
    write(tree.folder, a__txt="committed\n")
    keep(repository, tree)
    write(tree.folder, a__txt="later\n", more__txt="m\n")

    assert list(by_name(repository, tree)) == ["a.txt"]
    assert "+committed" in by_name(repository, tree)["a.txt"].text


def test_attributes_settings_and_drivers_hide_nothing(
    repository: Repository, tree: Worktree, root: Path, tmp_path: Path
) -> None:
    write(tree.folder, __gitattributes="*.txt binary -diff diff=quiet\n", a__txt="evil\n")
    keep(repository, tree)
    git(root, "config", "diff.quiet.textconv", "true")
    git(root, "config", "diff.quiet.command", f"touch {tmp_path}/ran; true")
    git(root, "config", "diff.noprefix", "true")
    git(root, "config", "diff.ignoreSubmodules", "all")
    git(root, "config", "color.ui", "always")
    (root / ".gitattributes").write_text("*.txt binary -diff diff=quiet\n")

    patch = by_name(repository, tree)["a.txt"]

    assert "+evil" in patch.text
    assert "\x1b" not in patch.text
    assert not (tmp_path / "ran").exists()


def test_binary_and_huge_files_are_only_named(repository: Repository, tree: Worktree) -> None:
    (tree.folder / "image").write_bytes(b"\x89PNG\0\1\2")
    (tree.folder / "huge").write_text("x" * (BLOB_BYTES_MAX + 1))
    keep(repository, tree)

    found = by_name(repository, tree)

    assert (found["image"].text, found["image"].missing) == ("", "only named: it is binary")
    assert found["huge"].missing == f"only named: it has {BLOB_BYTES_MAX + 1} bytes"


def test_files_and_lines_are_counted(repository: Repository, tree: Worktree) -> None:
    (tree.folder / "image").write_bytes(b"\x89PNG\0\1\2")
    (tree.folder / "new.txt").write_text("1\n2\n")
    (tree.folder / "a.txt").unlink()
    keep(repository, tree)

    found = lines_between(repository, base=tree.base, commit=str(tree.branch))

    assert (found.files, found.added, found.binary) == (3, 2, 1)
    assert found.removed == len(repository.git.line("show", f"{tree.base}:a.txt").splitlines())


@pytest.mark.parametrize("bytes_max", [1, 1024 * 1024])
def test_each_file_gets_its_own_patch(
    repository: Repository, tree: Worktree, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(module, "_BATCH_BYTES_MAX", bytes_max)
    header = "diff --git a/b.txt b/b.txt\n"
    write(tree.folder, a__txt=header, d__txt=f"{header}\r{header}", e="", f="f\n")
    (tree.folder / "b.txt").unlink()
    (tree.folder / "b.txt").symlink_to("a.txt")
    (tree.folder / "d\nd").write_text("d\n")
    keep(repository, tree)

    found = by_name(repository, tree)

    assert list(found) == ["a.txt", "b.txt", "d\nd", "d.txt", "e", "f"]
    assert f"\n-a\n+{header}" in found["a.txt"].text
    assert found["b.txt"].text.count("\ndiff --git") == 1, "deleted as a file, added as a link"
    assert found["d.txt"].text.endswith(f"\n+{header}+\r{header}")
    assert found["e"].text.startswith("diff --git a/e b/e\nnew file")
    assert found["f"].text.startswith("diff --git a/f b/f\n")
    assert found["f"].text.endswith("\n+f\n")


def test_text_in_another_encoding_is_shown(repository: Repository, tree: Worktree) -> None:
    (tree.folder / "a.txt").write_bytes("caf\u00e9\n".encode("latin-1"))
    keep(repository, tree)

    assert "+caf\\xe9\n" in by_name(repository, tree)["a.txt"].text


def test_a_byte_of_a_name_that_is_not_utf8_is_escaped(
    repository: Repository, tree: Worktree
) -> None:
    (tree.folder / b"caf\xe9.txt".decode(errors="surrogateescape")).write_text("x\n")
    keep(repository, tree)

    assert by_name(repository, tree)[r"caf\xe9.txt"].text.endswith("+x\n")


def test_a_long_diff_is_cut_and_leaves_room_for_others(
    repository: Repository, tree: Worktree
) -> None:
    write(tree.folder, a__txt="x" * 100_000, b__txt="small\n")
    keep(repository, tree)

    found = by_name(repository, tree, 2_000)

    assert found["a.txt"].missing.startswith("cut: 500 of 100")
    assert len(found["a.txt"].text) == 500
    assert (found["b.txt"].missing, "+small" in found["b.txt"].text) == ("", True)


def test_the_whole_stays_within_its_bytes_and_names_what_has_no_room(
    repository: Repository, tree: Worktree
) -> None:
    for number in range(10):
        (tree.folder / f"n{number}").write_text("\u00e4" * 400)
    keep(repository, tree)

    files = looked(repository, tree, 2_000).files

    assert sum(len(one.text.encode()) for one in files) <= 2_000
    assert len(files) == 10
    assert files[-1] == FileDiff("n9", "added", "", "only named: no room was left")
    assert all(one.missing for one in files)


def test_more_files_than_can_be_named_are_counted(
    repository: Repository, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILES_MAX", 2)
    write(tree.folder, a="a", b="b", c="c", d="d", e="e")
    keep(repository, tree)

    found = looked(repository, tree)

    assert ([one.path for one in found.files], found.unnamed) == (["a", "b"], 3)


def test_a_file_that_becomes_a_folder_is_named_and_what_is_in_it_shown(
    repository: Repository, tree: Worktree
) -> None:
    (tree.folder / "a.txt").unlink()
    (tree.folder / "a.txt").mkdir()
    (tree.folder / "a.txt" / "huge").write_text("x" * (BLOB_BYTES_MAX + 1))
    (tree.folder / "a.txt" / "small").write_text("s\n")
    keep(repository, tree)

    found = by_name(repository, tree)

    assert found["a.txt"] == FileDiff("a.txt", "deleted", "", found["a.txt"].missing)
    assert "folder" in found["a.txt"].missing
    assert found["a.txt/huge"].missing
    assert "+s" in found["a.txt/small"].text


def test_a_submodule_is_shown_by_its_commit(
    repository: Repository, tree: Worktree, root: Path
) -> None:
    tip = commit(root, "more", d__txt="d\n")
    git(tree.folder, "update-index", "--add", "--cacheinfo", f"160000,{tip},module")
    git(tree.folder, "commit", "-q", "-m", "a link")

    assert f"+Subproject commit {tip}" in by_name(repository, tree)["module"].text


def test_a_commit_that_is_not_there_and_a_time_that_is_over_are_errors(
    repository: Repository, tree: Worktree
) -> None:
    with pytest.raises(RefusedError):
        diff(repository, base="0" * 40, commit=tree.branch, bytes_max=ROOM)
    with pytest.raises(TimedOutError) as late:
        diff(repository, base=tree.base, commit=tree.branch, bytes_max=ROOM, within_s=0)
    assert isinstance(late.value, GitError)


def test_the_merge_of_a_commit_is_found_among_others(
    repository: Repository, tree: Worktree, root: Path
) -> None:
    first, other = a_task(repository, "one", one__txt="1\n"), a_task(repository, "two", two="2\n")
    merges = []
    for one in (first, other):
        done = merge(
            repository, branch=one.branch, target="main", message="m", identity=AGENT, verified=None
        )
        assert isinstance(done, BranchMerged)
        merges.append(done.commit)
    commit(root, "later", c__txt="later\n")

    before, after = merge_of(repository, tip_of(repository, other.branch), target="main") or (
        "",
        "",
    )

    assert (before, after) == tuple(merges)
    found = diff(repository, base=before, commit=after, bytes_max=ROOM)
    assert [one.path for one in found.files] == ["two"]
    assert merge_of(repository, tip_of(repository, tree.branch), target="main") is None
