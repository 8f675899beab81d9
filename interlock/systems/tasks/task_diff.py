"""What the work on a task changes: of its current claim, or of what was merged."""

from __future__ import annotations

from pathlib import Path

from interlock import CallError
from interlock.git.branch import mark_ref, marks_among
from interlock.git.diff import Diff, diff, merge_of
from interlock.git.refs import HEADS, read_refs
from interlock.git.replay import base_of_work
from interlock.git.repository import Repository
from interlock.system.pages import DiffSource
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.output_place import host_of_claim


def task_diff(record: Record[TaskData], between: str, bytes_max: int, within_s: float) -> Diff:
    """Return the changes of a task, as they are now. Raises CallError, GitError and OSError."""
    if between:
        raise CallError("a task has one difference only, so nothing can be chosen of it")
    repo = record.data.get("repo")
    if not repo:
        raise CallError("it has no repository")
    if not Path(str(repo)).is_dir():
        raise CallError(f"its repository {repo} is not on this computer")
    repository = Repository.open(Path(str(repo)), command_s=within_s)
    base, commit = _ends(repository, record)
    return diff(repository, base=base, commit=commit, bytes_max=bytes_max, within_s=within_s)


def _ends(repository: Repository, record: Record[TaskData]) -> tuple[str, str]:
    """Return the commits before and after the work. Raises CallError, GitError."""
    data = record.data
    if data.get("merged") and data.get("commit"):
        if ends := merge_of(repository, str(data["commit"]), target=str(data["target"])):
            return ends
        raise CallError("its branch brought no commit into the target")
    branch = ClaimNames(record.id, int(data["claimed"])).branch
    refs = read_refs(repository, mark_ref(branch), HEADS + branch)
    mark, tip = marks_among(refs).get(branch), refs.get(HEADS + branch)
    if mark is None or tip is None:
        raise CallError("no agent has a branch for it now")
    target = str(data["target"])
    return base_of_work(repository, base=mark.base, target=target, commit=tip.sha), tip.sha


def host_of_task(records: Records, record: Record[TaskData]) -> str:
    """Return the computer on which the work on a task is, or ''."""
    return host_of_claim(records, record, int(record.data.get("claimed", 0)))


SOURCE = DiffSource(machines=("task",), host=host_of_task, read=task_diff)
