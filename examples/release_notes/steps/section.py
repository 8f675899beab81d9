"""Writes entries as Markdown: a heading for a kind, one for each area, a line for each entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from entry import ROOT_AREA, Entry, Kind
from prose import first_block, link, markdown

TITLES = {
    Kind.FEATURES: "New and changed",
    Kind.FIXES: "Fixed",
    Kind.DOCS: "Documentation",
    Kind.INTERNALS: "Tests, builds and upkeep",
}
DETAILED = (Kind.FEATURES, Kind.FIXES)
ENTRIES_WITHOUT_AREAS_MAX = 6


@dataclass(frozen=True, slots=True)
class Section:
    """The facts about the repository that a section needs to write correct links."""

    paths: Collection[str]
    forge: str | None
    is_commit: Callable[[str], bool]

    def write(self, kind: Kind, entries: list[Entry]) -> str:
        """Return the section, or an empty text if there are no entries."""
        if not entries:
            return ""
        blocks = [f"## {heading(kind, entries)}"]
        areas = Counter(entry.area for entry in entries)
        if len(entries) <= ENTRIES_WITHOUT_AREAS_MAX or len(areas) == 1:
            blocks.append(self._list(entries, detailed=kind in DETAILED))
        else:
            for area, _ in areas.most_common():
                of_area = [entry for entry in entries if entry.area == area]
                blocks.append(f"### {self._place(area)}")
                blocks.append(self._list(of_area, detailed=kind in DETAILED))
        return "\n\n".join(blocks) + "\n"

    def _place(self, area: str) -> str:
        if area == ROOT_AREA:
            return "The repository itself"
        return link(f"`{area}`", area) if area in self.paths else f"`{area}`"

    def _list(self, entries: list[Entry], *, detailed: bool) -> str:
        between = "\n\n" if detailed else "\n"
        return between.join(self._line(entry, detailed=detailed) for entry in entries)

    def _line(self, entry: Entry, *, detailed: bool) -> str:
        commits = ", ".join(reference(short, self.forge) for short in entry.commits)
        if not detailed:
            return f"- {self._text(entry.subject)} ({commits})"
        paragraph, items = first_block(entry.body)
        blocks = [f"- **{self._text(entry.subject)}** ({commits})"]
        blocks += [f"  {self._text(paragraph)}"] if paragraph else []
        blocks += ["\n".join(f"  - {self._text(item)}" for item in items)] if items else []
        return "\n\n".join(blocks)

    def _text(self, text: str) -> str:
        return markdown(text, paths=self.paths, is_commit=self.is_commit)


def heading(kind: Kind, entries: list[Entry]) -> str:
    """Return the heading of a kind's section."""
    return f"{TITLES[kind]} ({len(entries)})"


def reference(short: str, forge: str | None) -> str:
    """Return the name of a commit; a link if the forge that shows it is known."""
    return f"[`{short}`]({forge}/commit/{short})" if forge else f"`{short}`"
