"""Takes over the objects that an agent made in its copy of a repository.

Each comes under the name that its content has, so that no other content comes under the name of an
object that the repository has, or will have. No link of the agent is followed.
"""

from __future__ import annotations

import os
import re
import shutil
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp

from interlock.git.agent_files import (
    clear,
    content,
    is_folder,
    opened,
    plain_files,
)
from interlock.git.repository import Repository

_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_LARGE = re.compile(r"[0-9a-f]{64}")
# Fewer and smaller objects become single files, as by `git fetch`; more of them become a pack.
_UNPACKED_MAX, _UNPACKED_BYTES_MAX = 100, 16 * 1024 * 1024
_COUNT_IN_PACK = slice(8, 12)  # the number of objects in a pack, big-endian
_CHUNK_BYTES = 1024 * 1024
_READ_ONLY = 0o444


def bring_objects(repository: Repository, objects: Path, *, scratch: Path) -> None:
    """Add the objects of git in a folder to the repository. Raises GitError, OSError."""
    if not is_folder(objects):
        return
    # It could name other folders in which to look for objects.
    clear(objects / "info")
    names, size = _objects(repository, objects)
    if not names:
        return
    git = repository.git.in_folder(repository.root, GIT_ALTERNATE_OBJECT_DIRECTORIES=str(objects))
    listed = "".join(f"{name}\n" for name in names).encode()
    pack = ("pack-objects", "--quiet", "--window=0")
    if len(names) < _UNPACKED_MAX and size < _UNPACKED_BYTES_MAX:
        bring_pack(repository, git.run(*pack, "--stdout", stdin=listed).output)
        return
    digest = git.line(*pack, str(scratch / "pack"), stdin=listed)
    made = scratch / f"pack-{digest}.pack"
    made.with_suffix(".idx").unlink()
    repository.git.run("index-pack", str(made))
    for suffix in (".pack", ".idx"):
        target = repository.common / "objects" / "pack" / made.with_suffix(suffix).name
        shutil.move(made.with_suffix(suffix), target)


def bring_pack(repository: Repository, pack: bytes) -> None:
    """Add the objects of a pack to the repository. Raises GitError."""
    few = int.from_bytes(pack[_COUNT_IN_PACK]) < _UNPACKED_MAX
    repository.git.run(
        *(("unpack-objects", "-q") if few else ("index-pack", "--stdin")), stdin=pack
    )


def _objects(repository: Repository, objects: Path) -> tuple[list[str], int]:
    """Return the names of a copy's own objects, and how many bytes their files have."""
    names, size = list[str](), 0
    for file in plain_files(objects):
        folder = file.parent
        is_fan = folder.parent == objects and len(folder.name) == len("00")
        if is_fan and _LOOSE.fullmatch(file.name):
            names.append(folder.name + file.name)
            size += file.lstat().st_size
        elif folder == objects / "pack" and file.suffix == ".idx":
            listing = repository.git.run("show-index", stdin=content(file)).output
            names += [line.split(b" ")[1].decode() for line in listing.splitlines()]
            size += file.with_suffix(".pack").lstat().st_size
    return names, size


def bring_large_files(store: Path, copied: Path) -> None:
    """Add the objects of Git LFS that a copy has and the repository's store lacks.

    A file whose name is not the SHA-256 of its content is left out. Raises OSError.
    """
    for file in plain_files(copied / "objects") if is_folder(copied) else ():
        target = store / "objects" / file.name[:2] / file.name[2:4] / file.name
        if not _LARGE.fullmatch(file.name) or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        # A file with holes can be larger than the disk.
        if file.lstat().st_size > shutil.disk_usage(target.parent).free:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(target))
        _bring_large_file(file, target)


def _bring_large_file(file: Path, target: Path) -> None:
    """Copy a file to a target whose name is the SHA-256 of what is copied, or copy nothing."""
    descriptor, name = mkstemp(dir=target.parent, prefix="interlock-")
    written, digest = Path(name), sha256()
    try:
        with opened(file) as source, os.fdopen(descriptor, "wb") as copy:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
        if digest.hexdigest() == target.name:
            written.chmod(_READ_ONLY)
            written.replace(target)
    finally:
        written.unlink(missing_ok=True)
