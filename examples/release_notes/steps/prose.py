"""Turns plain texts into Markdown that shows exactly these texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from urllib.parse import quote

PARAGRAPH_CHARACTERS_MAX = 500
ITEMS_MAX = 10
CODE = r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
ADDRESS = r"(?P<address>https?://[^\s<>`\\]*[^\s<>`\\.,;:!?)\]}'\"])"
TOKEN = re.compile(f"{CODE}|{ADDRESS}|(?P<space> +)|(?P<word>[^ `]+?(?= |`|https?://|$))|`")
# Underscores inside a word are harmless.
SPECIAL = re.compile(r"[\\*\[\]<~`]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
BEGINS_BLOCK = re.compile(r"\A(?:(?P<mark>>|[-+#=](?=[-+#= ]|$))|(?P<number>\d+)(?=[.)]))")
AROUND_PATH = re.compile(r"(?P<before>[(\"']*)(?P<path>.*?)(?P<after>[.,;:!?)\"']*)")
TRAILER = re.compile(
    r"(?:(?:[a-z]+-)+(?:by|date|from|id|on|to)|fixes|closes|cc|refs|bug|link|issue): "
    r"|\(cherry picked from ",
    re.IGNORECASE,
)
ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")
NO_PROSE = ("#", "```", "~~~", "|", "<!--", ">", "---")
SENTENCE_END = re.compile(r"[.!?](?= )")


def markdown(text: str, *, paths: Collection[str], is_commit: Callable[[str], bool]) -> str:
    """Return the Markdown of one line of text; a path that is among `paths` becomes a link.

    Code that looks like the hash of a commit but is none is shown as text.
    """
    written: list[str] = []
    for found in TOKEN.finditer(" ".join(text.split())):
        if found["code"] is not None:
            piece = _code(found["code"].strip(), found.group(), paths, is_commit)
        elif found["address"]:
            piece = f"<{found['address']}>"
        else:
            piece = found["space"] or _word(found.group(), paths)
        if piece.startswith("[") and written and written[-1].endswith("!"):
            written[-1] = written[-1][:-1] + "\\!"  # otherwise the link would be an image
        written.append(piece)
    return BEGINS_BLOCK.sub(_no_block, "".join(written))


def link(shown: str, path: str) -> str:
    """Return a link to a path that is relative to the repository's root."""
    return f"[{shown}]({quote(path)})"


def escaped(text: str) -> str:
    """Return a text in which no character is Markdown syntax."""
    return SPECIAL.sub(lambda found: "\\" + found.group(), text)


def counted(count: int, thing: str) -> str:
    """Return how many there are of a thing: 1 file, 2 files."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def first_block(body: str) -> tuple[str, list[str]]:
    """Return the first paragraph of a commit's message, and the items of a list in it.

    Trailers like Signed-off-by are left out; a long text ends with a whole sentence.
    """
    kept = [line for line in body.splitlines() if not TRAILER.match(line)]
    blocks = [block.strip() for block in re.split(r"\n[ \t]*\n", "\n".join(kept))]
    first = next((block for block in blocks if block and not block.startswith(NO_PROSE)), "")
    paragraph: list[str] = []
    items: list[str] = []
    for line in map(str.strip, first.splitlines()):
        begins = ITEM.match(line)
        if begins:
            items.append(line[begins.end() :])
        elif items:
            items[-1] += " " + line
        else:
            paragraph.append(line)
    return shortened(" ".join(paragraph)), [shortened(item) for item in items[:ITEMS_MAX]]


def shortened(text: str) -> str:
    """Return a text up to the last sentence that fits."""
    if len(text) <= PARAGRAPH_CHARACTERS_MAX:
        return text
    ends = [found.end() for found in SENTENCE_END.finditer(text[:PARAGRAPH_CHARACTERS_MAX])]
    return text[: ends[-1]] if ends else text[:PARAGRAPH_CHARACTERS_MAX].rsplit(" ", 1)[0] + " ..."


def _no_block(found: re.Match[str]) -> str:
    return f"\\{found['mark']}" if found["mark"] else f"{found['number']}\\"


def _code(code: str, whole: str, paths: Collection[str], is_commit: Callable[[str], bool]) -> str:
    if re.fullmatch(r"[0-9a-f]{7,64}", code) and not is_commit(code):
        return code
    return link(whole, code) if _is_path(code, paths) else whole


def _word(word: str, paths: Collection[str]) -> str:
    parts = AROUND_PATH.fullmatch(word)
    if parts and _is_path(parts["path"], paths):
        shown = link(escaped(parts["path"]), parts["path"])
        return escaped(parts["before"]) + shown + escaped(parts["after"])
    return escaped(word)


def _is_path(word: str, paths: Collection[str]) -> bool:
    return ("/" in word.strip("/") or "." in word) and word.rstrip("/") in paths
