"""The sandbox of the commands that Interlock runs for work, and of git over the files of agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from interlock.git.repository import Repository
from interlock.git.worktree import own_sandbox
from interlock.workers.config import Settings, SetupError
from interlock.workers.processes.sandbox import Sandbox, probe
from interlock.workers.setting_values import HIDDEN

# The levels: how far a command is kept from the deployment that runs it.
NONE, BUBBLEWRAP = "none", "bubblewrap"
# What `doctor` says of the agents of a computer.
SAID_OF = {
    BUBBLEWRAP: "in a sandbox of bubblewrap",
    NONE: "in no sandbox: they can do what the user of the worker can, also answer cards",
}
OPEN_STORE = ", but the store asks for no password, so they can answer cards: give it one"


class SandboxError(SetupError):
    """INTERLOCK_SANDBOX requires a sandbox, and this computer can make none: change either."""


def open_sandbox(settings: Settings) -> Sandbox | None:
    """Return the sandbox of this computer; None if it makes none. Raises SandboxError.

    What a command needs of the hidden folders has to be added.
    """
    if settings.sandbox == "off":
        return None
    problem = _problem()
    if problem and settings.sandbox == "required":
        raise SandboxError(
            f"INTERLOCK_SANDBOX=required, and no sandbox can be made here: {problem}. "
            "docs/tasks.md says what a computer needs for it"
        )
    return None if problem else sandbox_of_level(settings, BUBBLEWRAP)


def sandbox_of_level(settings: Settings, level: str) -> Sandbox | None:
    """Return the sandbox of a level that this computer had when it was asked before."""
    if level != BUBBLEWRAP:
        return None
    return Sandbox(
        hidden=tuple(_hidden(settings)),
        sockets=tuple(_sockets(settings)),
        writable=tuple(map(Path, settings.sandbox_writable)),
    )


def folder_sandbox(settings: Settings, folder: Path) -> Sandbox | None:
    """Return the sandbox of commands in a folder of a user. Raises SandboxError.

    If the folder is a repository, they can only read what git keeps: by many of those files the
    user's git runs programs or, where they are links, writes to other files.
    """
    sandbox = open_sandbox(settings)
    return sandbox and own_sandbox(sandbox, folder.resolve())


def check_sandbox(sandbox: Sandbox | None, repo: str, folder: Path) -> Sandbox | None:
    """Return the sandbox of commands that check a worktree: its repository can only be read.

    Raises RefusedError for a worktree that is a link.
    """
    return sandbox and own_sandbox(sandbox, folder).with_more(read_only=[Path(repo)])


def sandbox_level(settings: Settings) -> str:
    """Return the level of this computer. Raises SandboxError."""
    return NONE if open_sandbox(settings) is None else BUBBLEWRAP


def level_text(claim: Mapping[str, Any] | None) -> str:
    """Return the level of the sandbox of who has a claim, for people; '' if it is not known."""
    level = str((claim or {}).get("sandbox", ""))
    return f"{level}: a person's approval does not hold against it" if level == NONE else level


def open_repository(settings: Settings, path: Path) -> Repository:
    """Open a repository in whose worktrees agents work. Raises GitError, SandboxError."""
    return Repository.open(path, sandbox=open_sandbox(settings))


@cache
def _problem() -> str:
    """Return why this computer can make no sandbox, or ''. A process finds it out once."""
    return probe()


def _hidden(settings: Settings) -> Iterator[Path]:
    """Yield where secrets and the work of others are: commands are shown their own parts."""
    yield from (settings.home.absolute(), settings.worktree_folder)
    if settings.worktrees is None:
        yield settings.worktree_folder.parent  # that of all homes of this user
    named = type(settings).model_fields.items()
    paths = (getattr(settings, name) for name, field in named if HIDDEN in field.metadata)
    yield from filter(None, paths)
    yield from map(Path, settings.sandbox_hidden)


def _sockets(settings: Settings) -> Iterator[Path]:
    """Yield the sockets of the store and the broker: they may ask for no password."""
    for url in (settings.store_url, settings.broker_url):
        if url is not None and url.startswith("unix:"):
            yield Path(urlsplit(url).path)
