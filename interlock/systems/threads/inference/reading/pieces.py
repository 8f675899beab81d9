"""Reads the sentences of a request as one capability understands them, by its schema and examples.

A capability's schema says by "x-from" what each parameter is taken from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.reading import dates, frames, sentences
from interlock.systems.threads.inference.reading.courtesy import (
    as_having,
    bare,
    begs,
    hopes,
    without_closings,
)
from interlock.systems.threads.inference.reading.mention import Mention
from interlock.systems.threads.inference.reading.request import (
    ReadRequest,
    blanked_paths,
    mapping,
    without_paths,
)
from interlock.systems.threads.inference.reading.sentences import ReadSentence, SentenceRole
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    content,
    stem,
    stems,
)

HINT = "x-from"
PHRASES = "x-phrases"
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


def schemas(choice: OfferedCapability) -> Mapping[str, Mapping[str, object]]:
    """Return the schema of each parameter of a capability."""
    properties = mapping(choice.parameters.get("properties"))
    return {name: mapping(schema) for name, schema in properties.items()}


def hints(choice: OfferedCapability) -> frozenset[str]:
    """Return what the parameters of a capability are taken from."""
    return frozenset(str(schema[HINT]) for schema in schemas(choice).values() if HINT in schema)


def takes(choice: OfferedCapability, hint: str) -> bool:
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


def own_words(choice: OfferedCapability) -> frozenset[str]:
    """Return the stems of a capability's name and description."""
    return stems(f"{choice.name.replace('_', ' ')} {choice.description}")


def phrase_words(choice: OfferedCapability) -> frozenset[str]:
    """Return the stems of the words that stand before or behind such values."""
    return stems(" ".join(one for schema in schemas(choice).values() for one in phrases_of(schema)))


def phrases_of(schema: Mapping[str, object]) -> list[str]:
    """Return the phrases of which a parameter takes what stands in place of "this"."""
    listed = schema.get(PHRASES)
    if schema.get(HINT) != "phrase" or not isinstance(listed, (list, tuple)):
        return []
    return list(map(str, listed))


def object_of(choice: OfferedCapability) -> str:
    """Return the stem of what a capability is about: "badge" of print_badge."""
    return stem(choice.name.rpartition("_")[2])


def is_heading(choice: OfferedCapability, piece: Piece) -> bool:
    """Return whether a title names what is noted below it: "Minutes of the meeting"."""
    first = next(iter(content(piece.sentence.text)), "")
    named = own_words(choice) - frozenset(map(stem, ACTION_VERBS)) | {object_of(choice)}
    spoken_to = re.search(r"\bto [A-Z]", piece.sentence.text)
    about = stem(first) in named or object_of(choice) in stems(piece.sentence.text)
    label = piece.role is SentenceRole.LABEL and piece.sentence.in_title
    return label and about and spoken_to is None


def pieces(choice: OfferedCapability, request: ReadRequest, verbs: frozenset[str]) -> list[Piece]:
    """Return the sentences of a request as a capability reads them.

    The body is left out where it is the text on which a capability works, as the title wishes.
    """
    known = own_words(choice) | frames.frame_words(choice.examples) | phrase_words(choice)
    found = [_piece(choice, one, request, known, verbs) for one in request.sentences]
    if not takes(choice, "text"):
        return found
    # The wish may stand in the body before a colon or a paragraph, with the text behind it.
    heads = [_piece(choice, one, request, known, verbs) for one in _heads(request)]
    if any(not piece.sentence.in_title and _names_wish(choice, piece) for piece in heads):
        return heads
    in_title = [piece for piece in found if piece.sentence.in_title]
    wishes = any(
        piece.role in {SentenceRole.WISH, SentenceRole.QUESTION}
        or stems(piece.sentence.text) & stems(choice.name.replace("_", " "))
        for piece in in_title
    )
    if wishes:
        return in_title
    return heads or found


def _names_wish(choice: OfferedCapability, piece: Piece) -> bool:
    named = stems(piece.sentence.text) & stems(choice.name.replace("_", " "))
    return bool(named) and piece.role in {SentenceRole.WISH, SentenceRole.QUESTION}


def _heads(request: ReadRequest) -> list[ReadSentence]:
    head, _ = request.head_and_rest
    return sentences.split(request.heading, f"{head.rstrip('.:')}.") if head else []


