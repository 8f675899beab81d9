"""Runs commands in a sandbox, which bubblewrap makes: a view of the file system and processes.

A command in it has no capabilities, so it cannot look into the processes outside, and it cannot
look into `hidden` files and folders. In a closed sandbox it can write to the `writable` ones only,
has a home folder, /tmp and /run of its own, where a new file is gone when it ends, and sees neither
processes outside nor sockets. In an open one it keeps the ids of processes, because commands that
share a folder name their files by them. The network is that of the computer: agents ask models
there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from interlock.workers.config import Settings, SetupError
from interlock.workers.inherited import inherited
from interlock.workers.processes.sockets import Mounts, entries_of, hide_of_open, hide_sockets

PROGRAM = "bwrap"
PROBE_S = 20.0
# Bubblewrap itself ignores SIGTERM, since it would die of it and take the command with it. The
# command gets the default action back, and acts on the signal.
_START = "trap '' TERM; exec \"$@\""
_IN_SANDBOX = ("env", "--default-signal=TERM", "--")
_CONFINED = ("--unshare-ipc", "--cap-drop", "ALL")
# Folders of the computer in which programs leave files and sockets for each other: sockets of
# docker, of the session bus or of tmux would lead out of the sandbox.
_SHARED = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - the folders themselves
# What programs need of /run: how names are looked up, and the programs of NixOS.
_SHOWN_OF_RUN = ("NetworkManager/resolv.conf", "resolvconf", "systemd/resolve", "current-system")
# Where this program itself is: `interlock report` is run in the sandbox, wherever it is installed.
_OURS = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2])


class SandboxError(SetupError):
    """INTERLOCK_SANDBOX requires a sandbox, and this computer can make none: change either."""


def home_folder() -> Path | None:
    """Return the home folder of this user, if there is one besides the root of the file system."""
    with suppress(OSError, RuntimeError):
        home = Path.home().resolve()
        if home.is_dir() and home != Path("/") and os.access(home, os.R_OK):
            return home
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a command sees.

    Of the paths in these fields, the longest that contains a file decides whether the file is
    hidden, readable or writable. `open` returns the sandbox of this computer, which hides secrets
    and the work of others. What a command needs is added: `interlock.git` adds a worktree
    (`own_sandbox`) or an agent's copy of its repository (`sandbox_of`), and `with_more` any path.
    `sockets` are hidden also where a server makes them later. `read_only` are parts of writable
    folders. `placed` and `shown` have pairs of a source and the target where it is seen; what is
    `placed` can be written. Paths that do not exist are left out. A closed sandbox also gives the
    command an own /tmp and an own `home`, in which the entries of the real one can be read, and
    lets it write to nothing else; with `is_closed=False` it only hides. A level says which
    kind a computer makes: NONE or BUBBLEWRAP.
    """

    NONE: ClassVar[str] = "none"
    BUBBLEWRAP: ClassVar[str] = "bubblewrap"

    hidden: Sequence[Path]
    sockets: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    read_only: Sequence[Path] = ()
    placed: Sequence[tuple[Path, Path]] = ()
    shown: Sequence[tuple[Path, Path]] = ()
    is_closed: bool = True
    home: Path | None = field(default_factory=home_folder)

    @classmethod
    def open(cls, settings: Settings) -> Sandbox | None:
        """Return the sandbox of this computer; None if it makes none. Raises SandboxError."""
        if settings.sandbox == "off":
            return None
        problem = _problem()
        if problem and settings.sandbox == "required":
            raise SandboxError(
                f"INTERLOCK_SANDBOX=required, and no sandbox can be made here: {problem}. "
                "docs/tasks.md says what a computer needs for it"
            )
        return None if problem else cls._of(settings)

    @classmethod
    def level(cls, settings: Settings) -> str:
        """Return the level of this computer. Raises SandboxError."""
        return cls.NONE if cls.open(settings) is None else cls.BUBBLEWRAP

    @classmethod
    def of_level(cls, settings: Settings, level: str) -> Sandbox | None:
        """Return the sandbox of the level that this computer had when it was asked before."""
        return cls._of(settings) if level == cls.BUBBLEWRAP else None

    @classmethod
    def _of(cls, settings: Settings) -> Sandbox:
        return cls(
            hidden=tuple(_hidden_by(settings)),
            sockets=tuple(_sockets_of(settings)),
            writable=tuple(map(Path, settings.sandbox_writable)),
        )

    def with_more(
        self,
        *,
        hidden: Iterable[Path] = (),
        writable: Iterable[Path] = (),
        read_only: Iterable[Path] = (),
        placed: Iterable[tuple[Path, Path]] = (),
        shown: Iterable[tuple[Path, Path]] = (),
    ) -> Sandbox:
        """Return this sandbox with more of these."""
        return replace(
            self,
            hidden=(*self.hidden, *hidden),
            writable=(*self.writable, *writable),
            read_only=(*self.read_only, *read_only),
            placed=(*self.placed, *placed),
            shown=(*self.shown, *shown),
        )

    def around(self, command: Sequence[str], folder: Path) -> list[str]:
        """Return the command that runs this one in the sandbox, in a folder."""
        mounts, sockets, read_only = self._mounts(), self._sockets(), list[Path]()
        if self.is_closed:
            read_only = hide_sockets(mounts, sockets=sockets, home=self.home)
        else:
            hide_of_open(mounts, sockets)
        outer_first = sorted(mounts, key=lambda path: len(path.parts))
        arguments = [argument for path in outer_first for argument in mounts[path]]
        for path in read_only:
            arguments += ["--remount-ro", str(path)]
        program = shutil.which(PROGRAM) or PROGRAM
        return [
            *("/bin/sh", "-c", _START, "sandbox"),
            *(program, *_CONFINED, *arguments, "--chdir", str(folder)),
            *("--", *_IN_SANDBOX, *command),
        ]

    def _mounts(self) -> Mounts:
        # Without a namespace of its own for users, root could look through /proc into processes
        # that have no capabilities either, such as that of bubblewrap, which sees all files.
        mounts: Mounts = {Path("/"): ("--unshare-user", "--dev-bind", "/", "/")}
        hidden = _real(self.hidden)
        if self.is_closed:
            mounts[Path("/")] = ("--unshare-pid", "--ro-bind", "/", "/")
            mounts[Path("/proc")] = ("--proc", "/proc")
            mounts[Path("/dev")] = ("--dev", "/dev")
            for path in _real(map(Path, _SHARED)):
                mounts[path] = ("--tmpfs", str(path))
            for path in _real((*(Path("/run", name) for name in _SHOWN_OF_RUN), *_OURS)):
                mounts[path] = _bound("--ro-bind-try", path)
            mounts |= self._home_mounts(hidden)
        for path in hidden:
            if path.is_dir():
                mounts[path] = ("--tmpfs", str(path))
            elif not any(path.is_relative_to(other) for other in hidden if other != path):
                mounts[path] = ("--ro-bind", os.devnull, str(path))
        for path in _real(self.writable):
            is_device = path.is_relative_to("/dev")
            mounts[path] = _bound("--dev-bind-try" if is_device else "--bind-try", path)
        for how, pairs in (("--bind", self.placed), ("--ro-bind", self.shown)):
            mounts |= {target: (how, str(source), str(target)) for source, target in pairs}
        for path in sorted({*_real(self.read_only)} - {*hidden}):
            mounts[path] = _bound("--ro-bind-try", path)
        return mounts

    def _sockets(self) -> list[Path]:
        """Return where sockets are, or will be, without the links in their folders."""
        named = (*self.sockets, *(path for path in _real(self.hidden) if path.is_socket()))
        return [folder / path.name for path in named for folder in _real([path.parent])]

    def _home_mounts(self, hidden: Sequence[Path]) -> Mounts:
        """Return an own home folder, in which all that the real one has can be read."""
        home = self.home
        if home is None or any(home.is_relative_to(path) for path in hidden):
            return {}
        return entries_of(home)


