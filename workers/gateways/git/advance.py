"""Moving a branch together with the working tree that has it checked out; all or nothing.

Moving the branch alone would make that tree look as if its user had undone the merge. So git's own
fast-forward moves both: the tree first, which git refuses as long as anything of the user's is in
the way, then the branch. What a killed git leaves half-way is put back: a note names the commit,
and only files that hold exactly what that commit has are taken for ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.workers.gateways.git.branch import head, is_merged, resolve
from interlock.workers.gateways.git.checkout import (
    Checkout,
    changed_paths,
    checkout_of,
    refuse_changed,
    shown,
)
from interlock.workers.gateways.git.errors import (
    GitError,
    LockedError,
    Refusal,
    RefusedError,
    TimedOutError,
)
from interlock.workers.gateways.git.program import Git
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.text import sentence

_NOTES = "refs/interlock/merging/"
_CLEAR = "commit, stash or move it, then the merge can go on"
_FAST_FORWARD = (
    *("merge", "--ff-only", "--commit", "--no-squash", "--no-autostash", "--no-stat", "--quiet"),
    # Without it git writes over files that are ignored, and a user's .env is one.
    *("--no-overwrite-ignore", "--no-verify-signatures"),
)


def advance(repository: Repository, checkout: Checkout, *, target: str, old: str, new: str) -> bool:
    """Move the target and the clean checkout of it to a commit that follows; tell whether it did.

    It did not if somebody else moved the target. Raises RefusedError, with nothing changed, if
    something of the user's is in the way.
    """
    git = repository.git.at(checkout.folder, GIT_REFLOG_ACTION="interlock merge")
    refuse_changed(git, changed_paths(git), remedy=_CLEAR)
    _refuse_in_the_way(git, old=old, new=new)
    repository.git.run("update-ref", _NOTES + target, new)
    try:
        finished = git.run(*_FAST_FORWARD, new, allowed=range(-64, 256))
    except TimedOutError:
        with suppress(GitError):
            put_back(repository, target)
        raise
    if is_merged(repository, new, target):
        _forget(repository, target)
        return True
    put_back(repository, target)
    if head(repository, target) != old:
        return False
    failure = git.failure("merge", finished)
    if isinstance(failure, LockedError):
        raise failure
    problem = f"git does not update {checkout.folder}: {sentence(finished.said)}"
    raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "end that, then the merge can go on")


def put_back(repository: Repository, target: str) -> None:
    """Undo in the target's checkout what a killed merge began there. A repeat is no error.

    Raises RefusedError, with nothing changed, if the user has worked on top of it.
    """
    new = resolve(repository, _NOTES + target)
    if new is None:
        return
    old = repository.git.line("rev-parse", "--verify", f"{new}^1")
    # Had the target moved, the merge came through, or its user has settled what was there.
    if head(repository, target) == old:
        checkout = checkout_of(repository, target)
        if checkout is not None:
            _restore(repository.git.at(checkout.folder), old=old, new=new)
    _forget(repository, target)


def _restore(git: Git, *, old: str, new: str) -> None:
    changed = _changed_between(git, old, new)
    with _index_of(git, new) as other:
        other.run("update-index", "-q", "--refresh", allowed=(0, 1))
        listing = other.run("diff-files", "--name-only", "-z", "--ignore-submodules=dirty")
    differs = set(listing.names())
    ours = {
        path
        for path, kind in changed.items()
        if path not in differs and not (kind == "D" and os.path.lexists(git.folder / path))
    }
    strange = tuple(path for path in changed_paths(git) if path not in ours)
    refuse_changed(git, strange, remedy=_CLEAR)
    if ours:
        given = b"".join(os.fsencode(path) + b"\0" for path in sorted(ours))
        git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", given=given)
        # Of two trees, the first is what the files are known to hold; all else stays as it is.
        git.run("read-tree", "-m", "-u", new, old)


@contextmanager
def _index_of(git: Git, commit: str) -> Iterator[Git]:
    with TemporaryDirectory(prefix="interlock-") as folder:
        other = git.at(git.folder, GIT_INDEX_FILE=str(Path(folder) / "index"))
        other.run("read-tree", commit)
        yield other


def _refuse_in_the_way(git: Git, *, old: str, new: str) -> None:
    added = [path for path, kind in _changed_between(git, old, new).items() if kind == "A"]
    places = ((path, git.folder / path) for path in added)
    taken = tuple(p for p, place in places if os.path.lexists(place) and not _is_folder(place))
    if taken:
        problem = f"the merge adds {shown(taken)}, which {git.folder} has without git"
        raise RefusedError(Refusal.DIRTY, problem, _CLEAR)


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _changed_between(git: Git, old: str, new: str) -> dict[str, str]:
    names = git.run("diff-tree", "-r", "-z", "--name-status", "--no-renames", old, new).names()
    return dict(zip(names[1::2], names[::2], strict=True))


def _forget(repository: Repository, target: str) -> None:
    repository.git.run("update-ref", "-d", _NOTES + target)
