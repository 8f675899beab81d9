"""The status of a working tree, read by one git process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.git.program import Git

_COMMAND = ("status", "--porcelain=v2", "--branch", "-z", "--no-ahead-behind", "--no-renames")
# The number of spaces before the path in a line of this kind.
_SPACES = {"1": 8, "u": 10, "?": 1}


@dataclass(frozen=True, slots=True)
class Status:
    """The branch and commit that a working tree has checked out, and its uncommitted paths.

    `branch` is None if HEAD is detached, `commit` if there is none yet. `changed` are the tracked
    paths that differ from the commit, `unmerged` those of them with conflicts. An untracked path
    ends with a slash if it is a repository. `dirty` are the submodules with changed files: M for
    modified ones, U for untracked ones.
    """

    branch: str | None
    commit: str | None
    changed: tuple[str, ...]
    unmerged: tuple[str, ...]
    untracked: tuple[str, ...]
    dirty: Mapping[str, str]


def tracked_status(git: Git) -> Status:
    """Return the status of the tracked files; the content of submodules does not count."""
    return _status(git, "--untracked-files=no", "--ignore-submodules=dirty")


def whole_status(git: Git) -> Status:
    """Return the status with every untracked file and the content of submodules."""
    return _status(git, "--untracked-files=all", "--ignore-submodules=none")


def _status(git: Git, *options: str) -> Status:
    facts: dict[str, str] = {}
    paths: dict[str, list[str]] = {kind: [] for kind in _SPACES}
    dirty = dict[str, str]()
    for line in git.run(*_COMMAND, *options).names():
        if line.startswith("# "):
            name, _, value = line.removeprefix("# ").partition(" ")
            facts[name] = value
        else:
            fields = line.split(" ", _SPACES[line[0]])
            paths[line[0]].append(fields[-1])
            # A submodule has S, C, M and U there, or points.
            if fields[2:] and fields[2][0] == "S" and (kinds := fields[2][2:].replace(".", "")):
                dirty[fields[-1]] = kinds
    branch, commit = facts["branch.head"], facts["branch.oid"]
    return Status(
        None if branch == "(detached)" else branch,
        None if commit == "(initial)" else commit,
        (*paths["1"], *paths["u"]),
        tuple(paths["u"]),
        tuple(paths["?"]),
        dirty,
    )
