"""The branches and the store of checkpoints: what is there, what conflicts, what a crash leaves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from interlock.workers.gateways.git import checkpoint_files
from interlock.workers.gateways.git.checkpoint_files import (
    CheckpointStoreError,
    EntryKind,
    HashCache,
    OpenedRoot,
    Stamp,
    TreeEntry,
    read_entry,
)
from interlock.workers.gateways.git.checkpoint_store import (
    CheckpointStore,
    HistoryConflictError,
    UnknownCheckpointError,
    UnreadableStoreError,
)
from interlock.workers.gateways.git.errors import LockedError, Refusal, RefusedError
from tests.workers.gateways.git.workspace_files import put, remove, take

Instead = Callable[[str], Path]
HERE = Path(__file__).resolve().parents[4]
TAKE = """
import sys
from pathlib import Path
from interlock.workers.gateways.git.checkpoint_store import CheckpointStore
CheckpointStore.open(Path(sys.argv[1])).take("run", "second", parent=sys.argv[2])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


# --- the branches ---


def test_each_checkpoint_is_a_new_commit_on_its_branch_also_when_nothing_changed(
    place: Path,
) -> None:
    put(place, "file")
    checkpoint_store = CheckpointStore.open(place)
    first = checkpoint_store.take("run-1", "rig-setup: one [run:1]", parent=None)
    second = checkpoint_store.take("run-1", "completed: one\n\nmore", parent=first.sha)
    other = checkpoint_store.take("run-2", "another", parent=None)

    assert first.sha != second.sha
    assert checkpoint_store.history("run-1") == (second.sha, first.sha)
    assert checkpoint_store.history("run-2") == (other.sha,)
    assert checkpoint_store.history("run-3") == ()
    assert checkpoint_store.tip("run-1") == second.sha
    assert checkpoint_store.tip("run-3") is None
    assert checkpoint_store.message(second.sha) == "completed: one\n\nmore"


