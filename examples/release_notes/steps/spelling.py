"""Checks the prose of a document with the program `typos`; code, links and names are not prose."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from document import Document
from job import LaterError, StuckError

PATIENCE_S = 60
FOUND_SOME = 2
JOINS_BEFORE = re.compile(r"[\w/.@#-]$")
JOINS_AFTER = re.compile(r"[\w/-]|\.\w")
UNTOUCHED = re.compile(r"(?P<keep>(`+).+?\2|\]\([^)]*\)|<https?:[^>]*>)")


@dataclass(frozen=True, slots=True)
class Misspelling:
    """A misspelt word, with its possible corrections."""

    line: int
    word: str
    meant: tuple[str, ...]

    @property
    def certain(self) -> bool:
        """Whether there is only one possible correction."""
        return len(self.meant) == 1

    def __str__(self) -> str:
        meant = " or ".join(f'"{word}"' for word in self.meant)
        return f'line {self.line}: "{self.word}" is misspelt; write {meant}'


def misspellings(document: Document) -> list[Misspelling]:
    """Return the misspelt words. Raises StuckError if `typos` is not installed."""
    text = "\n".join(line.text.replace("\n", " ") for line in document.prose)
    found = []
    for line in _typos(text).split("\n"):
        finding = json.loads(line or "{}")
        if finding.get("type") != "typo":
            continue
        piece = document.prose[finding["line_num"] - 1]
        content, begin = piece.text.encode("utf-8"), finding["byte_offset"]
        before = content[:begin].decode("utf-8", "replace")
        after = content[begin + len(finding["typo"].encode("utf-8")) :].decode("utf-8", "replace")
        # A part of a name (`recieve_all`, docs/recieve.md) is not prose.
        if not JOINS_BEFORE.search(before) and not JOINS_AFTER.match(after):
            found.append(Misspelling(piece.number, finding["typo"], tuple(finding["corrections"])))
    return found


def corrected(text: str, words: dict[str, str]) -> str:
    """Return Markdown with words replaced, except in code and in targets of links."""
    if not words:
        return text
    choice = "|".join(map(re.escape, words))
    pattern = re.compile(rf"{UNTOUCHED.pattern}|(?<![\w/.@#-])(?P<word>{choice})(?![\w/-]|\.\w)")
    return pattern.sub(lambda found: found["keep"] or words[found["word"]], text)


def dump_misspellings(found: list[Misspelling]) -> str:
    """Return the misspelt words as JSON."""
    return json.dumps([asdict(misspelling) for misspelling in found], indent=1)


def load_misspellings(text: str) -> list[Misspelling]:
    """Return the misspelt words that `dump_misspellings` wrote."""
    return [Misspelling(**{**item, "meant": tuple(item["meant"])}) for item in json.loads(text)]


def _typos(text: str) -> str:
    beside = str(Path(sys.executable).parent)
    program = shutil.which("typos", path=os.pathsep.join((beside, os.environ.get("PATH", ""))))
    if not program:
        raise StuckError("the spelling checker is not installed: pip install typos")
    command = [program, "--isolated", "--format", "json", "-"]
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise LaterError(f"typos took longer than {PATIENCE_S} s") from None
    if done.returncode not in {os.EX_OK, FOUND_SOME}:
        raise StuckError(f"typos ended with {done.returncode}: {done.stderr.decode().strip()}")
    return done.stdout.decode("utf-8")
