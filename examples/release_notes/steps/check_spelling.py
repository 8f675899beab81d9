"""Step: find misspelt words in the assembled notes, as `spelling.json` for the step `publish`."""

from __future__ import annotations

from document import parse
from job import Brief, Reply, perform
from prose import counted
from spelling import dump_misspellings, misspellings


def check_spelling(brief: Brief) -> Reply:
    """Write each misspelt word with its correction, or with all possible ones."""
    document = parse(brief.given("assemble", "notes.md"))
    found = misspellings(document)
    file = brief.hand_in("spelling.json", dump_misspellings(found))
    certain = sum(misspelling.certain for misspelling in found)
    words = counted(sum(len(line.text.split()) for line in document.prose), "word")
    summary = f"{words}: {certain} misspelt, {len(found) - certain} that may be"
    return Reply(summary, evidence_files=(file,))


if __name__ == "__main__":
    perform(check_spelling)
