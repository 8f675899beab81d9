"""A workspace there and back, byte for byte, and nothing of the user's own repository."""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git import checkpoint_restore
from interlock.git.checkpoint_files import (
    CheckpointStoreError,
    EntryKind,
    OpenedRoot,
    TreeEntry,
    read_entry,
)
from interlock.git.checkpoint_objects import (
    ObjectFolder,
    ObjectKind,
    object_hash,
)
from interlock.git.checkpoint_store import CheckpointStore, _put_commit
from interlock.git.errors import FailedError
from tests.git.scene import git, work_of_the_user
from tests.git.workspace_files import contents, put, remove, take

Instead = Callable[[str], Path]
NAMES = [
    b"a",
    b"b c",
    b"-n",
    b"new\nline",
    b"\xff\xfe",
    b'"quoted"',
    b"tab\t",
    b".hidden",
    b"git~1",
]
CONTENTS = [b"", b"one\n", b"two\r\nlines\r\n", b"mixed\r\n\n\r", b"\0\xff" * 300, b"$Id: 1$\n"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


# --- what is in a checkpoint, there and back ---


def grow(chance: random.Random, folder: Path, depth: int) -> None:
    """Fill a folder with one of everything, here and there."""
    for name in chance.sample(NAMES, chance.randint(0, 5)):
        path = folder / os.fsdecode(name)
        if path.is_symlink() or path.exists():
            remove(path)
        kind = chance.random()
        if kind < 0.4 and depth:
            path.mkdir()
            grow(chance, path, depth - 1)
        elif kind < 0.6:
            path.symlink_to(chance.choice(["a", "nowhere", "..", "/", "../../..", "\udcff x"]))
        else:
            path.write_bytes(chance.choice(CONTENTS) + chance.randbytes(3))
            path.chmod(chance.choice([0o644, 0o755, 0o600, 0o444]))


def spoil(chance: random.Random, root: Path) -> None:
    """Remove, change and grow things, whatever they were."""
    seen = sorted(contents(root))
    for path in chance.sample(seen, len(seen) // 2):
        where = root / os.fsdecode(path)
        if not os.path.lexists(where) or path.startswith(b".gitattributes"):
            continue
        remove(where)
        kind = chance.random()
        if kind < 0.3:
            where.mkdir()
            grow(chance, where, 1)
        elif kind < 0.5:
            where.symlink_to(root.parent)
        elif kind < 0.8:
            where.write_bytes(chance.choice(CONTENTS))
            where.chmod(chance.choice([0o644, 0o755]))
    grow(chance, root, 2)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_becomes_of_a_workspace_a_restore_brings_it_back_byte_for_byte(
    place: Path, seed: int
) -> None:
    chance = random.Random(seed)
    outside = put(place.parent, "outside/kept", b"kept")
    checkpoint_store = CheckpointStore.open(place)
    for name in (b"x", b"y", b"z"):
        (folder := place / os.fsdecode(name)).mkdir()
        grow(chance, folder, 3)
    put(place, ".gitattributes", b"* text eol=crlf filter=upper ident working-tree-encoding=UTF-16")
    put(place, ".gitignore", b"*\n")
    put(place, "nested/.git/HEAD", b"ref: refs/heads/main\n")
    first, then = take(checkpoint_store), contents(place)
    assert not checkpoint_store.differs(first)

    spoil(chance, place)
    second, now = take(checkpoint_store), contents(place)
    assert then != now
    assert checkpoint_store.differs(first)
    checkpoint_store.restore(first)
    assert contents(place) == then
    assert not checkpoint_store.differs(first)
    checkpoint_store.restore(second)
    assert contents(place) == now

    assert outside.read_bytes() == b"kept"
    assert sorted(path.name for path in place.parent.iterdir()) == ["home", "outside", "workspace"]


def test_an_empty_folder_is_kept_and_one_that_was_not_there_goes(place: Path) -> None:
    (place / "a/b/c").mkdir(parents=True)
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)

    shutil.rmtree(place / "a")
    put(place, "d/e/f/file")
    checkpoint_store.restore(sha)

    assert sorted(contents(place)) == [b"a", b"a/b", b"a/b/c"]


def test_a_link_is_kept_as_a_link_and_nothing_behind_it_is_changed(place: Path) -> None:
    outside = put(place.parent, "outside/file", b"theirs")
    put(place, "data/file", b"ours")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)

    shutil.rmtree(place / "data")
    (place / "data").symlink_to(outside.parent)
    linked = take(checkpoint_store)
    checkpoint_store.restore(sha)
    assert (place / "data/file").read_bytes() == b"ours"
    assert not (place / "data").is_symlink()
    checkpoint_store.restore(linked)

    assert (place / "data").readlink() == outside.parent
    assert outside.read_bytes() == b"theirs"


