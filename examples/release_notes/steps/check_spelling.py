"""Step: find what is misspelt in the assembled notes, as `spelling.json` for who publishes them."""

from __future__ import annotations

from document import parse
from job import Brief, Reply, perform
from prose import counted
from spelling import dump_misspellings, misspellings


def check_spelling(brief: Brief) -> Reply:
    """Write down each misspelt word and what was meant; where that is uncertain, all it may be."""
    document = parse(brief.given("assemble", "notes.md"))
    found = misspellings(document)
    file = brief.hand_in("spelling.json", dump_misspellings(found))
    certain = sum(one.certain for one in found)
    words = counted(sum(len(line.text.split()) for line in document.prose), "word")
    told = f"{words}: {certain} misspelt, {len(found) - certain} that may be"
    return Reply(told, evidence_files=(file,))


if __name__ == "__main__":
    perform(check_spelling)
