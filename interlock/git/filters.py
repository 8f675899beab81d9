"""Filters of a repository, such as Git LFS: the programs that git runs for some of its files."""

from __future__ import annotations

import re
import shutil

from interlock.git.errors import Refusal, RefusedError
from interlock.git.program import ANY_CODE
from interlock.git.repository import Repository

LFS = "lfs"
_IN_ATTRIBUTES = re.compile(rb"\sfilter=(\S+)")
_PLAIN_PROGRAM = re.compile(r"[\w./+-]+")
_NO_LINE, _NO_COMMIT = 1, 128


def filters_of(repository: Repository, commit: str) -> frozenset[str]:
    """Return the filters that the attributes of a commit name; none if there is no such commit."""
    search = ("grep", "--no-color", "-h", "-I", "-E", r"^[^#].*[[:space:]]filter=", commit)
    files = ("--", ":(glob)**/.gitattributes")
    found = repository.git.run(*search, *files, allowed=(0, _NO_LINE, _NO_COMMIT))
    return frozenset(name.decode(errors="replace") for name in _IN_ATTRIBUTES.findall(found.output))


def refuse_unusable_filters(repository: Repository, commit: str) -> None:
    """Refuse a commit whose files git cannot check out, or would commit unfiltered, here.

    A filter that is not set up and not required is left out by git, as in the user's own files.
    Raises RefusedError.
    """
    for name in sorted(filters_of(repository, commit)):
        command = _setting(repository, name, "process") or _setting(repository, name, "smudge")
        if name == LFS and not has_lfs(repository):
            problem = f"{repository.root} keeps files in Git LFS, and git-lfs is not installed here"
            remedy = "install git-lfs on this computer, then run git lfs install"
            raise RefusedError(Refusal.FILTER_MISSING, problem, remedy)
        if name == LFS and command is None:
            problem = f"{repository.root} keeps files in Git LFS, which is not set up here"
            remedy = "run git lfs install as the user of the workers"
            raise RefusedError(Refusal.FILTER_MISSING, problem, remedy)
        program = command.split()[0] if command else ""
        is_missing = _PLAIN_PROGRAM.fullmatch(program) and shutil.which(program) is None
        if is_missing and _setting(repository, name, "required") == "true":
            problem = f"{repository.root} needs the filter {name!r}, and there is no {program} here"
            raise RefusedError(Refusal.FILTER_MISSING, problem, "install it on this computer")


def has_lfs(repository: Repository) -> bool:
    """Tell whether git finds the program of Git LFS."""
    return repository.git.run("lfs", "version", allowed=ANY_CODE).exit_code == 0


def _setting(repository: Repository, name: str, key: str) -> str | None:
    kind = ("--type=bool",) if key == "required" else ()
    found = repository.git.run("config", *kind, "--get", f"filter.{name}.{key}", allowed=ANY_CODE)
    return found.line() or None
