"""What a steward may wish of the published notes, found by its words; it understands no others."""

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
class Told:
    """What a wish may be met from."""

    history: History
    groups: Groups
    is_commit: Callable[[str], bool]


def understood(wishes: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of what is wished, each once, and the wishes that say none of them."""
    told = list(wishes)
    met = [name for name in WISHES if any(name in wish.lower() for wish in told)]
    return met, [wish for wish in told if not any(name in wish.lower() for name in WISHES)]


def with_summary(whole: str, told: Told) -> str:
    """Return the document with a summary before its contents."""
    entries = [entry for kind in (Kind.FEATURES, Kind.FIXES) for entry in told.groups[kind]]
    largest = sorted(entries, key=lambda entry: -entry.files)[:LARGEST_MAX]
    blocks = ["## Summary", "\n".join(_kinds(told.groups))]
    if largest:
        blocks.append("The largest, by the files that they change:")
        blocks.append("\n".join(f"- {_line(entry, told)}" for entry in largest))
    before, mark, after = whole.partition(CONTENTS)
    return before + "\n\n".join(blocks) + "\n\n" + mark + after


def with_authors(whole: str, told: Told) -> str:
    """Return the document with who wrote it at its end; a name is code, as no speller knows it."""
    authors = Counter(commit.author.replace("`", "'") for commit in told.history.commits)
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


def _line(entry: Entry, told: Told) -> str:
    subject = markdown(entry.subject, paths=(), is_commit=told.is_commit)
    commits = ", ".join(reference(short, told.history.forge) for short in entry.commits)
    return f"{subject} ({counted(entry.files, 'file')}, {commits})"


WISHES: dict[str, Callable[[str, Told], str]] = {"summary": with_summary, "author": with_authors}
