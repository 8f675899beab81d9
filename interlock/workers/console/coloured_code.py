"""Colours the code in a diff: each line as markup, in which every text is escaped and visible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from interlock.workers.text import visible

COLOURED_MAX = 60_000  # letters of a file's diff; a larger one has no colours, but is shown
LINE_MAX = 1_000  # letters of a line in a diff that has colours
# The class of a kind of word in the code.
CLASSES = (
    (Comment, "c"),
    (String, "s"),
    (Number, "m"),
    (Keyword, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
)
NAMES = ("diff --git ", "index ", "--- ", "+++ ")
KINDS = {"+": "added", "-": "removed", "@": "soft"}


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A line of a diff: `kind` is its class, '' for one that is the same before and after."""

    kind: str
    code: Markup


def diff_rows(text: str, path: str) -> list[DiffRow]:
    """Return the lines of the unified diff of a file, coloured where its language is known.

    The names of the file and of its contents, with which git begins it, are left out.
    """
    lines = _without_names(text.rstrip("\n").split("\n"))
    lexer = _lexer_of(text, path)
    rows = [DiffRow(KINDS.get(line[:1], ""), _shown(line)) for line in lines]
    if lexer is None:
        return rows
    for begin, end in _hunks(lines):
        # What was there before and what is there now are two texts, each read by itself.
        for sign in "-+":
            at = [n for n in range(begin, end) if lines[n][:1] in (" ", sign)]
            code = _coloured(lexer, [lines[n][1:] for n in at])
            for n, markup in zip(at, code, strict=False):
                rows[n] = DiffRow(rows[n].kind, _shown(lines[n][:1]) + markup)
    return rows


def counts(text: str) -> str:
    """Return how many lines a diff adds and removes."""
    lines = text.split("\n")
    begins = next((n for n, line in enumerate(lines) if line.startswith("@@")), len(lines))
    signs = [line[:1] for line in lines[begins:]]
    return f"+{signs.count('+')} -{signs.count('-')}"


def _without_names(lines: list[str]) -> list[str]:
    head = next((n for n, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [line for line in lines[:head] if not line.startswith(NAMES)] + lines[head:]


def _lexer_of(text: str, path: str) -> Lexer | None:
    lines = text.split("\n")
    # A lexer takes a carriage return for the end of a line.
    if len(text) > COLOURED_MAX or "\r" in text or any(len(one) > LINE_MAX for one in lines):
        return None
    try:
        return get_lexer_for_filename(path, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _hunks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each hunk begins and ends, without its heading."""
    heads = [n for n, line in enumerate(lines) if line.startswith("@@")]
    for head, following in zip(heads, [*heads[1:], len(lines)], strict=True):
        yield head + 1, following


def _coloured(lexer: Lexer, lines: Sequence[str]) -> list[Markup]:
    """Return lines of code as markup; none if the lexer does not return the same text."""
    code = "\n".join(lines)
    found = [Markup("")]
    read = []
    for kind, text in lexer.get_tokens(code):
        read.append(text)
        for number, part in enumerate(text.split("\n")):
            if number:
                found.append(Markup(""))
            found[-1] += _word(kind, part)
    return found if "".join(read) == code else []


def _word(kind: _TokenType, text: str) -> Markup:
    name = next((name for token, name in CLASSES if kind in token), "")
    return (
        Markup('<i class="{}">{}</i>').format(name, _shown(text)) if name and text else _shown(text)
    )


def _shown(text: str) -> Markup:
    """Return a text as markup, visible but for its tabs."""
    return escape("\t".join(map(visible, text.split("\t"))))
