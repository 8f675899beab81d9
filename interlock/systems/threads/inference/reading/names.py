"""Finds the names of people in an English text by their titles and capital letters."""

from __future__ import annotations

import re

from interlock.systems.threads.inference.reading.words import ACTION_VERBS, FUNCTION_WORDS, stem

_TITLE = (
    r"(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Sir|Madam|Lord|Lady|Rev|Lt|Col|Gen|Sgt|Maj|Capt|Hon|Fr|Signor|Signora|Señor|Monsieur|Reverend|Cllr|Captain|Judge"
    r"|Frau|Herr|Mme|M)\b\.?"
)
_CAPITAL = r"(?:(?:al|el|d)['\u2019-])?[^\W\d_a-z\u00df-\u00ff][\w'\u2019-]*"
_PARTICLE = (
    r"(?:van der|van den|van|von der|von|de la|de|da|dos|di|del"
    r"|bin|al|el|ter|ten|le|la)"
)
_NAME = re.compile(
    rf"(?:(?P<title>{_TITLE})(?: {_TITLE})*(?: {_PARTICLE})?(?: {_CAPITAL}\.?(?: {_PARTICLE})?)+"
    rf"|{_CAPITAL}(?: (?:{_PARTICLE} )?{_CAPITAL}\.?)*)"
)
_INTRODUCED = re.compile(
    r"\b(?:made out to|in the name of|name(?:['\u2019]s| is|:)|(?:is|['\u2019]s) called|called:?"
    r"|named"
    r"|goes by(?: the name(?: of)?)?|known as|(?:that|which|it should|to) (?:says?|reads?)"
    r"|reading|saying)"
    rf"\s+(?:a |an )?(?P<name>{_NAME.pattern})"
)


def introduced(text: str) -> list[str]:
    """Return the names that a text introduces as such: "she is called Ms Rautio"."""
    return [match["name"].rstrip(".") for match in _INTRODUCED.finditer(text)]


def names(text: str, known: frozenset[str]) -> list[str]:
    """Return the names in a text. `known` are the stems of words that are no part of a name."""
    found: list[str] = []
    for match in _NAME.finditer(text):
        parts = match.group().rstrip(".").split()
        if match["title"] is None:
            # "Print Sofia Rossi a badge": the first word has its capital from the sentence.
            first = FUNCTION_WORDS | (ACTION_VERBS if match.start() == 0 else frozenset())
            while parts and (parts[0].lower() in first or stem(parts[0]) in known):
                parts.pop(0)
            while parts and stem(parts[-1]) in known:
                parts.pop()
            # "He's" and "It's" have their capital from the sentence as well.
            if parts and re.split(r"['\u2019]", parts[0])[0].lower() in FUNCTION_WORDS:
                parts = parts[1:]
        name = " ".join(parts)
        # "Front desk" and "Reception is full": one word has its capital from the sentence, and
        # "the Front Desk" is a place.
        behind = text[match.end() :]
        alone = match["title"] is None and len(match.group().split()) == 1
        if alone and match.start() == 0 and re.match(r" [a-z]", behind):
            continue
        if match["title"] is None and re.search(r"\b[Tt]he $", text[: match.start()]):
            continue
        # "Ms O'Neill of Hartmann": what follows says where she comes from.
        if found and re.search(r"\b(?:of|from|at) $", text[: match.start()]):
            continue
        if name and name not in found:
            found.append(name)
    return found
