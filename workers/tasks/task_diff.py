"""What the work on a task changes: of its current claim, or of what was merged."""

from __future__ import annotations

from pathlib import Path

from interlock.kernel.errors import CallError
from interlock.kernel.record import Record
from interlock.workers.gateways.git.branch import head, mark_of
from interlock.workers.gateways.git.diff import Diff, diff, merge_of
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.tasks.claim_names import ClaimNames

WITHIN_S = 5.0  # how long a page waits for git


class NoDiffError(CallError):
    """There is nothing to compare on this computer. The message says why."""


def task_diff(record: Record, *, bytes_max: int) -> Diff:
    """Return the changes of a task, as they are now. Raises NoDiffError."""
    repo = record.data.get("repo")
    if not repo:
        raise NoDiffError("it has no repository")
    try:
        if not Path(str(repo)).is_dir():
            raise NoDiffError(f"its repository {repo} is not on this computer")
        repository = Repository.open(Path(str(repo)), command_s=WITHIN_S)
        base, commit = _ends(repository, record)
        return diff(repository, base=base, commit=commit, bytes_max=bytes_max, within_s=WITHIN_S)
    except (GitError, OSError) as refusal:
        raise NoDiffError(str(refusal)) from refusal


def _ends(repository: Repository, record: Record) -> tuple[str, str]:
    """Return the commits before and after the work. Raises NoDiffError, GitError."""
    data = record.data
    if data.get("merged") and data.get("commit"):
        if ends := merge_of(repository, str(data["commit"]), target=str(data["target"])):
            return ends
        raise NoDiffError("its branch brought no commit into the target")
    branch = ClaimNames(record.id, int(data["claimed"])).branch
    mark, commit = mark_of(repository, branch), head(repository, branch)
    if mark is None or commit is None:
        raise NoDiffError("no agent has a branch for it now")
    return mark.base, commit
