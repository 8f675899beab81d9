"""The reviewer of every step: it checks the files of the step and names each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from document import parse
from entry import Kind, load_groups
from history import load_history
from job import Brief, Reply, Verdict, perform
from links import LinkRoot, anchor_faults, faults
from prose import counted
from repository import Repository
from spelling import load_misspellings, misspellings

REASONS_MAX = 20


def review(brief: Brief) -> Reply:
    """Accept the work, or give the reasons against it."""
    step = brief.step.partition("_")[0] if brief.step.startswith("draft_") else brief.step
    reasons = REVIEWS[step](brief)
    if not reasons:
        return Reply("nothing to find fault with", verdict=Verdict.GOOD)
    shown = tuple(reasons[:REASONS_MAX])
    if len(reasons) > REASONS_MAX:
        shown += (f"and {len(reasons) - REASONS_MAX} more",)
    summary = f"{counted(len(reasons), 'fault')}; the first: {reasons[0]}"
    return Reply(summary, verdict=Verdict.NOT_YET, reasons=shown)


def of_history(brief: Brief) -> list[str]:
    """Check that every commit exists, and is there once."""
    history = load_history(brief.own("history.json"))
    repository = Repository.at(Path(history.repository))
    hashes = [commit.hash for commit in history.commits]
    reasons = [f"{each} is there twice" for each in sorted({*hashes}) if hashes.count(each) > 1]
    return reasons + [f"there is no commit {each}" for each in hashes if not repository.has(each)]


def of_groups(brief: Brief) -> list[str]:
    """Check that every commit is in one group, once."""
    history = load_history(brief.given("collect", "history.json"))
    groups = load_groups(brief.own("groups.json"))
    named = [short for entries in groups.values() for entry in entries for short in entry.commits]
    return [
        f"{commit.short} is listed {named.count(commit.short)} times instead of once"
        for commit in history.commits
        if named.count(commit.short) != 1
    ]


def of_draft(brief: Brief) -> list[str]:
    """Check that a section has a line for each entry, names its commits, and has good links."""
    kind = Kind(brief.step.removeprefix("draft_"))
    entries = load_groups(brief.given("group", "groups.json"))[kind]
    section = brief.own("section.md")
    lines = sum(line.startswith("- ") for line in section.splitlines())
    uneven = f"{counted(lines, 'line')} for {len(entries)} entries"
    reasons = [uneven] if lines != len(entries) else []
    commits = [short for entry in entries for short in entry.commits]
    reasons += [f"{short} is not named" for short in commits if f"`{short}`" not in section]
    return reasons + faults(parse(section), _link_root(brief))


def of_notes(brief: Brief) -> list[str]:
    """Check that each section is there, and that the contents lead to them."""
    notes = brief.own("notes.md")
    missing = [
        f"the section of {kind} is not there as it was drafted"
        for kind in Kind
        if brief.given(f"draft_{kind}", "section.md") not in notes
    ]
    return missing + anchor_faults(parse(notes))


def of_link_check(brief: Brief) -> list[str]:
    """Check that all links of the notes were checked."""
    report = json.loads(brief.own("links.json"))
    links = len(parse(brief.given("assemble", "notes.md")).links)
    reasons = [f"{report['links']} of {links} links checked"] if report["links"] != links else []
    return reasons + list(report["faults"])


def of_spelling_check(brief: Brief) -> list[str]:
    """Check that the misspelt words are in the notes."""
    notes = brief.given("assemble", "notes.md")
    found = load_misspellings(brief.own("spelling.json"))
    return [f'"{each.word}" is not in the notes' for each in found if each.word not in notes]


def of_publication(brief: Brief) -> list[str]:
    """Check links and spelling of the final document, and that no commit is lost."""
    document = parse(text := brief.own("RELEASE_NOTES.md"))
    commits = load_history(brief.given("collect", "history.json")).commits
    reasons = [
        f"{commit.short} is missing" for commit in commits if f"`{commit.short}`" not in text
    ]
    reasons += faults(document, _link_root(brief))
    return reasons + [str(each) for each in misspellings(document) if each.certain]


def _link_root(brief: Brief) -> LinkRoot:
    history = load_history(brief.given("collect", "history.json"))
    return LinkRoot.at(Repository.at(Path(history.repository)), history.head)


REVIEWS: dict[str, Callable[[Brief], list[str]]] = {
    "collect": of_history,
    "group": of_groups,
    "draft": of_draft,
    "assemble": of_notes,
    "check_links": of_link_check,
    "check_spelling": of_spelling_check,
    "publish": of_publication,
}

if __name__ == "__main__":
    perform(review)
