"""A workspace for checkpoints, and a look at all that stands in it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from interlock.git.checkpoint_store import CheckpointStore


def contents(root: Path) -> dict[bytes, tuple[str, bytes]]:
    """Return what stands in a folder, but what is called `.git` and what is ours."""
    found: dict[bytes, tuple[str, bytes]] = {}
    top = os.fsencode(root)
    for outer, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != b".git"]
        if outer == top:
            folders.remove(b".interlock")
        for name in [*folders, *files]:
            path = outer + b"/" + name
            mode = os.lstat(path).st_mode
            if name == b".git":
                continue
            if stat.S_ISLNK(mode):
                seen = ("link", os.fsencode(Path(os.fsdecode(path)).readlink()))
            elif stat.S_ISDIR(mode):
                seen = ("folder", b"")
            elif stat.S_ISREG(mode):
                seen = ("program" if mode & 0o100 else "file", Path(os.fsdecode(path)).read_bytes())
            else:
                seen = ("special", b"")
            found[path[len(top) + 1 :]] = seen
    return found


def put(root: Path, path: str, content: bytes = b"", mode: int = 0o644) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)
    return file


def take(checkpoint_store: CheckpointStore, branch: str = "run", message: str = "m") -> str:
    """Take the next checkpoint of a branch, whose newest one is read without starting git."""
    head = checkpoint_store.store / "refs/heads" / branch
    parent = head.read_text().strip() if head.exists() else None
    return checkpoint_store.take(branch, message, parent=parent).sha


def history(checkpoint_store: CheckpointStore, branch: str) -> list[str]:
    """Return the checkpoints of a branch, newest first."""
    command = ("rev-list", f"refs/heads/{branch}", "--not", "refs/heads/main")
    return checkpoint_store.git.line(*command).split()


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
