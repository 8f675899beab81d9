"""A cgroup (version 2) for one agent's processes; what cannot be made to work is never used."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

_REMOVE_TRIES_MAX = 40
_POLL_S = 0.005


class Cgroup:
    """A folder of the cgroup filesystem, and the processes in it and below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path) -> Cgroup | None:
        """Make it and try what ending needs; None where the system does not let us."""
        made = cls(folder)
        try:
            folder.mkdir()
        except OSError:
            return None
        try:
            # Harmless in an empty cgroup, and the proof that killing works and is ours to do.
            made._write("cgroup.kill", b"1")
            (folder / "cgroup.events").read_bytes()
        except OSError:
            made.remove()
            return None
        return made

    def join(self) -> None:
        """Move the calling process in. Raises OSError where the system refuses."""
        self._write("cgroup.procs", b"0")

    def members(self) -> set[int]:
        """Return the numbers of the processes in it and in every cgroup below it."""
        found = set[int]()
        for file in self.folder.glob("**/cgroup.procs"):
            with suppress(OSError):
                found.update(int(line) for line in file.read_bytes().split())
        return found

    def kill(self) -> None:
        """Kill everyone at once; the system lets no fork slip through."""
        with suppress(OSError):
            self._write("cgroup.kill", b"1")

    def populated(self) -> bool:
        """Tell whether a live process is in it or below it."""
        try:
            return b"populated 0" not in (self.folder / "cgroup.events").read_bytes()
        except FileNotFoundError:
            return False

    def cpu_s(self) -> float | None:
        """Return the processor time of all who were ever in it, if the system counts it."""
        with suppress(OSError, ValueError):
            for line in (self.folder / "cpu.stat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "usage_usec":
                    return int(value) / 1e6
        return None

    def remove(self) -> None:
        """Remove it and what the agent made below it; what still holds a process stays."""
        for _ in range(_REMOVE_TRIES_MAX):
            below = [path for path in self.folder.glob("**/*") if path.is_dir()]
            for path in [*sorted(below, reverse=True), self.folder]:
                with suppress(OSError):
                    path.rmdir()
            if not self.folder.exists():
                return
            time.sleep(_POLL_S)

    def _write(self, name: str, word: bytes) -> None:
        # Never creates: where the file is missing, the system lacks what it stands for.
        descriptor = os.open(self.folder / name, os.O_WRONLY)
        try:
            os.write(descriptor, word)
        finally:
            os.close(descriptor)


def own_folder() -> Path | None:
    """Return the folder of this process's own cgroup; None where there is no version 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    own = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        if own is not None and after.startswith("cgroup2 "):
            root, place = before.split()[3:5]
            # A container may see its own part of the filesystem only.
            if PurePosixPath(own).is_relative_to(root):
                return Path(place, PurePosixPath(own).relative_to(root))
    return None