def test_an_unchanged_file_is_left_alone_and_a_changed_one_keeps_who_may_read_it(
    place: Path,
) -> None:
    same, secret = put(place, "same", b"s"), put(place, "secret", b"old", 0o600)
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    before = same.stat()

    secret.write_bytes(b"new")
    checkpoint_store.restore(sha)

    assert (same.stat().st_ino, same.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert secret.read_bytes() == b"old"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_file_with_two_names_is_replaced_and_not_written_through(place: Path) -> None:
    outside = put(place.parent, "outside", b"now")
    put(place, "file", b"then")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)

    (place / "file").unlink()
    (place / "file").hardlink_to(outside)
    checkpoint_store.restore(sha)

    assert (place / "file").read_bytes() == b"then"
    assert outside.read_bytes() == b"now"


def test_fifos_and_sockets_are_left_out_named_and_left_standing_unless_in_the_way(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, "file", b"x")
    checkpoint_store = CheckpointStore.open(place)
    plain = take(checkpoint_store)
    os.mkfifo(place / "fifo")
    (place / "sub").mkdir()
    monkeypatch.chdir(place / "sub")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")

    taken = checkpoint_store.take("run", "m", parent=plain)
    assert taken.left_out == ("fifo", "sub/socket")
    assert not checkpoint_store.differs(taken.sha)
    checkpoint_store.restore(taken.sha)
    assert contents(place)[b"sub/socket"] == ("special", b"")

    (place / "file").unlink()
    os.mkfifo(place / "file")
    checkpoint_store.restore(plain)
    assert contents(place) == {b"fifo": ("special", b""), b"file": ("file", b"x")}


def test_a_write_protected_folder_is_restored_too(place: Path) -> None:
    folder = put(place, "cache/module", b"then").parent
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    (folder / "module").write_bytes(b"now")
    folder.chmod(0o500)

    checkpoint_store.restore(sha)

    assert (folder / "module").read_bytes() == b"then"
    assert folder.stat().st_mode & 0o700 == 0o700


# --- other repositories ---


def test_a_user_s_repository_keeps_its_index_head_and_status(root: Path) -> None:
    work_of_the_user(root)
    status = git(root, "status", "--porcelain=v2", "--branch", "--ignored")
    own = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}

    checkpoint_store = CheckpointStore.open(root)
    sha = take(checkpoint_store)
    assert {p: p.read_bytes() for p in (root / ".git").rglob("*") if p.is_file()} == own
    put(root, "more", b"m")
    (root / "secret.env").unlink()
    checkpoint_store.restore(sha)

    assert {p: p.read_bytes() for p in (root / ".git").rglob("*") if p.is_file()} == own
    after = git(root, "status", "--porcelain=v2", "--branch", "--ignored")
    assert after.replace("! .interlock/\n", "") == status
    assert ".interlock" not in git(root, "status", "--porcelain")


