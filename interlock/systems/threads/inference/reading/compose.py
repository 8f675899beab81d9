"""Composes the words that a capability takes: a title, a text to be noted, details, a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.reading import frames
from interlock.systems.threads.inference.reading.names import introduced, names
from interlock.systems.threads.inference.reading.pieces import (
    Piece,
    own_words,
    phrases_of,
    schemas,
    tidy,
)
from interlock.systems.threads.inference.reading.request import without_paths
from interlock.systems.threads.inference.reading.sentences import (
    SentenceRole,
    has_subject,
    is_deontic,
    without_tail,
)
from interlock.systems.threads.inference.reading.words import (
    FUNCTION_WORDS,
    IDIOMS,
    content,
    stem,
    stems,
    words,
)

_ARTICLE = re.compile(
    r"^(?:(?:i|we)(?:'ve| have)(?: got)? |there(?:'s| is) |(?:i|we)(?:'m|'re| am| are) having )"
    r"(?:a |an |the |my |our |this )?|^(?:a|an|the|my|our|this) ",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"(?<!\w)['\"\u2018\u201c]([^'\"\u2018-\u201d\n]{2,80})['\"\u2019\u201d](?!\w)"
)
_ARROW = re.compile(r"\s*(?:-+>|=+>|\u2192)\s*")
_PHRASE_WORDS_MAX = 4
_PHRASE_WORD = (
    rf"(?!(?:{'|'.join(sorted(FUNCTION_WORDS | IDIOMS))}|please|today|tomorrow)\b)[^\s,.;:!?'\"()]+"
)


def title(pieces: Sequence[Piece], choice: OfferedCapability) -> tuple[str, Piece | None]:
    """Return the title that a person would write, and the piece that it comes from."""
    known = own_words(choice) | frames.frame_words(choice.examples)
    wishes = [
        piece
        for piece in pieces
        if piece.role is SentenceRole.WISH
        and not piece.refers
        # A statement of what can be done is no title, where there is a heading.
        and (piece.framed or piece.sentence.in_title or not has_subject(piece.order))
    ]
    said = [piece for piece in pieces if piece.role is not SentenceRole.COURTESY]
    telling = [piece for piece in said if content(piece.matter, explained=known)]
    for piece in (*wishes, *telling, *said):
        if piece.matter and not frames.function_only(piece.matter):
            text = _ARTICLE.sub("", without_tail(piece.matter).rstrip(" .!?;,"))
            return text[:1].upper() + text[1:], piece
    return "", None


def matter(pieces: Sequence[Piece]) -> str | None:
    """Return what is to be written down: all but trigger words and polite words."""
    told = [
        piece for piece in pieces if not piece.refers and piece.role is not SentenceRole.COURTESY
    ]
    kept = [said for piece in told if (said := _noted(piece, heads=len(told) > 1)).strip(" .:-")]
    if not kept:
        return None
    text = kept[0]
    for before, after in pairwise(kept):
        listed = after.startswith("- ")
        if listed and not before.startswith("- "):
            text = text.rstrip(".:") + ":"
        text += ("\n" if listed or before.startswith("- ") else " ") + after
    text = text[:1].upper() + text[1:]
    return text.rstrip(".") if len(kept) == 1 else text


def _noted(piece: Piece, *, heads: bool) -> str:
    said = (piece.matter if piece.framed else piece.sentence.text).strip()
    if piece.sentence.bullet:
        return f"- {said.rstrip('.')}"
    if piece.sentence.in_title and heads and not piece.framed:
        return said.rstrip(" .:!") + ":"
    return f"{said}." if said and said[-1] not in '.!?:;"\u201d' else said


def details(pieces: Sequence[Piece], headed: str, title_from: Piece | None) -> str | None:
    """Return the sentences that say more than the title and the values, and all parts of days."""
    known = stems(headed)
    kept: list[str] = []
    for piece in pieces:
        beside = [one.words for one in piece.mentions if one.beside]
        says_more = not piece.refers and content(piece.matter, explained=known)
        if piece is title_from and without_tail(piece.matter) != piece.matter:
            kept.append(piece.matter.removeprefix(without_tail(piece.matter)).lstrip(" ,;:-"))
        if piece is not title_from and says_more:
            kept.append(piece.sentence.text)
        else:
            kept += beside
    return " ".join(kept) or None


def people(pieces: Sequence[Piece], choice: OfferedCapability) -> list[str]:
    """Return the names in the wish, or those in all of the request."""
    # The names in the examples are no words of the capability.
    said = [word for example in choice.examples for word in words(example)]
    firsts = [words(example)[0] for example in choice.examples if words(example)]
    known = own_words(choice) | frozenset(stem(word) for word in said if word.islower())
    known |= frozenset(map(stem, firsts))
    named = [name for piece in pieces for name in introduced(piece.order)]
    wishes = [piece for piece in pieces if piece.role is SentenceRole.WISH]
    labels = [piece for piece in pieces if piece.role is SentenceRole.LABEL]
    for group in (wishes, labels, pieces):
        found = [
            name
            for piece in group
            for text in (_without_times(piece),)
            for name in _QUOTED.findall(text) or names(text, known)
            # "Reception" above a request says where, and nobody is called by it.
            if " " in name or piece.role is not SentenceRole.LABEL
        ]
        if named or found:
            return list(dict.fromkeys((*named, *found)))
    return []


def _without_times(piece: Piece) -> str:
    text = piece.order
    for one in piece.mentions:
        text = text.replace(one.words, " ")
    return text


def after_phrases(choice: OfferedCapability, pieces: Sequence[Piece]) -> dict[str, str]:
    """Return the values that stand behind or before the words that a schema names."""
    found: dict[str, str] = {}
    owned: dict[str, str] = {}
    own = own_words(choice)
    for name, schema in schemas(choice).items():
        for piece in pieces:
            named = stem(name) in stems(piece.order)
            if piece.role is SentenceRole.STATEMENT and not (named or is_deontic(piece.order)):
                continue
            order = tidy(without_paths(_ARROW.sub(" into ", piece.order)))
            for phrase in sorted(phrases_of(schema), key=len, reverse=True):
                before, _, after = phrase.partition("this")
                # "To the archive" is what the capability does, "under invoices" is a folder.
                telling = any(word not in FUNCTION_WORDS for word in words(f"{before} {after}"))
                value = _slot(order, before.strip(), after.strip(), telling=telling)
                if value and stems(value) == {stem(name)}:
                    # "In the folder" names none.
                    continue
                if value and not stems(value) <= own:
                    found.setdefault(name, value)
                elif value and telling:
                    # "The archive folder bills": its own words are a value if there is no other.
                    owned.setdefault(name, value)
    return {**owned, **found}


def _slot(text: str, before: str, after: str, *, telling: bool) -> str | None:
    more = rf"(?: {_PHRASE_WORD}){{0,{_PHRASE_WORDS_MAX - 1}}}?"
    value = rf"(?:the |my |our )?['\"]?(?P<value>{_PHRASE_WORD}{more})['\"]?"
    # "To rest in the archive": behind "to" alone, a value ends with its part of the sentence.
    function_word = rf"| (?!{_PHRASE_WORD})" if telling else ""
    end = rf" {re.escape(after)}\b" if after else rf"(?=$|[,.;:!?)]{function_word})"
    begin = re.escape(before).replace(r"\ ", r"\s+")
    lead = rf"\b{begin}(?:\s*:)?\s+" if before else r"(?:^|(?<=[\s,;:(]))"
    match = re.search(rf"{lead}{value}{end}", text, re.IGNORECASE)
    return match.group("value").strip() if match else None
