"""Reads and changes several refs by one git process, by their whole names.

Git could take a short name for a tag or another expression.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from interlock.git.program import GitResult
from interlock.git.repository import Repository

HEADS = "refs/heads/"
_FIELDS = (
    *("%(refname)", "%(objectname)", "%(tree)", "%(worktreepath)"),
    "%(if:equals=blob)%(objecttype)%(then)%(raw)%(end)",
)
_FORMAT = "".join(f"{field}%00" for field in _FIELDS)
_ILLEGAL = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|/(\.|/|\Z)|\.lock(/|\Z)|\.\Z")


@dataclass(frozen=True, slots=True)
class Ref:
    """The object that a ref names, the tree of it if it is a commit, its content if it is a blob.

    `checkout` is the folder of a working tree that has this branch checked out, or empty.
    """

    sha: str
    tree: str
    checkout: str
    content: bytes


def read_refs(repository: Repository, *names: str) -> dict[str, Ref]:
    """Return those of the refs that exist, by their whole names.

    For a name that ends with a slash, these are all refs below it. Further refs may be among them,
    if a name is no legal one: look up each by its whole name.
    """
    fields = repository.git.run("for-each-ref", f"--format={_FORMAT}", *names).output.split(b"\0")
    # Git ends each ref with a newline, which then stands before the name of the next one.
    every = [iter(fields[:-1])] * len(_FIELDS)
    return {
        os.fsdecode(name.removeprefix(b"\n")): Ref(
            sha.decode(), tree.decode(), os.fsdecode(checkout), content
        )
        for name, sha, tree, checkout, content in zip(*every, strict=True)
    }


def exactly(name: str) -> str:
    """Return the name of a ref so that `read_refs` reads this ref alone, and none below it."""
    return f"{name[:-1]}[{name[-1]}]"


def update_refs(
    repository: Repository,
    *transactions: Sequence[tuple[str, ...]],
    reason: str,
    allowed: Collection[int] = (0,),
) -> GitResult:
    """Run transactions one after the other until one fails; that one changes nothing.

    A transaction is a list of commands of `git update-ref --stdin`, as tuples: the verb, the ref
    and its objects. Raises FailedError, unless the exit code is allowed.
    """
    lines = [
        line
        for commands in transactions
        for line in ("start", *(_command(*command) for command in commands), "commit")
    ]
    stdin = b"".join(os.fsencode(line) + b"\0" for line in lines)
    return repository.git.run(
        "update-ref", "-m", reason, "-z", "--stdin", stdin=stdin, allowed=allowed
    )


def is_branch_name(name: str) -> bool:
    """Tell whether git allows a branch of this name, by the rules of `git check-ref-format`."""
    return _ILLEGAL.search(HEADS + name) is None


def _command(verb: str, ref: str, *objects: str) -> str:
    return "\0".join((f"{verb} {ref}", *objects))