def test_nothing_of_the_user_s_configuration_or_environment_counts(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, marker = place.parent / "home", place.parent / "ran"
    hook = put(home, "hooks/reference-transaction", f"#!/bin/sh\n>{marker}\n".encode(), 0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nautocrlf = true\nhooksPath = {hook.parent}\nattributesFile = {home}/attributes\n"
        f'[filter "upper"]\nclean = touch {marker}; tr a-z A-Z\nsmudge = touch {marker}; cat\n'
        "required = true\n[commit]\ngpgSign = true\n[extensions]\nobjectFormat = sha256\n"
    )
    put(home, "attributes", b"* filter=upper text eol=crlf\n")
    put(home, "git/attributes", b"* filter=upper text eol=crlf\n")
    for name, value in {
        "GIT_DIR": str(home / "elsewhere"),
        "GIT_INDEX_FILE": str(home / "index"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_AUTHOR_NAME": "Ursula User",
    }.items():
        monkeypatch.setenv(name, value)
    before = sorted(home.rglob("*"))
    put(place, "text", b"lower\nand\r\nmixed\n")
    put(place, "plain", b"lower\n")
    put(place, ".gitattributes", b"* filter=upper text eol=crlf\n")

    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    remove(place / "text")
    remove(place / "plain")
    checkpoint_store.restore(sha)

    assert (place / "text").read_bytes() == b"lower\nand\r\nmixed\n"
    assert (place / "plain").read_bytes() == b"lower\n"
    assert not marker.exists()
    assert sorted(home.rglob("*")) == before
    author = checkpoint_store.git.line("log", "-1", "--format=%an %cn", sha)
    assert author == "Interlock Interlock"


def test_a_nested_repository_keeps_its_git_folder_and_gets_its_files_back(place: Path) -> None:
    (place / "sub").mkdir()
    git(place / "sub", "init", "-q", "-b", "main")
    put(place, "sub/file", b"then")
    put(place, "deep/er/.git", b"gitdir: elsewhere\n")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    put(place, "sub/file", b"now")
    put(place, "new/repository/.git/HEAD", b"ref\n")
    put(place, "new/repository/file", b"new")
    assert b".git" not in checkpoint_store.git.run("ls-tree", "-r", "-t", "--name-only", sha).output

    checkpoint_store.restore(sha)

    assert (place / "sub/file").read_bytes() == b"then"
    assert (place / "sub/.git/HEAD").is_file()
    assert (place / "deep/er/.git").read_bytes() == b"gitdir: elsewhere\n"
    assert (place / "new/repository/.git/HEAD").is_file()
    assert not (place / "new/repository/file").exists()
    assert not checkpoint_store.differs(sha), "what must stay is no difference"


def test_a_repository_where_a_file_must_be_is_refused_before_anything_changes(place: Path) -> None:
    put(place, "a", b"then")
    put(place, "b", b"then")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    put(place, "a", b"now")
    (place / "b").unlink()
    put(place, "b/.git/HEAD", b"ref\n")

    with pytest.raises(CheckpointStoreError, match="'b' must become a file"):
        checkpoint_store.restore(sha)

    assert (place / "a").read_bytes() == b"now"
    assert checkpoint_store.differs(sha)


def test_a_checkpoint_forged_to_write_elsewhere_is_refused(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    objects = ObjectFolder(checkpoint_store.store / "objects", place)
    blob = objects.put(ObjectKind.BLOB, b"evil")
    for name in (b".git", b"..", b".interlock"):
        folder, file = TreeEntry(EntryKind.FOLDER), TreeEntry(EntryKind.FILE, blob)
        forged = {name: folder, name + b"/file": file}
        sha = _put_commit(objects, forged, first, "m")
        checkpoint_store.git.run("update-ref", "refs/heads/forged", sha)

        with pytest.raises(CheckpointStoreError, match="which Interlock never saves"):
            checkpoint_store.restore(sha)


# --- interruptions ---


def test_an_interrupted_restore_is_completed_by_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1", "a/2", "b", "c/d/e"):
        put(place, name, name.encode())
    checkpoint_store = CheckpointStore.open(place)
    sha, then = take(checkpoint_store), contents(place)
    for name in ("a", "b", "c"):
        remove(place / name)
    put(place, "a", b"now")
    put(place, "b/c", b"now")
    real, left = checkpoint_restore._put, [2]

    def stopped(folder: int, name: bytes, kind: EntryKind, file: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(folder, name, kind, file)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_restore, "_put", stopped)
        with pytest.raises(KeyboardInterrupt):
            checkpoint_store.restore(sha)
    assert contents(place) != then

    checkpoint_store.restore(sha)
    assert contents(place) == then


def test_a_damaged_content_is_told_before_anything_is_changed(place: Path) -> None:
    put(place, "a", b"a then")
    put(place, "b", b"b then")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    put(place, "a", b"now")
    remove(place / "b")
    blob = object_hash(ObjectKind.BLOB, b"b then")
    (checkpoint_store.store / "objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises((CheckpointStoreError, FailedError)):
        checkpoint_store.restore(sha)

    assert sorted(contents(place).items()) == [(b"a", ("file", b"now"))]


def test_attributes_put_into_the_store_change_no_content(place: Path) -> None:
    put(place, "file", b"one\r\n")
    put(place, "other", b"one\n")
    checkpoint_store = CheckpointStore.open(place)
    put(checkpoint_store.store, "info/attributes", b"* text eol=crlf\n")

    sha = take(checkpoint_store)
    assert checkpoint_store.git.run("cat-file", "blob", f"{sha}:file").output == b"one\r\n"

    remove(place / "file")
    remove(place / "other")
    with pytest.raises(CheckpointStoreError, match="other content for 'other'"):
        checkpoint_store.restore(sha)
    assert contents(place) == {}


def test_names_that_git_sorts_in_its_own_way_are_kept(place: Path) -> None:
    for name in ("a/b", "a-b", "a.b", "a0", "a b/c", ".GIT/config", ".gitmodules/x"):
        put(place, name, name.encode())
    (place / "sub").mkdir()
    (place / "sub/.gitmodules").symlink_to("../a0")
    checkpoint_store = CheckpointStore.open(place)
    sha, then = take(checkpoint_store), contents(place)
    for path in (*place.glob("[as]*"), place / ".GIT", place / ".gitmodules"):
        remove(path)

    checkpoint_store.restore(sha)

    assert contents(place) == then


def test_a_folder_behind_a_link_is_never_entered(place: Path) -> None:
    outside = put(place.parent, "outside/inner/file", b"theirs").parent
    (place / "link").symlink_to(outside.parent)
    opened = OpenedRoot(place)

    for path in (b"link", b"link/inner"):
        with pytest.raises(NotADirectoryError):
            opened.folder(path)
    assert read_entry(opened, b"link/inner/file") is None
