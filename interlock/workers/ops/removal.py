"""Finds all that a deployment keeps on this computer, and removes it.

That is its home, its worktrees, and what these left in repositories.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from interlock.git.agent_files import make_deletable
from interlock.git.errors import GitError
from interlock.git.refs import HEADS
from interlock.git.removable import (
    Removable,
    find_removable,
    remove_refs,
    remove_trees,
    repositories_of,
)
from interlock.git.repository import Repository
from interlock.kernel.errors import KernelError
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import root_of
from interlock.workers.config import PROJECT_HOME, Settings, SetupError
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.files.private import NotPrivateError
from interlock.workers.gateways.server import EmbeddedServer, private_socket
from interlock.workers.ops.home import FOLDERS_FILE, lock_home, noted_folders
from interlock.workers.processes.sandbox import Sandbox, SandboxError
from interlock.workers.systems import folders
from interlock.workers.terminal.screen import counted
from interlock.workers.up_file import LOCK_FILE

# What is in a home beside the folders of systems. Anything else in a folder that the user has
# chosen is not removed.
OF_HOME = (
    *("store", "log", "worktrees", "desk"),
    *("up.json", "up.lock", "ports.json", "flower.url", "api.token", "api.header", ".gitignore"),
    FOLDERS_FILE,
)
PROCESSES = Path("/proc")


@dataclass(slots=True)
class Removal:
    """What there is of a deployment: homes, the first with the others in it, and the rest."""

    homes: list[Path]
    worktrees: list[Path]  # folders that have worktrees in them
    there: list[Removable] = field(default_factory=list)
    # Stores and repositories that cannot be read, and why.
    unread: list[str] = field(default_factory=list)

    @property
    def entries(self) -> list[Path]:
        """Return the folders and files that go, but for worktrees."""
        home = self.homes[0]
        if PROJECT_HOME in home.parts:
            return [home] if home.exists() else []
        inner = [each for each in self.homes[1:] if each.parent == home]
        names = dict.fromkeys((*OF_HOME, *folders(), *noted_folders(home)))
        ours = (home / name for name in names)
        return [each for each in (*ours, *inner) if each.exists()]

    @property
    def unmerged(self) -> list[str]:
        """Return for each ref with work that is on no branch of the user a line about it."""
        return [
            f"{each.repository.root}: {name.removeprefix(HEADS)} ({counted(count, 'commit')})"
            for each in self.there
            for name, count in each.unmerged.items()
        ]

    def save_and_remove_trees(self) -> None:
        """Remove all worktrees; what agents have not committed is on their branches then."""
        for each in self.there:
            remove_trees(each)
        self.there = [_again(each) for each in self.there]

    def remove(self, *, unmerged: bool) -> list[str]:
        """Remove branches and folders. Return what stays: refs, and files of others in the home."""
        kept = [
            f"{each.repository.root}: {name.removeprefix(HEADS)}"
            for each in self.there
            for name in remove_refs(each, unmerged=unmerged)
        ]
        for path in (*self.worktrees, *self.entries):
            if path.is_dir() and not path.is_symlink():
                make_deletable(path)
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for folder in (*(each.parent for each in self.worktrees), self.homes[0]):
            with suppress(OSError):  # it is gone, or has files of others
                folder.rmdir()
        home = self.homes[0]
        return [*kept, *(map(str, sorted(home.iterdir())) if home.is_dir() else ())]


@contextmanager
def removal_of(settings: Settings) -> Iterator[Removal]:
    """Find what there is of the deployment; nothing starts in its homes until the block ends.

    Raises SetupError where it runs, or where there is nothing.
    """
    if settings.store_url is not None:
        raise SetupError(
            "INTERLOCK_STORE_URL names a store that stays: `remove` is for what `interlock up`"
            " keeps in its folder; end the workers that use this folder, and unset the variable"
        )
    home = settings.home.absolute()
    homes = [home, *(lock.parent for lock in sorted(home.glob(f"*/{LOCK_FILE}")))]
    every = [settings.model_copy(update={"home": each}) for each in homes]
    folders = [each.worktree_folder for each in every]
    found = Removal(homes, [folder for folder in folders if folder.exists()])
    if not found.entries and not found.worktrees:
        raise SetupError(f"there is nothing of Interlock in {home}")
    with ExitStack() as locks:
        for each in filter(Path.exists, homes):
            locks.callback(os.close, lock_home(each))
        refuse_running([*found.entries, *found.worktrees])
        for path, backlogs in _repositories(every, found).items():
            if any(path.is_relative_to(entry) for entry in found.entries):
                continue  # an example made it there
            try:
                repository = Repository.open(path, sandbox=Sandbox.open(settings))
                found.there.append(find_removable(repository, folders, backlogs))
            except (GitError, SandboxError, OSError) as refusal:
                found.unread.append(f"{path}: {refusal}")
        yield found


def refuse_running(folders: list[Path]) -> None:
    """Raise SetupError if a process works in one of these folders, such as an agent."""
    for process in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            place = Path(os.readlink(process / "cwd"))  # noqa: PTH115 - it is gone if it was deleted
            if any(place.is_relative_to(folder) for folder in folders):
                raise SetupError(f"process {process.name} works in {place}: end it first")


def _again(there: Removable) -> Removable:
    """Return the same, with what was saved meanwhile."""
    folders = [tree.folder for tree in there.trees]
    backlogs = {name.split("/")[3] for name in there.refs if not name.startswith(HEADS)}
    return find_removable(there.repository, folders, backlogs)


def _repositories(every: list[Settings], found: Removal) -> dict[Path, set[str]]:
    """Return the repositories of records and of worktrees, each with the roots of its records.

    A worktree may be there whose record the store has no more.
    """
    repositories: dict[Path, set[str]] = {}
    for one in every:
        try:
            for path, root in _repositories_of_records(one):
                repositories.setdefault(path.resolve(), set()).add(root)
        except (KernelError, NotPrivateError) as refusal:
            found.unread.append(f"{one.home}: {refusal}")
    for folder in found.worktrees:
        for path in repositories_of(folder):
            repositories.setdefault(path.resolve(), set())
    return repositories


def _repositories_of_records(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Yield the repositories of a home's records, each with the root of its record.

    Raises KernelError.
    """
    folder = settings.home.absolute() / "store"
    if not folder.exists():
        return
    with EmbeddedServer(folder, socket=private_socket(folder)) as server:
        of_store = settings.model_copy(update={"store_url": server.url})
        dispatch = Dispatch(of_store, MACHINES, patient=False)
        views = dispatch.views
        for machine in MACHINES.values():
            for record in views.each_record(views.ids(machine), readable_by=dispatch.machines):
                local = record.data.get("host") in (None, settings.host)
                if local and (path := record.data.get("repo")) and Path(str(path)).is_dir():
                    yield Path(str(path)), root_of(record.id)