def _piece(
    choice: OfferedCapability,
    sentence: ReadSentence,
    request: ReadRequest,
    known: frozenset[str],
    verbs: frozenset[str],
) -> Piece:
    taken = hints(choice)
    found = tuple(dates.mentions(blanked_paths(sentence.text), request.at))
    text = dates.without(sentence.text, [one for one in found if takes_mention(taken, one)])
    order, wished = bare(text)
    core = order
    if "path" in taken:
        text, core = without_paths(text), without_paths(core)
    match = _match(choice, known, sentences.without_purpose(text), text, core, as_having(text))
    framed = match is not None and match.telling
    role = sentences.role(sentence, order, framed=framed, wished=wished, verbs=verbs)
    refers = match.refers if match else role is SentenceRole.WISH and _refers(core, known)
    if begs(sentence.text) and not (framed or object_of(choice) in stems(sentence.text)):
        # "Could I have a badge?" asks for a deed, "may I have visitors?" for leave.
        role = SentenceRole.QUESTION
    if role is SentenceRole.QUESTION and text != sentence.text and hopes(sentence.text):
        # "Could tray/a.pdf be filed?"
        role = SentenceRole.STATEMENT
    if role is SentenceRole.STATEMENT and _is_headed(choice, order, found):
        role = SentenceRole.LABEL
    role, refers = _corrected(choice, role, core, known, refers=refers)
    if role is SentenceRole.LABEL and sentence != request.sentences[0] and _is_own(core, known):
        # The last words may only name where it goes, as the calendar.
        role, refers = SentenceRole.WISH, True
    return Piece(
        sentence,
        role,
        matter=tidy(
            core if match is None else without_closings(match.matter),
            whole=text == sentence.text,
        ),
        refers=refers,
        framed=framed,
        judged=match.around if match and "matter" in taken else sentence.text,
        order=order,
        before=match.before if match else "",
        mentions=found,
    )


def _refers(core: str, known: frozenset[str]) -> bool:
    return frames.refers_only(sentences.without_tail(core), known)


def _is_headed(choice: OfferedCapability, order: str, found: Sequence[Mention]) -> bool:
    """Return whether a statement follows a name of what is wanted: "Badge, the name is Bo"."""
    head = re.split(r"[,;:]\s|\s[\u2013-]\s", order)[0]
    if sentences.has_subject(head) or not content(head):
        return False
    timed = any(one.when.day for one in found) and any(one.when.time_of_day for one in found)
    return object_of(choice) in stems(head) or (takes(choice, "datetime") and timed)


def _corrected(
    choice: OfferedCapability, role: SentenceRole, core: str, known: frozenset[str], *, refers: bool
) -> tuple[SentenceRole, bool]:
    """Return the role of a statement that says what is needed or to be done, and if it refers."""
    if sentences.asks_first(core):
        return SentenceRole.STATEMENT, refers
    if role is not SentenceRole.STATEMENT:
        return role, refers
    if sentences.says_need_of(core, object_of(choice)):
        return SentenceRole.WISH, True
    if sentences.is_deontic(core) and any(stem(word) in known for word in content(core)):
        return SentenceRole.WISH, takes(choice, "path") or frames.refers_only(core, known)
    return role, refers


def _is_own(text: str, known: frozenset[str]) -> bool:
    said = content(text)
    return bool(said) and all(stem(word) in known for word in said)


def tidy(text: str, *, whole: bool = False) -> str:
    """Return a text without what hangs at its ends after words were taken out of it.

    Nothing was taken out of the middle of one that is `whole`: "when we moved in".
    """
    text = _LEADING.sub("", re.sub(r"\s+", " ", text)).strip(_EDGE)
    text = text if whole else _DANGLING.sub("", text).strip(_EDGE)
    quoted = _QUOTED.match(text)
    return (quoted.group(1) if quoted else text).strip()


def _match(
    choice: OfferedCapability, known: frozenset[str], short: str, *texts: str
) -> frames.Match | None:
    """Return how a sentence fits a frame. `short` lacks its purpose, which is no matter."""
    match = frames.match(bare(short)[0], choice.examples, known)
    if match is not None and match.refers:
        return match
    found = (frames.match(text, choice.examples, known) for text in texts)
    return next((one for one in found if one is not None), None)
