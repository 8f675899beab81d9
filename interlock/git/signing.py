"""Signs Interlock's commits where the user's settings want signed commits, and asks nobody for it.

The user's key signs, so the user is the committer of a signed commit, and Interlock its author.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.git.branch import move
from interlock.git.errors import (
    FailedError,
    Refusal,
    RefusedError,
    TimedOutError,
)
from interlock.git.program import Git
from interlock.git.refs import HEADS, exactly, read_refs
from interlock.git.repository import Identity, Repository

# A program that waits longer asks a person.
TRIAL_S = 20.0
_NO_SETTING = 1
# gpg uses a passphrase that its agent knows, and fails where the agent would ask for one.
_GPG = '#!/bin/sh\nexec {program} --batch --pinentry-mode error "$@"\n'


@contextmanager
def signing(repository: Repository, identity: Identity) -> Iterator[tuple[Git, tuple[str, ...]]]:
    """Yield git for one commit by somebody, and the options that sign it if it is to be signed."""
    git = repository.git.in_folder(repository.git.folder, **identity.variables())
    if not _wants_signatures(git):
        yield git, ()
        return
    name, email = _setting(git, "user.name"), _setting(git, "user.email")
    if name and email:
        git = git.in_folder(git.folder, GIT_COMMITTER_NAME=name, GIT_COMMITTER_EMAIL=email)
    kind = _setting(git, "gpg.format") or "openpgp"
    # Git itself would look for a key of the committer, and ssh has no such keys.
    key = _setting(git, "user.signingkey") or ("" if kind == "ssh" else email)
    program = _setting(git, "gpg.openpgp.program") or _setting(git, "gpg.program") or "gpg"
    if kind != "openpgp" or not Path(program).name.startswith("gpg"):
        yield git, (f"-S{key}",)
        return
    with TemporaryDirectory(prefix="interlock-") as folder:
        file = Path(folder) / "gpg"
        file.write_text(_GPG.format(program=shlex.quote(str(Path(program).expanduser()))))
        file.chmod(0o700)
        yield git.with_settings({"gpg.openpgp.program": str(file)}), (f"-S{key}",)


def refuse_unsignable(repository: Repository, commit: str, identity: Identity) -> None:
    """Refuse a repository that wants signed commits, and where no commit can be signed now.

    A commit is made to find out, and not kept. Raises RefusedError.
    """
    with (
        signing(repository, identity) as (git, options),
        TemporaryDirectory(prefix="interlock-") as folder,
    ):
        if not options:
            return
        objects = {"GIT_OBJECT_DIRECTORY": folder}
        objects["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(repository.common / "objects")
        trial = git.in_folder(git.folder, **objects)
        trial = replace(trial, command_s=min(TRIAL_S, git.command_s))
        try:
            trial.run("commit-tree", *options, "-m", "a trial", f"{commit}^{{tree}}")
        except (FailedError, TimedOutError) as failure:
            problem = f"{git.folder} wants signed commits, and none can be signed here: {failure}"
            remedy = (
                "use a key without a passphrase, or one that an agent holds, or let Interlock's "
                "commits be unsigned: git config interlock.sign false"
            )
            raise RefusedError(Refusal.SIGNING, problem, remedy) from failure


def sign_last_commit(repository: Repository, branch: str, identity: Identity) -> None:
    """Sign the last commit of a branch if somebody has made it and did not sign it.

    So commits that are made in a sandbox, where no key is, are signed outside of it.
    """
    if not _wants_signatures(repository.git):
        return
    name = HEADS + branch
    found = read_refs(repository, exactly(name)).get(name)
    if found is None:
        return
    commit = repository.git.run("cat-file", "commit", found.sha).output
    head, _, message = commit.partition(b"\n\n")
    committer = f"\ncommitter {identity.name} <{identity.email}> ".encode()
    if committer not in head or b"\ngpgsig" in head:
        return
    parents = [line.split()[1].decode() for line in head.split(b"\n") if line[:7] == b"parent "]
    links = [part for parent in parents for part in ("-p", parent)]
    with signing(repository, identity) as (git, options):
        new = git.line("commit-tree", *options, *links, "-F", "-", found.tree, stdin=message)
    move(repository, branch, old=found.sha, new=new, reason="interlock: signed")


def _wants_signatures(git: Git) -> bool:
    """Tell whether commits are to be signed, and there is somebody whose key could do it."""
    if _setting(git, "commit.gpgsign", "--type=bool") != "true":
        return False
    if _setting(git, "interlock.sign", "--type=bool") == "false":
        return False
    return bool(_setting(git, "user.signingkey") or _setting(git, "user.email"))


def _setting(git: Git, name: str, *options: str) -> str:
    return git.run("config", *options, "--get", name, allowed=(0, _NO_SETTING)).line()
