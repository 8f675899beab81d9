"""Step: write `RELEASE_NOTES.md`: the checked notes with spelling corrected and wishes met.

A wish of the steward that is not understood is named in the summary, for a person to decide.
"""

from __future__ import annotations

from pathlib import Path

from entry import load_groups
from history import load_history
from job import Brief, Reply, perform
from prose import counted
from repository import Repository
from spelling import corrected, load_misspellings
from wishes import WISHES, Facts, understood


def publish(brief: Brief) -> Reply:
    """Write the final document."""
    history = load_history(brief.given("collect", "history.json"))
    groups = load_groups(brief.given("group", "groups.json"))
    facts = Facts(history, groups, Repository.at(Path(history.repository)).has)
    found = load_misspellings(brief.given("check_spelling", "spelling.json"))
    words = {each.word: each.meant[0] for each in found if each.certain}
    met, unknown = understood(brief.guidance("steward"))
    whole = brief.given("assemble", "notes.md")
    for name in met:
        whole = WISHES[name](whole, facts)
    file = brief.hand_in("RELEASE_NOTES.md", corrected(whole, words))
    summary = f"{counted(len(history.commits), 'commit')} described"
    summary += f", {counted(len(words), 'word')} corrected"
    summary += f"; as wished, with {' and '.join(met)}" if met else ""
    summary += f'; not understood: "{unknown[-1]}"' if unknown else ""
    return Reply(summary, evidence_files=(file,))


if __name__ == "__main__":
    perform(publish)