def _hidden_by(settings: Settings) -> Iterator[Path]:
    """Yield where secrets and the work of others are: commands are shown their own parts."""
    yield from (settings.home.absolute(), settings.worktree_folder)
    if settings.worktrees is None:
        yield settings.worktree_folder.parent  # that of all homes of this user
    for part in (settings, *settings.parts):
        yield from filter(None, (getattr(part, name) for name in part.hidden_files()))
    yield from map(Path, settings.sandbox_hidden)


def _sockets_of(settings: Settings) -> Iterator[Path]:
    """Yield the sockets of the store and the broker: they may ask for no password."""
    for url in (settings.store_url, settings.broker_url):
        if url is not None and url.startswith("unix:"):
            yield Path(urlsplit(url).path)


@cache
def _problem() -> str:
    """Return why this computer can make no sandbox, or ''. A process finds it out once."""
    return probe()


def probe() -> str:
    """Return why this computer can make no sandbox, or '' if it can."""
    if shutil.which(PROGRAM) is None:
        return f"the program {PROGRAM} is not installed; it is in the package bubblewrap"
    kinds = (Sandbox(hidden=(), is_closed=is_closed) for is_closed in (True, False))
    return next(filter(None, map(_problem_of, kinds)), "")


def _problem_of(sandbox: Sandbox) -> str:
    command = sandbox.around(["true"], Path("/"))
    try:
        done = subprocess.run(
            command,
            env=inherited(),
            capture_output=True,
            timeout=PROBE_S,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"{PROGRAM} has made none within {PROBE_S:g} s"
    except OSError as error:
        return f"{PROGRAM} cannot be started: {error.strerror}"
    if done.returncode == 0:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"{PROGRAM} ended with {done.returncode}"


def _bound(how: str, path: Path) -> tuple[str, str, str]:
    return how, str(path), str(path)


def _real(paths: Iterable[Path]) -> list[Path]:
    """Return paths without the links in them; those that do not exist are left out."""
    return list(_existing(paths))


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        with suppress(OSError, RuntimeError):
            yield path.expanduser().resolve(strict=True)
