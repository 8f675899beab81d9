"""Renders a task and its changes as the text that the judge model reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from interlock.git.diff import Diff, diff, merge_of
from interlock.git.repository import Repository
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.system.text import one_line
from interlock.systems.tasks.machines.task.data import TaskData

DIFF_BYTES_MAX = 200_000
PATH_LENGTH_MAX = 200
PARTS_MAX = 100


def task_text(record: Record[TaskData]) -> str:
    """Return the title and the text of a task."""
    return f"{record.data['title']}\n\n{record.data['text']}".strip()


def changes_text(repository: Repository, *, base: str, commit: str) -> str:
    """Return what a commit changes, file by file. Raises GitError."""
    return _diff_text(diff(repository, base=base, commit=commit, bytes_max=DIFF_BYTES_MAX))


def parts_text(repository: Repository, record: Record[TaskData], records: Records) -> str:
    """Return what the subtasks of a task merged, one after the other. Raises GitError."""
    bytes_left, texts, target = DIFF_BYTES_MAX, [], str(record.data["target"])
    parts = _merged_subtasks(record, records)
    for part in islice(parts, PARTS_MAX):
        title = f"### Part: {one_line(part.data['title'])}\n"
        merge = merge_of(repository, str(part.data["commit"]), target=target)
        text = "It merged nothing.\n"
        if merge is not None:
            before, after = merge
            found = diff(repository, base=before, commit=after, bytes_max=bytes_left)
            text = _diff_text(found)
            bytes_left -= sum(len(file.text.encode()) for file in found.files)
        texts.append(title + text)
    if next(parts, None) is not None:
        texts.append(f"Missing: the parts after the first {PARTS_MAX}.")
    return "\n".join(texts) or "No part of it changed anything."


def _merged_subtasks(record: Record[TaskData], records: Records) -> Iterator[Record[TaskData]]:
    """Yield the subtasks of a task whose work was merged, and those of its subtasks."""
    for child_id in records.views.children(record.id):
        child: Record[TaskData] = records.views.record(child_id)
        if child.machine != record.machine:
            continue
        if "claim" in child.data and child.data.get("commit"):
            yield child
        yield from _merged_subtasks(child, records)


def _diff_text(found: Diff) -> str:
    if not found.files:
        return "Nothing was changed.\n"
    texts = []
    for file in found.files:
        # No line of a diff begins with #, and a path is made one line: neither can forge a heading.
        name = one_line(file.path, length_max=PATH_LENGTH_MAX)
        missing = f" ({file.missing})" if file.missing else ""
        end = "" if not file.text or file.text.endswith("\n") else "\n"
        texts.append(f"# {file.kind}: {name}{missing}\n{file.text}{end}")
    if found.unnamed:
        texts.append(f"# Missing: {found.unnamed} more files that were changed.\n")
    return "".join(texts)
