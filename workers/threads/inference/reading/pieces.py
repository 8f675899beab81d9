"""Reads the sentences of a request as one capability understands them, by its schema and examples.

A capability's schema says by "x-from" what each parameter is taken from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from interlock.workers.threads.inference.question import Choice
from interlock.workers.threads.inference.reading import dates, frames, sentences
from interlock.workers.threads.inference.reading.dates import Mention
from interlock.workers.threads.inference.reading.request import (
    ReadRequest,
    mapping,
    without_paths,
)
from interlock.workers.threads.inference.reading.sentences import ReadSentence, SentenceRole
from interlock.workers.threads.inference.reading.words import content, stem, stems

HINT = "x-from"
TIMES = frozenset({"date", "datetime", "duration"})
_EDGE = " \t\n,;:\u2013\u2014-"
_DANGLING = re.compile(
    r"(?:(?:[\s,;:\u2013\u2014]|(?<=\s)-)+(?:on|at|by|for|from|in|and|until|till|to|the|a|an|of|with|is|it's"
    r"|its|before|about|so|will|should|which|that))+[\s,;:.\u2013\u2014-]*$",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"^(?:(?:and|then|also|that|to|about|for|so|at|on|by|is|will do|of) |[\s,;:.\u2013-])+",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"^['\"\u2018\u201c](.*)['\"\u2019\u201d]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence as one capability reads it."""

    sentence: ReadSentence
    role: SentenceRole
    # The sentence without polite words, trigger words and the values that were taken from it.
    matter: str
    # Whether it only refers to what is said elsewhere: "put it on my list".
    refers: bool
    # Whether it has trigger words around its matter.
    framed: bool
    # The text that may deny or reverse the wish: all of it but a matter that is only written down.
    judged: str
    # The order itself, without polite words.
    order: str
    # What stands before the trigger words, where these refer to it.
    before: str
    mentions: tuple[Mention, ...]


def schemas(choice: Choice) -> Mapping[str, Mapping[str, object]]:
    """Return the schema of each parameter of a capability."""
    properties = mapping(choice.parameters.get("properties"))
    return {name: mapping(schema) for name, schema in properties.items()}


def hints(choice: Choice) -> frozenset[str]:
    """Return what the parameters of a capability are taken from."""
    return frozenset(str(schema[HINT]) for schema in schemas(choice).values() if HINT in schema)


def takes(choice: Choice, hint: str) -> bool:
    """Return whether a parameter of a capability is taken from that."""
    return hint in hints(choice)


def takes_mention(taken: frozenset[str], mention: Mention) -> bool:
    """Return whether the hints of a capability have a place for a time."""
    when = mention.when
    if mention.unclear:
        return False
    if when.day:
        return bool(taken & {"date", "datetime"})
    if when.time_of_day:
        return "datetime" in taken
    return when.minutes is not None and "duration" in taken


def own_words(choice: Choice) -> frozenset[str]:
    """Return the stems of a capability's name and description."""
    return stems(f"{choice.name.replace('_', ' ')} {choice.description}")


def pieces(choice: Choice, request: ReadRequest, verbs: frozenset[str]) -> list[Piece]:
    """Return the sentences of a request as a capability reads them.

    The body is left out where it is the text on which a capability works, as the title wishes.
    """
    known = own_words(choice) | frames.frame_words(choice.examples)
    found = [_piece(choice, one, request, known, verbs) for one in request.sentences]
    if not takes(choice, "text"):
        return found
    in_title = [piece for piece in found if piece.sentence.in_title]
    wishes = any(
        piece.role in {SentenceRole.WISH, SentenceRole.QUESTION}
        or stems(piece.sentence.text) & stems(choice.name.replace("_", " "))
        for piece in in_title
    )
    return in_title if wishes else found


def _piece(
    choice: Choice,
    sentence: ReadSentence,
    request: ReadRequest,
    known: frozenset[str],
    verbs: frozenset[str],
) -> Piece:
    taken = hints(choice)
    found = tuple(dates.mentions(sentence.text, request.at))
    text = dates.without(sentence.text, [one for one in found if takes_mention(taken, one)])
    order, wished = sentences.bare(text)
    core = order
    if "path" in taken:
        text, core = without_paths(text), without_paths(core)
    match = _match(choice, known, sentences.without_purpose(text), text, core)
    framed = match is not None and match.telling
    role = sentences.role(sentence, order, framed=framed, wished=wished, verbs=verbs)
    refers = (
        match.refers if match else role is SentenceRole.WISH and frames.refers_only(core, known)
    )
    if sentences.asks_first(core):
        role = SentenceRole.STATEMENT
    elif (
        role is SentenceRole.STATEMENT and sentences.is_deontic(core) and _has_word_of(core, known)
    ):
        role, refers = SentenceRole.WISH, "path" in taken or frames.refers_only(core, known)
    return Piece(
        sentence,
        role,
        matter=tidy(core if match is None else match.matter),
        refers=refers,
        framed=framed,
        judged=match.around if match and "matter" in taken else sentence.text,
        order=order,
        before=match.before if match else "",
        mentions=found,
    )


def tidy(text: str) -> str:
    """Return a text without what hangs at its ends after words were taken out of it."""
    text = _LEADING.sub("", re.sub(r"\s+", " ", text)).strip(_EDGE)
    text = _DANGLING.sub("", text).strip(_EDGE)
    quoted = _QUOTED.match(text)
    return (quoted.group(1) if quoted else text).strip()


def _has_word_of(text: str, known: frozenset[str]) -> bool:
    return any(stem(word) in known for word in content(text))


def _match(choice: Choice, known: frozenset[str], short: str, *texts: str) -> frames.Match | None:
    """Return how a sentence fits a frame. `short` lacks its purpose, which is no matter."""
    match = frames.match(sentences.bare(short)[0], choice.examples, known)
    if match is not None and match.refers:
        return match
    found = (frames.match(text, choice.examples, known) for text in texts)
    return next((one for one in found if one is not None), None)
