"""The branches and the store of checkpoints: what is there, what conflicts, what a crash leaves."""

from __future__ import annotations

import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO

import pytest

from interlock.git import checkpoint_files
from interlock.git.checkpoint_files import (
    CheckpointStoreError,
    EntryKind,
    HashCache,
    OpenedRoot,
    Stamp,
    TreeEntry,
    read_entry,
)
from interlock.git.checkpoint_objects import (
    ObjectDraft,
    ObjectKind,
    object_hash,
)
from interlock.git.checkpoint_store import (
    CheckpointStore,
    HistoryConflictError,
    UnknownCheckpointError,
    UnreadableStoreError,
)
from interlock.git.errors import LockedError, Refusal, RefusedError
from interlock.git.program import Git, GitResult
from tests.git.workspace_files import history, put, remove, take

Instead = Callable[[str], Path]
HERE = Path(__file__).resolve().parents[4]
# A program that reads numbers. For each it forks a child, which changes a file and takes a
# checkpoint of it, but is killed before its rename or process of that number. It prints the child's
# status, which is 0 if there was no such step.
TAKE = """
import os, signal, sys
from pathlib import Path
from interlock.git.checkpoint_store import CheckpointStore
place, first = Path(sys.argv[1]), sys.argv[2]
def watch(event, _):
    global left
    if event in ("os.rename", "subprocess.Popen"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
for line in sys.stdin:
    left = int(line)
    if os.fork() == 0:
        (place / "folder/file").write_text(line)
        store = CheckpointStore.open(place)
        sys.addaudithook(watch)
        store.take("run", "second", parent=first)
        os._exit(0)
    print(os.wait()[1], flush=True)
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
    assert history(checkpoint_store, "run-1") == [second.sha, first.sha]
    assert history(checkpoint_store, "run-2") == [other.sha]
    assert checkpoint_store.tip("run-1") == second.sha
    assert checkpoint_store.tip("run-3") is None
    message = checkpoint_store.git.line("log", "-1", "--format=%B", second.sha)
    assert message == "completed: one\n\nmore\n"


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
        f'case "$*" in *" update-ref "*) "$real" update-ref refs/heads/run {second};; esac'
    )

    with pytest.raises(HistoryConflictError):
        checkpoint_store.take("run", "another", parent=first)

    assert checkpoint_store.tip("run") == second


def test_a_checkpoint_is_taken_if_git_moved_the_branch_and_then_failed(
    place: Path, instead_of_git: Instead
) -> None:
    checkpoint_store = CheckpointStore.open(place)
    instead_of_git('case "$*" in *" update-ref "*) "$real" "$@"; exit 1;; esac')

    taken = checkpoint_store.take("run", "m", parent=None)

    assert checkpoint_store.tip("run") == taken.sha


@pytest.mark.parametrize("branch", ["main", "a..b", "", "a b", "-x/.lock"])
def test_a_name_that_cannot_be_a_run_s_branch_is_refused(place: Path, branch: str) -> None:
    with pytest.raises(RefusedError) as refused:
        CheckpointStore.open(place).take(branch, "m", parent=None)

    assert refused.value.refusal is Refusal.BRANCH_NAME


def test_a_new_branch_begins_at_a_checkpoint_that_is_known(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    take(checkpoint_store)

    third = checkpoint_store.take("next", "m", parent=None, start=first).sha

    assert history(checkpoint_store, "next") == [third, first]
    with pytest.raises(UnknownCheckpointError):
        checkpoint_store.take("new", "m", parent=None, start="0" * 40)
    assert checkpoint_store.tip("new") is None


def test_a_branch_of_another_is_set_aside_and_what_is_on_it_stays_known(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    other = checkpoint_store.take("run-1", "of another store", parent=None)

    checkpoint_store.rename_former_branch("run-1")
    checkpoint_store.rename_former_branch("run-2")

    assert checkpoint_store.tip("run-1") is None
    assert not checkpoint_store.missing([other.sha])
    assert checkpoint_store.take("run-1", "ours", parent=None).sha != other.sha


def test_only_what_a_branch_leads_to_is_a_checkpoint(place: Path) -> None:
    put(place, "file")
    checkpoint_store = CheckpointStore.open(place)
    sha, main = take(checkpoint_store), checkpoint_store.tip("main")
    assert main
    checkpoint_store.git.run("update-ref", "-d", "refs/heads/run")

    assert checkpoint_store.missing([sha, main]) == [sha, main]
    for restored in (sha, main):
        with pytest.raises(UnknownCheckpointError):
            checkpoint_store.restore(restored)
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
    put(place, "empty")
    checkpoint_store = CheckpointStore.open(place)
    first, newest = take(checkpoint_store), take(checkpoint_store)
    earlier, last = (
        checkpoint_store.store / "objects" / sha[:2] / sha[2:] for sha in (first, newest)
    )
    head, main = (checkpoint_store.store / "refs/heads" / name for name in ("run", "main"))
    for broken in (head, main, checkpoint_store.store / "HEAD", last, earlier):
        was = broken.read_bytes()
        broken.chmod(0o644)
        broken.write_bytes(b"")
        again = CheckpointStore.open(place)
        with pytest.raises(UnreadableStoreError, match="cannot be read"):
            again.missing([])
        if broken is not earlier:
            with pytest.raises(UnreadableStoreError, match="cannot be read"):
                again.take("another", "m", parent=None)
        broken.write_bytes(was)
    head.write_text(object_hash(ObjectKind.BLOB, b""))
    for look in (lambda: checkpoint_store.tip("run"), lambda: checkpoint_store.missing([])):
        with pytest.raises(UnreadableStoreError, match="is a blob"):
            look()
    head.unlink()
    main.unlink()
    with pytest.raises(UnreadableStoreError, match="has no branch 'main'"):
        checkpoint_store.take("run", "m", parent=None)

    shutil.rmtree(checkpoint_store.store)
    for make in (checkpoint_store.store.mkdir, checkpoint_store.store.touch):
        make()
        with pytest.raises(UnreadableStoreError):
            CheckpointStore.open(place).missing([])
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


def test_git_s_own_check_finds_nothing_wrong_with_what_is_written(place: Path) -> None:
    for name in ("a/b", "a.b", "a-b/c/d", "a0"):
        put(place, name, name.encode(), 0o755)
    (place / "empty").mkdir()
    (place / "link").symlink_to("a0")
    checkpoint_store = CheckpointStore.open(place)
    take(checkpoint_store, message="two\n\nparagraphs \udcff")

    finished = checkpoint_store.git.run("fsck", "--strict")

    assert (finished.output, finished.stderr) == (b"", "")


def test_a_call_starts_as_few_git_processes_as_it_can(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []
    real = Git.run

    def counted(self: Git, *arguments: str, stdin: bytes = b"") -> GitResult:
        commands.append(arguments[0])
        return real(self, *arguments, stdin=stdin)

    monkeypatch.setattr(Git, "run", counted)
    file = put(place, "file", b"one")
    checkpoint_store = CheckpointStore.open(place)
    first = checkpoint_store.take("run", "m", parent=None).sha
    assert commands == ["for-each-ref", "update-ref"]
    file.write_bytes(b"two")
    calls: dict[Callable[[], object], list[str]] = {
        lambda: CheckpointStore.open(place).missing([first] * 3): ["for-each-ref", "rev-list"],
        lambda: checkpoint_store.differs(first): ["rev-list", "ls-tree"],
        checkpoint_store.rescue: ["for-each-ref", "update-ref"],
        lambda: checkpoint_store.restore(first): ["rev-list", "ls-tree", "read-tree"],
    }
    for call, expected in calls.items():
        commands.clear()
        call()
        assert commands == expected


def test_a_process_killed_at_any_step_leaves_the_old_tip_and_a_store_that_opens(
    place: Path,
) -> None:
    put(place, "folder/file", b"old")
    first = take(CheckpointStore.open(place))
    command = [sys.executable, "-c", TAKE, str(place), first]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin
        assert program.stdout
        for step in itertools.count(1):
            print(step, file=program.stdin, flush=True)
            if (status := int(program.stdout.readline())) == 0:
                break
            assert status == signal.SIGKILL
            again = CheckpointStore.open(place)
            assert again.tip("run") == first
        program.stdin.close()

    # Both processes of git, a file, a folder, the workspace, the commit and the known hashes.
    assert step == 8
    second = again.tip("run")
    assert second
    assert history(again, "run") == [second, first]
    remove(place / "folder")
    again.restore(second)
    assert (place / "folder/file").read_text() == "8\n"
    assert not (again.store / "scratch").exists()


def test_locks_of_a_killed_git_are_no_obstacle(place: Path) -> None:
    checkpoint_store = CheckpointStore.open(place)
    first = take(checkpoint_store)
    for name in ("refs/heads/run.lock", "packed-refs.lock", "HEAD.lock", "scratch/index.lock"):
        put(checkpoint_store.store, name)

    second = take(checkpoint_store)

    assert history(checkpoint_store, "run") == [second, first]


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
        lambda: other.rename_former_branch("run"),
    ]

    with checkpoint_store._session():
        for call in calls:
            with pytest.raises(LockedError):
                call()

    assert history(checkpoint_store, "run") == [sha]


# --- files that change, and files that do not ---


def test_a_file_that_changes_while_it_is_read_is_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(place, "log", b"one\n")
    checkpoint_store = CheckpointStore.open(place)
    real, left = checkpoint_files.hash_content, [1]

    def busy(source: IO[bytes], size: int, into: ObjectDraft | None = None) -> str | None:
        if left[0]:
            left[0] -= 1
            with file.open("ab") as log:
                log.write(b"more\n")
        return real(source, size, into)

    monkeypatch.setattr(checkpoint_files, "hash_content", busy)
    sha = take(checkpoint_store)
    assert checkpoint_store.git.run("show", f"{sha}:log").output == b"one\nmore\n"


@pytest.mark.parametrize("size", [5, 3_000_000])
def test_of_a_file_that_becomes_longer_whenever_it_is_read_the_beginning_is_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    begun = Random(0).randbytes(size)
    file = put(place, "log", begun)
    checkpoint_store = CheckpointStore.open(place)
    real = checkpoint_files.hash_beginning

    def busy(source: IO[bytes], size: int, into: ObjectDraft | None = None) -> str | None:
        content = real(source, size, into)
        with file.open("ab") as log:
            log.write(b"more\n")
        return content

    monkeypatch.setattr(checkpoint_files, "hash_beginning", busy)
    sha = take(checkpoint_store)

    kept = checkpoint_store.git.run("show", f"{sha}:log").output
    more = kept.removeprefix(begun)
    assert len(more) < len(kept)
    assert more == b"more\n" * (len(more) // 5)


def test_a_file_whose_beginning_changes_whenever_it_is_read_is_named_and_nothing_is_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(place, "state", b"0000")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    real, written = checkpoint_files.hash_beginning, iter(range(1, 1_000))

    def busy(source: IO[bytes], size: int, into: ObjectDraft | None = None) -> str | None:
        content = real(source, size, into)
        number = next(written)
        file.write_text(f"{number:04}")
        os.utime(file, ns=(number, number))
        return content

    monkeypatch.setattr(checkpoint_files, "hash_beginning", busy)
    with pytest.raises(CheckpointStoreError, match=r"state' changes whenever it is read"):
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


# A small object is written only when its file is closed.
@pytest.mark.parametrize("size", [1_000, 100_000])
def test_a_store_that_cannot_be_written_is_not_a_file_that_cannot_be_read(
    place: Path, size: int
) -> None:
    checkpoint_store = CheckpointStore.open(place)
    put(place, "file", Random(0).randbytes(size))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(CheckpointStoreError) as refused:
            take(checkpoint_store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert f"{checkpoint_store.store} cannot be written (File too large)" in str(refused.value)
    assert checkpoint_store.tip("run") is None


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

    def busy(source: IO[bytes], size: int, into: ObjectDraft | None = None) -> str | None:
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


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_remembered_hash_whose_content_is_lost_is_stored_again(
    place: Path, *, is_empty: bool
) -> None:
    file = put(place, "file", b"content")
    checkpoint_store = CheckpointStore.open(place)
    sha = take(checkpoint_store)
    remember(checkpoint_store, "file")
    blob = object_hash(ObjectKind.BLOB, b"content")
    stored = checkpoint_store.store / "objects" / blob[:2] / blob[2:]
    stored.unlink()
    if is_empty:
        stored.touch()

    take(checkpoint_store)

    file.unlink()
    checkpoint_store.restore(sha)
    assert file.read_bytes() == b"content"
