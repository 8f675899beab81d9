"""A cgroup (version 2) for the processes of one agent, if the system allows one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath
from uuid import uuid4

_REMOVE_TRIES_MAX = 40
_POLL_S = 0.005


class Cgroup:
    """A folder of the cgroup filesystem, with the processes in it and in its subfolders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path) -> Cgroup | None:
        """Make a cgroup and test that it can be killed; None if the system does not allow that."""
        made = cls(folder)
        try:
            folder.mkdir()
        except OSError:
            return None
        try:
            # Harmless in an empty cgroup, and it proves that killing is supported and allowed.
            made._write("cgroup.kill", b"1")
            (folder / "cgroup.events").read_bytes()
        except OSError:
            made.remove()
            return None
        return made

    def join(self) -> None:
        """Move the calling process into the cgroup. Raises OSError."""
        self._write("cgroup.procs", b"0")

    def members(self) -> set[int]:
        """Return the process ids in this cgroup and in every cgroup below it."""
        found = set[int]()
        for file in self.folder.glob("**/cgroup.procs"):
            with suppress(OSError):
                found.update(int(line) for line in file.read_bytes().split())
        return found

    def kill(self) -> None:
        """Kill all processes in one step, during which none can fork."""
        with suppress(OSError):
            self._write("cgroup.kill", b"1")

    def populated(self) -> bool:
        """Whether a live process is in this cgroup or below it."""
        try:
            return b"populated 0" not in (self.folder / "cgroup.events").read_bytes()
        except FileNotFoundError:
            return False

    def cpu_s(self) -> float | None:
        """Return the processor time of all processes that were ever in it, if it is counted."""
        with suppress(OSError, ValueError):
            for line in (self.folder / "cpu.stat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "usage_usec":
                    return int(value) / 1e6
        return None

    def remove(self) -> None:
        """Remove this cgroup and those below it, unless a process is still in one."""
        for _ in range(_REMOVE_TRIES_MAX):
            below = [path for path in self.folder.glob("**/*") if path.is_dir()]
            for path in [*sorted(below, reverse=True), self.folder]:
                with suppress(OSError):
                    path.rmdir()
            if not self.folder.exists():
                return
            time.sleep(_POLL_S)

    def _write(self, name: str, value: bytes) -> None:
        # Without O_CREAT: a missing file means that the system does not support the function.
        descriptor = os.open(self.folder / name, os.O_WRONLY)
        try:
            os.write(descriptor, value)
        finally:
            os.close(descriptor)


def own_folder() -> Path | None:
    """Return the folder of this process's cgroup; None without cgroups of version 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    cgroup = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        if cgroup is not None and after.startswith("cgroup2 "):
            root, mounted_at = before.split()[3:5]
            # A container may see only its own part of the cgroup filesystem.
            if PurePosixPath(cgroup).is_relative_to(root):
                return Path(mounted_at, PurePosixPath(cgroup).relative_to(root))
    return None


def fresh_folder() -> str | None:
    """Return the folder of a cgroup that may be made below this process's; None without cgroups."""
    folder = own_folder()
    return None if folder is None else str(folder / f"interlock-{uuid4().hex}")