def test_a_branch_that_is_elsewhere_is_a_conflict_and_stays(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    second = take(checkpoint_store)

    for branch, parent in (("run", first), ("run", None), ("other", second)):
        with pytest.raises(HistoryConflictError, match=branch):
            checkpoint_store.take(branch, "m", parent=parent)

    assert checkpoint_store.tip("run") == second
    assert checkpoint_store.tip("other") is None


def test_a_branch_moved_behind_our_back_is_a_conflict_and_stays(
    place: Path, instead_of_git: Instead
) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    second = take(checkpoint_store)
    checkpoint_store.git.run("update-ref", "refs/heads/run", first)
    instead_of_git(
        f'case "$*" in *" commit-tree "*) "$real" update-ref refs/heads/run {second};; esac'
    )

    with pytest.raises(HistoryConflictError):
        checkpoint_store.take("run", "m", parent=first)

    assert checkpoint_store.tip("run") == second


@pytest.mark.parametrize("branch", ["main", "a..b", "", "a b", "-x/.lock"])
def test_a_name_that_cannot_be_a_run_s_branch_is_refused(place: Path, branch: str) -> None:
    with pytest.raises(RefusedError) as refused:
        CheckpointStore.open(place).take(branch, "m", parent=None)

    assert refused.value.refusal is Refusal.BRANCH_NAME


def test_a_continuation_begins_at_a_checkpoint_once(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    second = take(checkpoint_store)

    checkpoint_store.branch_from("next", first)
    checkpoint_store.branch_from("next", first)
    assert checkpoint_store.tip("next") == first
    with pytest.raises(HistoryConflictError):
        checkpoint_store.branch_from("next", second)
    with pytest.raises(UnknownCheckpointError):
        checkpoint_store.branch_from("new", "0" * 40)
    third = take(checkpoint_store, "next")
    assert checkpoint_store.history("next") == (third, first)


def test_a_branch_of_another_is_set_aside_and_what_is_on_it_stays_known(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    other = checkpoint_store.take("run-1", "of another store", parent=None)

    checkpoint_store.rename_former_branch("run-1")
    checkpoint_store.rename_former_branch("run-2")

    assert checkpoint_store.tip("run-1") is None
    assert checkpoint_store.has(other.sha)
    assert checkpoint_store.take("run-1", "ours", parent=None).sha != other.sha


def test_only_what_a_branch_leads_to_is_a_checkpoint(place: Path) -> None:
    put(place, "file")
    checkpoint_store = CheckpointStore.open(place)
    sha, main = take(checkpoint_store), checkpoint_store.tip("main")
    assert main
    checkpoint_store.git.run("update-ref", "-d", "refs/heads/run")

    assert not checkpoint_store.has(sha)
    assert not checkpoint_store.has(main)
    for restored in (sha, main):
        with pytest.raises(UnknownCheckpointError):
            checkpoint_store.restore(restored)
    with pytest.raises(UnknownCheckpointError):
        checkpoint_store.message(sha)
    assert (place / "file").exists(), "the empty beginning would have deleted it"


def test_a_rescue_keeps_the_workspace_on_a_branch_of_its_own(place: Path) -> None:
    put(place, "file", b"kept")
    checkpoint_store = CheckpointStore.open(place)
    one, two = checkpoint_store.rescue(), checkpoint_store.rescue()

    assert one.branch != two.branch
    assert one.sha != two.sha
    name = r"recovery/\d{8}T\d{6}Z-[0-9a-f]{8}"
    assert all(re.fullmatch(name, branch) for branch in (one.branch, two.branch))
    remove(place / "file")
    checkpoint_store.restore(one.sha)
    assert (place / "file").read_bytes() == b"kept"


# --- the store ---


def test_a_store_that_is_there_but_unreadable_is_not_taken_for_an_empty_one(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    head, commit = (
        checkpoint_store.store / "refs/heads/run",
        checkpoint_store.store / "objects" / sha[:2] / sha[2:],
    )
    for broken in (
        head,
        checkpoint_store.store / "HEAD",
        commit,
        checkpoint_store.store / "refs/heads/main",
    ):
        was = broken.read_bytes()
        broken.chmod(0o644)
        broken.write_bytes(b"")
        with pytest.raises(UnreadableStoreError, match="cannot be read"):
            CheckpointStore.open(place)
        broken.write_bytes(was)
    head.write_bytes(b"")
    with pytest.raises(UnreadableStoreError):
        checkpoint_store.tip("run")
    with pytest.raises(UnreadableStoreError):
        checkpoint_store.take("run", "m", parent=None)

    shutil.rmtree(checkpoint_store.store)
    for make in (checkpoint_store.store.mkdir, checkpoint_store.store.touch):
        make()
        with pytest.raises(UnreadableStoreError):
            CheckpointStore.open(place)
        remove(checkpoint_store.store)
    checkpoint_store.store.symlink_to(place.parent)
    with pytest.raises(UnreadableStoreError, match="is not a folder"):
        CheckpointStore.open(place)


def test_a_store_is_made_once_and_what_a_crash_left_of_it_is_made_anew(place: Path) -> None:
    put(place, ".interlock/checkpoints.new/HEAD", b"half")
    first = CheckpointStore.open(place)
    sha = take(first)

    assert CheckpointStore.open(place).tip("run") == sha
    assert not (place / ".interlock/checkpoints.new").exists()
    with pytest.raises(RefusedError, match="not a folder"):
        CheckpointStore.open(place / "missing")


@pytest.mark.parametrize("last", ["hash-object", "mktree", "commit-tree", "update-ref"])
def test_a_process_killed_at_any_step_leaves_the_old_tip_and_a_store_that_opens(
    place: Path, instead_of_git: Instead, last: str
) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    put(place, "file", b"new")
    folder = instead_of_git(
        # It ends without its work: a later git must find nothing of it still running.
        f'case "$*" in *" {last} "*)'
        ' [ -e "$0.spent" ] || { >"$0.spent"; kill -9 $PPID; exit 1; };; esac'
    )

    command = [sys.executable, "-c", TAKE, str(place), first]
    assert subprocess.run(command, cwd=HERE, check=False).returncode == -9

    assert (folder / "git.spent").exists()
    again = CheckpointStore.open(place)
    assert again.tip("run") == first
    second = take(again)
    assert again.history("run") == (second, first)
    remove(place / "file")
    again.restore(second)
    assert (place / "file").read_bytes() == b"new"
    assert not (checkpoint_store.store / "scratch").exists()


def test_locks_of_a_killed_git_are_no_obstacle(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    for name in ("refs/heads/run.lock", "packed-refs.lock", "HEAD.lock", "scratch/index.lock"):
        put(checkpoint_store.store, name)

    second = take(checkpoint_store)

    assert checkpoint_store.history("run") == (second, first)


def test_two_never_take_or_restore_at_once(place: Path) -> None:
    checkpoint_store, other = (
        CheckpointStore.open(place),
        CheckpointStore.open(place, command_s=0.05),
    )
    sha = take(checkpoint_store)
    calls: list[Callable[[], object]] = [
        lambda: other.take("run", "m", parent=sha),
        lambda: other.restore(sha),
        other.rescue,
        lambda: other.branch_from("x", sha),
    ]

    with checkpoint_store._session():
        for call in calls:
            with pytest.raises(LockedError):
                call()

    assert checkpoint_store.history("run") == (sha,)


# --- files that change, and files that do not ---


def test_a_file_that_changes_while_it_is_read_is_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(place, "log", b"one\n")
    checkpoint_store = CheckpointStore.open(place)
    real, left = checkpoint_files.hash_content, [1]

    def busy(source: IO[bytes], size: int, into: IO[bytes] | None = None) -> str | None:
        if left[0]:
            left[0] -= 1
            with file.open("ab") as log:
                log.write(b"more\n")
        return real(source, size, into)

    monkeypatch.setattr(checkpoint_files, "hash_content", busy)
    sha = take(checkpoint_store)
    assert checkpoint_store.git.run("show", f"{sha}:log").output == b"one\nmore\n"

    left[0] = 100
    with pytest.raises(CheckpointStoreError, match=r"log' changes whenever it is read"):
        checkpoint_store.take("run", "m", parent=sha)
    assert checkpoint_store.tip("run") == sha


def test_what_vanishes_while_a_checkpoint_is_taken_is_not_in_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, "a/b/file", b"x")
    put(place, "kept", b"x")
    checkpoint_store = CheckpointStore.open(place)
    real = checkpoint_files.read_entry

    def late(opened: OpenedRoot, path: bytes, *, cache: HashCache) -> TreeEntry | None:
        shutil.rmtree(place / "a", ignore_errors=True)
        return real(opened, path, cache=cache)

    monkeypatch.setattr(checkpoint_files, "read_entry", late)
    sha = take(checkpoint_store)

    names = checkpoint_store.git.run("ls-tree", "-r", "--name-only", sha).output
    assert names == b"kept\n"


def test_a_file_that_may_not_be_read_is_named_and_nothing_is_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint_store = CheckpointStore.open(place)
    put(place, "secret", b"then")
    sha = take(checkpoint_store)
    put(place, "secret", b"now", 0)
    real = os.open

    def strict(path: str | bytes, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if path == b"secret":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, dir_fd=dir_fd)

    # Root may read everything, so there the system does not say no by itself.
    monkeypatch.setattr(os, "open", strict)
    with pytest.raises(
        CheckpointStoreError, match=r"workspace/secret' cannot be read \(Permission denied"
    ):
        checkpoint_store.take("run", "m", parent=sha)
    assert checkpoint_store.tip("run") == sha
    assert checkpoint_store.differs(sha)

    checkpoint_store.restore(sha)
    assert (place / "secret").read_bytes() == b"then"


def remember(checkpoint_store: CheckpointStore, path: str) -> None:
    """Let a file be known as if it had been at rest for long."""
    found = read_entry(OpenedRoot(checkpoint_store.root), os.fsencode(path))
    assert found
    HashCache.load(checkpoint_store.store / "hashes").keep(
        {os.fsencode(path): found}, seen_ns=2**63
    )


def test_a_file_that_is_remembered_is_not_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, "file", b"one")
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    remember(checkpoint_store, "file")
    monkeypatch.delattr(checkpoint_files, "hash_content")

    assert not checkpoint_store.differs(first)


def test_a_change_that_leaves_size_and_times_alike_is_seen(place: Path) -> None:
    file = put(place, "file", b"one")
    os.utime(file, ns=(10**18, 10**18))
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    remember(checkpoint_store, "file")
    file.write_bytes(b"two")
    os.utime(file, ns=(10**18, 10**18))

    assert checkpoint_store.differs(first)
    second = take(checkpoint_store)

    assert checkpoint_store.git.run("show", f"{second}:file").output == b"two"


def test_a_file_that_changes_under_the_copy_is_copied_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(place, "file", b"a long beginning")
    os.utime(file, ns=(10**18, 10**18))
    checkpoint_store = CheckpointStore.open(place)
    real, then = checkpoint_files.hash_content, [b"an equal length!", b"short"]

    def busy(source: IO[bytes], size: int, into: IO[bytes] | None = None) -> str | None:
        sha = real(source, size, into)
        if into and then:
            file.write_bytes(then.pop(0))
            os.utime(file, ns=(10**18 - len(then), 10**18 - 1 - len(then)))
        return sha

    monkeypatch.setattr(checkpoint_files, "hash_content", busy)
    sha = take(checkpoint_store)

    assert not then
    assert checkpoint_store.git.run("show", f"{sha}:file").output == b"short"


def test_only_the_hash_of_a_file_at_rest_is_remembered(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    stamp = Stamp(modified_ns=10**12, changed_ns=10**12, size=1, inode=1)
    entry = TreeEntry(EntryKind.FILE, "a" * 40, stamp)
    memory = HashCache.load(checkpoint_store.store / "hashes")
    at_rest = 10**12 + 2_000_000_000

    memory.keep({b"\xff": entry}, seen_ns=at_rest - 1)
    assert HashCache.load(memory.file).sha(b"\xff", stamp) is None
    memory.keep({b"\xff": entry}, seen_ns=at_rest)
    kept = HashCache.load(memory.file)
    assert kept.sha(b"\xff", stamp) == "a" * 40
    assert kept.sha(b"\xff", Stamp(10**12, 10**12, 1, 2)) is None

    memory.file.write_bytes(memory.file.read_bytes().replace(b"a" * 40, b"b" * 40))
    assert not HashCache.load(memory.file).known, "torn or changed, it is worth nothing"


def test_a_remembered_hash_whose_content_is_lost_is_stored_again(place: Path) -> None:
    file = put(place, "file", b"content")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    remember(checkpoint_store, "file")
    blob = checkpoint_files.hash_bytes(b"content")
    stored = checkpoint_store.store / "objects" / blob[:2] / blob[2:]
    stored.unlink()

    take(checkpoint_store)

    assert stored.exists()
    file.unlink()
    checkpoint_store.restore(sha)
    assert file.read_bytes() == b"content"
