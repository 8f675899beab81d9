"""Pushes a merged branch to a remote that the user has set up, without force."""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.git.branch import head
from interlock.git.errors import Refusal, RefusedError
from interlock.git.lfs import upload_objects
from interlock.git.program import ANY_CODE
from interlock.git.repository import Repository
from interlock.workers.redaction import without_secrets
from interlock.workers.text import one_line

WAIT_S = 5.0
_LOCK_NAME = "interlock-push"


@dataclass(frozen=True, slots=True)
class Pushed:
    """The remote's branch is at this commit, by this push or an earlier one."""

    remote: str
    branch: str
    commit: str


def push(repository: Repository, *, branch: str, remote: str) -> Pushed:
    """Push a branch under the same name, after its objects of Git LFS.

    A repetition changes nothing. Raises RefusedError if there is no such remote or branch, or if
    the remote rejects the push, BusyError while another push of Interlock takes long, and another
    GitError if the remote cannot be reached.
    """
    # One push after the other: of two at once, the remote would reject the second. Nobody waits
    # long for another one: a remote that hangs would then hold up a thread for each task.
    lock = repository.common / _LOCK_NAME
    with repository.git.locked(lock, wait_s=min(WAIT_S, repository.git.command_s)) as git:
        return _pushed(replace(repository, git=git), branch, remote)


def refuse_unknown_remote(repository: Repository, remote: str) -> None:
    """Refuse a remote that the repository does not have. Raises RefusedError."""
    known = repository.git.run("remote").line().split("\n")
    if remote not in known or not remote:
        add = "add it with git remote add"
        remedy = f"name one of these: {', '.join(known)}" if known != [""] else add
        problem = f"{repository.root} has no remote {remote!r}"
        raise RefusedError(Refusal.REMOTE_MISSING, problem, remedy)


def _pushed(repository: Repository, branch: str, remote: str) -> Pushed:
    refuse_unknown_remote(repository, remote)
    commit = head(repository, branch)
    if commit is None:
        problem = f"{repository.root} has no branch {branch!r}"
        raise RefusedError(Refusal.BRANCH_MISSING, problem, "name an existing branch")
    upload_objects(repository, commit=commit, branch=branch, remote=remote)
    refspec = f"{commit}:refs/heads/{branch}"
    command = ("push", "--porcelain", "--no-verify", "--no-signed", "--", remote, refspec)
    finished = repository.git.run(*command, allowed=ANY_CODE)
    if finished.exit_code:
        lines = finished.output.decode(errors="replace").split("\n")
        rejected = [line.split("\t")[-1] for line in lines if line.startswith("!")]
        if not rejected:
            raise repository.git.failure("push", finished)
        said = one_line(without_secrets(f"{rejected[0]} {finished.stderr}"))
        problem = f"{remote!r} rejects {branch!r}: {said}"
        raise RefusedError(Refusal.PUSH_REJECTED, problem, "correct that there, then push again")
    return Pushed(remote, branch, commit)
