"""Step: put the four sections below one title, with a table of contents, as `notes.md`.

The first draft guesses the anchors of the contents, and guesses wrong for a heading with brackets.
The reviewer finds that, and the next run corrects the anchors that the reviewer named.
"""

from __future__ import annotations

from entry import Kind
from history import History, load_history
from job import Brief, Reply, perform
from links import with_correct_anchors
from prose import counted, escaped
from section import reference


def assemble(brief: Brief) -> Reply:
    """Write the whole document."""
    history = load_history(brief.given("collect", "history.json"))
    sections = [brief.given(f"draft_{kind}", "section.md") for kind in Kind]
    whole = document(history, [section for section in sections if section])
    reasons = brief.guidance("reviewer")
    file = brief.hand_in("notes.md", with_correct_anchors(whole, reasons))
    summary = counted(len(whole.split()), "word")
    if reasons:
        summary += f", corrected after {counted(len(reasons), 'remark')} of the reviewer"
    return Reply(summary, evidence_files=(file,))


def document(history: History, sections: list[str]) -> str:
    """Return title, contents and sections."""
    titles = [section.splitlines()[0].removeprefix("## ") for section in sections]
    contents = "\n".join(f"- [{title}](#{guessed_anchor(title)})" for title in titles)
    since = f" since {escaped(history.since)}" if history.since else ""
    opening = f"# Release notes{since}\n\n{span(history)}\n\n## Contents\n\n{contents}\n"
    return "\n".join([opening, *sections])


def guessed_anchor(title: str) -> str:
    """Return the anchor that a heading might have: small, with hyphens for blanks."""
    return title.lower().replace(" ", "-")


def span(history: History) -> str:
    """Return sentences about the span of commits, and about those that are left out."""
    newest, oldest = history.commits[0], history.commits[-1]
    count = counted(len(history.commits), "commit")
    days = f"of {newest.date}"
    if oldest.date != newest.date:
        days = f"from {oldest.date} to {newest.date}"
    text = f"{count} {days}, up to "
    text += f"{reference(newest.short, history.forge)}. "
    text += "Behind each line is the commit that it is from: `git show` shows it in full."
    if history.left_out:
        text += f" Older commits are left out: {history.left_out}."
    elif history.shallow:
        text += " This clone is shallow: it does not have older commits."
    return text


if __name__ == "__main__":
    perform(assemble)
