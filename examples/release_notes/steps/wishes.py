"""The wishes of a steward for the published notes, recognized by key words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from entry import ROOT_AREA, Entry, Groups, Kind
from history import History
from prose import counted, markdown
from section import TITLES, reference

LARGEST_MAX = 3
AREAS_MAX = 2
CONTENTS = "## Contents\n"


@dataclass(frozen=True, slots=True)
class Facts:
    """The data that meeting a wish needs."""

    history: History
    groups: Groups
    is_commit: Callable[[str], bool]


def understood(wishes: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of the known wishes, each once, and the texts that name none of them."""
    texts = list(wishes)
    met = [name for name in WISHES if any(name in wish.lower() for wish in texts)]
    return met, [wish for wish in texts if not any(name in wish.lower() for name in WISHES)]


def with_summary(whole: str, facts: Facts) -> str:
    """Return the document with a summary before its contents."""
    entries = [entry for kind in (Kind.FEATURES, Kind.FIXES) for entry in facts.groups[kind]]
    largest = sorted(entries, key=lambda entry: -entry.files)[:LARGEST_MAX]
    blocks = ["## Summary", "\n".join(_kinds(facts.groups))]
    if largest:
        blocks.append("The largest, by the files that they change:")
        blocks.append("\n".join(f"- {_line(entry, facts)}" for entry in largest))
    before, mark, after = whole.partition(CONTENTS)
    return before + "\n\n".join(blocks) + "\n\n" + mark + after


def with_authors(whole: str, facts: Facts) -> str:
    """Return the document with its authors at the end, as code, which is not spell-checked."""
    authors = Counter(commit.author.replace("`", "'") for commit in facts.history.commits)
    lines = [f"- `{name}` ({count})" for name, count in authors.most_common()]
    return f"{whole}\n## Authors\n\n" + "\n".join(lines) + "\n"


def _kinds(groups: Groups) -> list[str]:
    lines = []
    for kind, entries in groups.items():
        areas = Counter(entry.area for entry in entries).most_common(AREAS_MAX)
        where = " and ".join(f"{_place(area)} ({count})" for area, count in areas)
        lines += [f"- {TITLES[kind]}: {len(entries)}, most in {where}"] if entries else []
    return lines


def _place(area: str) -> str:
    return "the root" if area == ROOT_AREA else f"`{area}`"


def _line(entry: Entry, facts: Facts) -> str:
    subject = markdown(entry.subject, paths=(), is_commit=facts.is_commit)
    commits = ", ".join(reference(short, facts.history.forge) for short in entry.commits)
    return f"{subject} ({counted(entry.files, 'file')}, {commits})"


WISHES: dict[str, Callable[[str, Facts], str]] = {"summary": with_summary, "author": with_authors}
