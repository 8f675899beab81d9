"""Pushing a merged branch to a remote that the user has set up; it never forces anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.workers.gateways.git.branch import head
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.text import sentence

_LOCK_NAME = "interlock-push"


@dataclass(frozen=True, slots=True)
class Pushed:
    """The remote's branch stands at this commit now, or did before."""

    remote: str
    branch: str
    commit: str


def push(repository: Repository, *, branch: str, remote: str) -> Pushed:
    """Push a branch under its own name; a repeat finds it there.

    Raises RefusedError if there is no such remote or branch, or if the remote rejects it, and
    another GitError if the remote cannot be reached, or if others of us push for too long.
    """
    # One after the other: of two at once, the remote would reject the one that comes late.
    with repository.git.alone(repository.common / _LOCK_NAME) as git:
        return _pushed(replace(repository, git=git), branch, remote)


def _pushed(repository: Repository, branch: str, remote: str) -> Pushed:
    known = repository.git.run("remote").line().split("\n")
    if remote not in known or not remote:
        there = f"there are: {', '.join(known)}" if known != [""] else "there is none"
        problem = f"{repository.root} has no remote {remote!r}"
        raise RefusedError(Refusal.REMOTE_MISSING, problem, f"name one that is there; {there}")
    commit = head(repository, branch)
    if commit is None:
        problem = f"{repository.root} has no branch {branch!r}"
        raise RefusedError(Refusal.BRANCH_MISSING, problem, "name one that is there")
    what = f"{commit}:refs/heads/{branch}"
    command = ("push", "--porcelain", "--no-verify", "--no-signed", "--", remote, what)
    finished = repository.git.run(*command, allowed=range(-64, 256))
    if finished.exit_code:
        said = finished.output.decode(errors="replace").split("\n")
        rejected = [line.split("\t")[-1] for line in said if line.startswith("!")]
        if not rejected:
            raise repository.git.failure("push", finished)
        problem = f"{remote!r} rejects {branch!r}: {sentence(f'{rejected[0]} {finished.said}')}"
        raise RefusedError(Refusal.PUSH_REJECTED, problem, "settle that there, then push again")
    return Pushed(remote, branch, commit)
