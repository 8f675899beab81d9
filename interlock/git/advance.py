"""Moves a branch together with the working tree that has it checked out, or moves neither.

If only the branch moved, that tree would look as if its user had undone the merge. So git's own
fast-forward moves both: first the tree, which git refuses if a file of the user is in the way, then
the branch. A ref below `refs/interlock/merging/` names the new commit until both have moved. If git
is killed before that, the next call undoes the move: it puts those files back that have exactly the
content of the new commit, because the user has not touched them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.git.branch import contains, head
from interlock.git.checkout import Checkout, checkout_of, refuse_changed, shown
from interlock.git.errors import (
    GitError,
    LockedError,
    Refusal,
    RefusedError,
    TimedOutError,
)
from interlock.git.program import ANY_CODE, Git
from interlock.git.refs import HEADS, read_refs, update_refs
from interlock.git.repository import Repository
from interlock.git.status import tracked_status
from interlock.workers.text import one_line

MERGING = "refs/interlock/merging/"
_CLEAR = "commit, stash or move it, then the merge can go on"
_FAST_FORWARD = (
    *("merge", "--ff-only", "--commit", "--no-squash", "--no-autostash", "--no-stat", "--quiet"),
    # Otherwise git overwrites ignored files, such as a user's .env.
    *("--no-overwrite-ignore", "--no-verify-signatures"),
)


def refuse_in_the_way(repository: Repository, checkout: Checkout, *, old: str, new: str) -> None:
    """Refuse to move a checkout in which a file of the user is in the way. Raises RefusedError."""
    git = repository.git.in_folder(checkout.folder)
    refuse_changed(git, tracked_status(git).changed, remedy=_CLEAR)
    added = [path for path, kind in _changed_between(git, old, new).items() if kind == "A"]
    files = ((path, git.folder / path) for path in added)
    taken = tuple(path for path, file in files if os.path.lexists(file) and not _is_folder(file))
    if taken:
        problem = f"the merge adds {shown(taken)}, which {git.folder} has as untracked files"
        raise RefusedError(Refusal.DIRTY, problem, _CLEAR)


def advance(repository: Repository, checkout: Checkout, *, target: str, old: str, new: str) -> bool:
    """Move the target and its clean checkout to a later commit; return whether they moved.

    They do not move if somebody else moved the target. Raises RefusedError, with nothing changed,
    if git does not update the checkout. Call `refuse_in_the_way` first.
    """
    git = repository.git.in_folder(checkout.folder, GIT_REFLOG_ACTION="interlock merge")
    repository.git.run("update-ref", MERGING + target, new)
    try:
        finished = git.run(*_FAST_FORWARD, new, allowed=ANY_CODE)
    except TimedOutError:
        with suppress(GitError):
            put_back(repository, target)
        raise
    if finished.exit_code == 0 and _forget_at(repository, target, new):
        return True
    if (now := head(repository, target)) and contains(repository, now, new):
        _forget(repository, target)
        return True
    put_back(repository, target)
    if now != old:
        return False
    failure = git.failure("merge", finished)
    if isinstance(failure, LockedError):
        raise failure
    problem = f"git does not update {checkout.folder}: {one_line(finished.stderr)}"
    raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "end that, then the merge can go on")


def put_back(repository: Repository, target: str) -> None:
    """Undo what a killed merge did to the target's checkout. A repetition changes nothing.

    Raises RefusedError, with nothing changed, if the user has worked on top of it.
    """
    refs = read_refs(repository, MERGING + target, HEADS + target)
    if MERGING + target not in refs:
        return
    new, now = refs[MERGING + target].sha, refs.get(HEADS + target)
    old = repository.git.line("rev-parse", "--verify", f"{new}^1")
    # If the target has moved, the merge was complete, or the user has resolved it.
    if now is not None and now.sha == old:
        checkout = checkout_of(repository, target)
        if checkout is not None:
            _restore(repository.git.in_folder(checkout.folder), old=old, new=new)
    _forget(repository, target)


def _restore(git: Git, *, old: str, new: str) -> None:
    changed = _changed_between(git, old, new)
    with _index_of(git, new) as other:
        other.run("update-index", "-q", "--refresh", allowed=(0, 1))
        listing = other.run("diff-files", "--name-only", "-z", "--ignore-submodules=dirty")
    differs = set(listing.names())
    merged = {
        path
        for path, kind in changed.items()
        if path not in differs and not (kind == "D" and os.path.lexists(git.folder / path))
    }
    others = tuple(path for path in tracked_status(git).changed if path not in merged)
    refuse_changed(git, others, remedy=_CLEAR)
    if merged:
        stdin = b"".join(os.fsencode(path) + b"\0" for path in sorted(merged))
        git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=stdin)
        # These files have the content of `new` now, and get the content of `old`.
        git.run("read-tree", "-m", "-u", new, old)


@contextmanager
def _index_of(git: Git, commit: str) -> Iterator[Git]:
    with TemporaryDirectory(prefix="interlock-") as folder:
        other = git.in_folder(git.folder, GIT_INDEX_FILE=str(Path(folder) / "index"))
        other.run("read-tree", commit)
        yield other


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _changed_between(git: Git, old: str, new: str) -> dict[str, str]:
    names = git.run("diff-tree", "-r", "-z", "--name-status", "--no-renames", old, new).names()
    return dict(zip(names[1::2], names[::2], strict=True))


def _forget(repository: Repository, target: str) -> None:
    repository.git.run("update-ref", "-d", MERGING + target)


def _forget_at(repository: Repository, target: str, commit: str) -> bool:
    """Forget that the target is being moved, if it is at this commit; return whether it is."""
    commands = (("verify", HEADS + target, commit), ("delete", MERGING + target, ""))
    finished = update_refs(repository, commands, reason="interlock: merged", allowed=(0, 1, 128))
    return finished.exit_code == 0
