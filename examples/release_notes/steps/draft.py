"""Step: write one section of the notes from its commits, as `section.md`: `draft.py features`."""

from __future__ import annotations

import sys
from pathlib import Path

from entry import Kind, load_groups
from history import load_history
from job import Brief, Reply, perform
from prose import counted
from repository import Repository
from section import TITLES, Section


def draft(brief: Brief) -> Reply:
    """Write the section that the command names; it is empty if there is no entry."""
    kind = Kind(sys.argv[1])
    history = load_history(brief.given("collect", "history.json"))
    entries = load_groups(brief.given("group", "groups.json"))[kind]
    repository = Repository.at(Path(history.repository))
    section = Section(repository.paths(history.head), history.forge, repository.has)
    file = brief.hand_in("section.md", section.write(kind, entries))
    return Reply(f"{TITLES[kind]}: {counted(len(entries), 'line')}", evidence_files=(file,))


if __name__ == "__main__":
    perform(draft)
