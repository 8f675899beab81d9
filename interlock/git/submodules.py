"""Submodules of worktrees: checked out at their recorded commits, and not changed by agents.

Git gives each worktree its own copy of a submodule. It is made from the copy that the user's
repository has, without a network, if the recorded commit is there. Otherwise git fetches it from
the address in `.gitmodules`, as far as the user's settings allow: by default git takes no submodule
from a folder, because whoever can write `.gitmodules` could choose the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.git.checkout import shown
from interlock.git.errors import Refusal, RefusedError
from interlock.git.program import ANY_CODE, Git

MODULES = ".gitmodules"
# Fetching a large submodule takes longer than other commands of git. A connection that stands still
# ends earlier.
FETCH_S = 1_800.0
DEPTH_MAX = 10
_LINK = "160000"
_FALSE = ("false", "no", "off", "0")
# What may be lost inside of a submodule, by its setting `ignore`.
_MAY_BE_LOST = {"untracked": "U", "dirty": "UM", "all": "UM"}
_FORBIDDEN = "transport 'file' not allowed"


@dataclass(frozen=True, slots=True)
class Submodule:
    """A submodule of a commit, with its settings in `.gitmodules` and those of the user."""

    name: str
    path: str
    commit: str
    settings: Mapping[str, str]

    @property
    def is_wanted(self) -> bool:
        """Whether no setting leaves it out."""
        is_active = self.settings.get("active", "").lower() not in _FALSE
        return is_active and self.settings.get("update") != "none"


def check_out_submodules(git: Git, store: Path, *, depth: int = 1) -> None:
    """Check out the submodules of a new worktree, and those inside of them.

    `store` is where the user's repository keeps its copies of them. No setting of the user is
    written. Raises RefusedError for a submodule in a folder that git may not use, and FailedError
    for one that cannot be fetched.
    """
    for module in _submodules(git):
        if not module.is_wanted:
            continue
        if depth > DEPTH_MAX:
            problem = f"{git.folder} has submodules inside of each other, {DEPTH_MAX} deep and more"
            remedy = f"set submodule.{module.name}.update to none in the one that has it"
            raise RefusedError(Refusal.SUBMODULE, problem, remedy)
        copy = _copy_in(store, module.name)
        if _has_commit(git, copy, module.commit):
            _check_out_copy(git, module, copy)
        else:
            _fetch(git, module)
        inside = git.in_folder(git.folder / module.path)
        check_out_submodules(inside, copy / "modules", depth=depth + 1)


def refuse_changed_files(git: Git, dirty: Mapping[str, str]) -> None:
    """Refuse work on files of submodules of a worktree, because no commit would keep it.

    `dirty` has the kinds of such files for each path: M for modified, U for untracked. Raises
    RefusedError.
    """
    if not dirty:
        return
    settings = _settings(git, "--file", MODULES)
    lost = tuple(
        path
        for path, kinds in dirty.items()
        if set(kinds) - {*_MAY_BE_LOST.get(settings.get(path, {}).get("ignore", ""), "")}
    )
    if lost:
        problem = f"{git.folder} has changed files in the submodule {shown(lost)}"
        remedy = (
            "change them in a task of the submodule's own repository; for files that may be lost, "
            "set submodule.NAME.ignore to untracked or dirty"
        )
        raise RefusedError(Refusal.SUBMODULE, problem, remedy)


def refuse_own_commits(git: Git, store: Path, moved: Mapping[str, str]) -> None:
    """Refuse submodules whose new commit is only in this worktree, because others could not get it.

    `moved` has the new commit for each path. Raises RefusedError.
    """
    if not moved:
        return
    settings = _settings(git, "--file", MODULES)
    lost = tuple(
        path
        for path, commit in moved.items()
        if not _has_commit(git, _copy_in(store, settings.get(path, {}).get("name", path)), commit)
        and not _is_of_remote(git.in_folder(git.folder / path), commit)
    )
    if lost:
        problem = f"{git.folder} has commits of its own in the submodule {shown(lost)}"
        remedy = "push them from a clone of the submodule's own repository, then use them here"
        raise RefusedError(Refusal.SUBMODULE, problem, remedy)


def _submodules(git: Git) -> Iterator[Submodule]:
    """Yield the submodules of the commit that a worktree has checked out."""
    if not os.path.lexists(git.folder / MODULES):
        return
    settings = _settings(git, "--blob", f"HEAD:{MODULES}")
    if not settings:
        return
    listing = git.run("--literal-pathspecs", "ls-tree", "-z", "HEAD", "--", *settings)
    for entry in listing.names():
        facts, _, path = entry.partition("\t")
        mode, _, commit = facts.split()
        if mode == _LINK and path in settings:
            yield Submodule(settings[path]["name"], path, commit, settings[path])


def _settings(git: Git, *source: str) -> dict[str, dict[str, str]]:
    """Return the settings and names of submodules by their paths; those of the user come first."""
    by_name: dict[str, dict[str, str]] = {}
    for options in (source, ()):
        # Git exits with 1 if there is no such setting.
        command = ("config", "-z", *options, "--get-regexp", r"^submodule\.")
        for entry in git.run(*command, allowed=(0, 1)).names():
            key, _, value = entry.partition("\n")
            name, _, field = key.removeprefix("submodule.").rpartition(".")
            if name:
                by_name.setdefault(name, {})[field] = value
    return {of["path"]: {**of, "name": name} for name, of in by_name.items() if "path" in of}


def _copy_in(store: Path, name: str) -> Path:
    """Return the folder of the user's copy of a submodule. Raises RefusedError for one elsewhere.

    Whoever can write `.gitmodules` chooses the name; git would run programs that are named in the
    configuration of another folder.
    """
    copy = store / name
    if name in ("", ".") or ".." in Path(name).parts or not copy.is_relative_to(store):
        problem = f"the name of the submodule {name!r} in {MODULES} leads out of git's own folder"
        raise RefusedError(Refusal.SUBMODULE, problem, "give it a plain name, such as its path")
    return copy


def _has_commit(git: Git, copy: Path, commit: str) -> bool:
    look = (f"--git-dir={copy}", "cat-file", "-e", f"{commit}^{{commit}}")
    here = git.in_folder(git.folder, GIT_NO_LAZY_FETCH="1")
    return here.run(*look, allowed=ANY_CODE).exit_code == 0


def _is_of_remote(git: Git, commit: str) -> bool:
    if not (git.folder / ".git").exists():
        return False
    look = ("for-each-ref", "--count=1", "--contains", commit, "refs/remotes")
    return bool(git.run(*look, allowed=ANY_CODE).output)


def _check_out_copy(git: Git, module: Submodule, copy: Path) -> None:
    """Check a submodule out from the user's copy of it, and let it have the copy's remote."""
    # Git may use a folder here, because the user's own git has made this one. Nothing that this
    # call checks out can name another.
    allowed = {f"submodule.{module.name}.url": str(copy), "protocol.file.allow": "always"}
    _update(git, module, allowed)
    inside = git.in_folder(git.folder / module.path)
    address = ("config", "--get", "remote.origin.url")
    if found := inside.run(f"--git-dir={copy}", *address, allowed=(0, 1)).line():
        inside.run("config", "remote.origin.url", found)


def _fetch(git: Git, module: Submodule) -> None:
    _update(replace(git, command_s=max(FETCH_S, git.command_s)), module, {})


def _update(git: Git, module: Submodule, settings: Mapping[str, str]) -> None:
    chosen = {**settings, f"submodule.{module.name}.active": "true"}
    update = ("submodule", "--quiet", "update", "--checkout", "--", module.path)
    finished = git.with_settings(chosen).run(*update, allowed=ANY_CODE)
    # Git ignores a submodule whose name could lead it out of its folder, with exit code 0.
    if finished.exit_code == 0 and (git.folder / module.path / ".git").exists():
        return
    if _FORBIDDEN in finished.stderr:
        problem = f"the submodule {module.path!r} is in a folder, from which git takes none"
        remedy = (
            f"run git -c protocol.file.allow=always submodule update --init {module.path} in the "
            "repository if you trust that folder: the copy that it makes is used then"
        )
        raise RefusedError(Refusal.SUBMODULE, problem, remedy)
    raise git.failure(f"submodule update of {module.path!r}", finished)
