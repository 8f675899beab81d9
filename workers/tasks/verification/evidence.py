"""What a model that judges is shown of finished work: the task, and the changes; it asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from interlock.kernel.record import Record
from interlock.kernel.store.views import Views
from interlock.workers.gateways.git.diff import Diff, diff, merge_of
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.text import sentence

DIFF_BYTES_MAX = 200_000
PATH_LENGTH_MAX = 200
PARTS_MAX = 100


def task_shown(record: Record) -> str:
    """Return what was to be done."""
    return f"{record.data['title']}\n\n{record.data['text']}".strip()


def changes_shown(repository: Repository, *, base: str, commit: str) -> str:
    """Return what a commit changes, file by file. Raises GitError."""
    found = diff(repository, base=base, commit=commit, bytes_max=DIFF_BYTES_MAX)
    return _shown(found)


def parts_shown(repository: Repository, record: Record, views: Views) -> str:
    """Return what the parts of a task brought into its target, part by part. Raises GitError."""
    left, texts, target = DIFF_BYTES_MAX, [], str(record.data["target"])
    parts = _parts(record, views)
    for part in islice(parts, PARTS_MAX):
        title = f"### Part: {sentence(part.data['title'])}\n"
        merge = merge_of(repository, part.data["commit"], target=target)
        text = "It merged nothing.\n"
        if merge is not None:
            before, after = merge
            found = diff(repository, base=before, commit=after, bytes_max=left)
            text = _shown(found)
            left -= sum(len(one.text.encode()) for one in found.files)
        texts.append(title + text)
    if next(parts, None) is not None:
        texts.append(f"Missing: the parts after the first {PARTS_MAX}.")
    return "\n".join(texts) or "No part of it changed anything."


def _parts(record: Record, views: Views) -> Iterator[Record]:
    """Name the tasks below this one whose work was merged, at any depth."""
    for child_id in views.children(record.id):
        child = views.record(child_id)
        if child.machine != record.machine:
            continue
        if "claim" in child.data and child.data.get("commit"):
            yield child
        yield from _parts(child, views)


def _shown(found: Diff) -> str:
    if not found.files:
        return "Nothing was changed.\n"
    texts = []
    for one in found.files:
        # A line of a diff begins with another character, and this one is a single line.
        name = sentence(one.path, length_max=PATH_LENGTH_MAX)
        missing = f" ({one.missing})" if one.missing else ""
        end = "" if not one.text or one.text.endswith("\n") else "\n"
        texts.append(f"# {one.kind}: {name}{missing}\n{one.text}{end}")
    if found.unnamed:
        texts.append(f"# Missing: {found.unnamed} more files that were changed.\n")
    return "".join(texts)
