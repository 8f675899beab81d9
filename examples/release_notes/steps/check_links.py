"""Step: check every link of the assembled notes, and write what was checked as `links.json`."""

from __future__ import annotations

import json
from pathlib import Path

from document import parse
from history import load_history
from job import Brief, Reply, StuckError, perform
from links import LinkRoot, faults
from prose import counted
from repository import Repository

SHOWN_MAX = 5


def check_links(brief: Brief) -> Reply:
    """Count the links. Raises StuckError with those that lead nowhere."""
    history = load_history(brief.given("collect", "history.json"))
    document = parse(brief.given("assemble", "notes.md"))
    found = faults(document, LinkRoot.at(Repository.at(Path(history.repository)), history.head))
    report = json.dumps({"links": len(document.links), "faults": found}, indent=1)
    file = brief.hand_in("links.json", report)
    if found:
        raise StuckError(f"{counted(len(found), 'link')} wrong: {'; '.join(found[:SHOWN_MAX])}")
    links = counted(len(document.links), "link")
    return Reply(f"{links}, each leads somewhere", evidence_files=(file,))


if __name__ == "__main__":
    perform(check_links)
