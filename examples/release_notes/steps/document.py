"""Reads Markdown with a real parser: headings with their anchors, links, and what is prose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

NO_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of a document, and the line that it is on, from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """The parts of a document that are checked; prose is text without code and links."""

    headings: tuple[str, ...]
    links: tuple[Line, ...]
    code: tuple[Line, ...]
    prose: tuple[Line, ...]

    def anchors(self) -> dict[str, str]:
        """Return each heading's anchor, with the heading, as a forge makes them."""
        made: dict[str, str] = {}
        seen: Counter[str] = Counter()
        for heading in self.headings:
            plain = slug(heading)
            made[f"{plain}-{seen[plain]}" if seen[plain] else plain] = heading
            seen[plain] += 1
        return made


def slug(heading: str) -> str:
    """Return the anchor of a heading that is the only one of its name."""
    return NO_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


def parse(text: str) -> Document:
    """Read a document."""
    tokens = MarkdownIt("commonmark").parse(text)
    headings = [
        "".join(part.content for part in inline.children or [])
        for before, inline in pairwise(tokens)
        if before.type == "heading_open"
    ]
    links: list[Line] = []
    code: list[Line] = []
    prose: list[Line] = []
    for number, part, linked in _parts(tokens):
        if part.type in {"link_open", "image"}:
            links.append(Line(number, str(part.attrs.get("href") or part.attrs.get("src", ""))))
        elif part.type == "code_inline":
            code.append(Line(number, part.content))
        elif part.type == "text" and not linked:
            prose.append(Line(number, part.content))
    return Document(tuple(headings), tuple(links), tuple(code), tuple(prose))


def _parts(tokens: list[Token]) -> Iterator[tuple[int, Token, bool]]:
    for block in tokens:
        if block.type != "inline" or not block.map:
            continue
        number, depth = block.map[0] + 1, 0
        for part in block.children or []:
            number += part.type in {"softbreak", "hardbreak"}
            depth += part.nesting if part.type.startswith("link_") else 0
            yield number, part, depth > 0
