"""Uploads the objects of Git LFS before a push: the hook that does so for a user is off."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256

from interlock.git.errors import Refusal, RefusedError
from interlock.git.filters import LFS, filters_of, has_lfs
from interlock.git.program import ANY_CODE, Git
from interlock.git.refs import read_refs
from interlock.git.repository import Repository
from interlock.workers.redaction import without_secrets
from interlock.workers.text import one_line

# Below it, a ref for each address and branch to which all objects of a history were uploaded.
UPLOADED = "refs/interlock/lfs/"
# An upload that stands still is ended earlier by git-lfs itself (lfs.activitytimeout).
UPLOAD_S = 3_600.0
_MISSING = "(missing)"


def upload_objects(repository: Repository, *, commit: str, branch: str, remote: str) -> None:
    """Upload what a remote lacks of the objects of a commit and its history.

    Git LFS takes for uploaded what a branch of the remote has already. A branch that was pushed
    without its hook shows that wrongly, so the first upload for a branch looks at its whole
    history. Raises RefusedError if objects are nowhere, or if git-lfs is not installed; another
    GitError if they cannot be uploaded now.
    """
    if LFS in filters_of(repository, commit):
        if not has_lfs(repository):
            problem = f"{repository.root} keeps files in Git LFS, and git-lfs is not installed here"
            raise RefusedError(Refusal.FILTER_MISSING, problem, "install it, then push again")
    elif not (repository.common / "lfs").is_dir() or not has_lfs(repository):
        return
    git = replace(repository.git, command_s=max(UPLOAD_S, repository.git.command_s))
    where = f"{git.line('remote', 'get-url', '--push', remote)} {branch}"
    done = UPLOADED + sha256(os.fsencode(where)).hexdigest()
    if done not in read_refs(repository, done):
        # What earlier commits lack, and nobody has any more, must not keep this commit back.
        _upload(git, "-c", "lfs.allowincompletepush=true", "lfs", "push", "--all", remote, commit)
        _upload(git, "lfs", "push", remote, commit)
        git.run("update-ref", done, commit)
    else:
        _upload(git, "lfs", "push", remote, commit)


def _upload(git: Git, *command: str) -> None:
    finished = git.run(*command, allowed=ANY_CODE)
    if finished.exit_code == 0:
        return
    if _MISSING in finished.stderr or _MISSING.encode() in finished.output:
        said = one_line(
            without_secrets(finished.stderr or finished.output.decode(errors="replace"))
        )
        problem = f"objects of Git LFS are neither in {git.folder} nor at the remote: {said}"
        remedy = "fetch them (git lfs fetch --all), then push again"
        raise RefusedError(Refusal.OBJECTS_MISSING, problem, remedy)
    raise git.failure("lfs push", finished)
