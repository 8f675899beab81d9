"""Counts the separate things that a request wishes for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.reading import frames
from interlock.systems.threads.inference.reading.account import Account
from interlock.systems.threads.inference.reading.courtesy import bare
from interlock.systems.threads.inference.reading.openings import opening, openings
from interlock.systems.threads.inference.reading.phrases import ADDS, JOINT
from interlock.systems.threads.inference.reading.pieces import (
    Piece,
    is_heading,
    object_of,
    own_words,
    takes,
)
from interlock.systems.threads.inference.reading.sentences import (
    SentenceRole,
    begins_with_verb,
)
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    FUNCTION_WORDS,
    OTHER_DEEDS,
    content,
    stem,
    stems,
    words,
)

_OBJECTS = frozenset({"it", "them", "him", "her", "me", "us"})
_OBJECT_BEGINS = frozenset({"a", "an", "the", "my", "our", "your", "his", "some", "this", "that"})


def wishes(
    account: Account, catalog: Sequence[OfferedCapability], verbs: frozenset[str]
) -> list[str]:
    """Return the separate things that a request wishes for."""
    writes_down, keeps = takes(account.choice, "matter"), takes(account.choice, "details")
    noted = writes_down and any(
        piece.framed or is_heading(account.choice, piece) for piece in account.pieces
    )
    found: list[str] = []
    other: list[str] = []
    others = {
        object_of(other)
        for other in catalog
        if other.name != account.choice.name
        and any(takes(other, hint) for hint in ("name", "path"))
    }
    for piece in account.pieces:
        if piece.role not in {SentenceRole.WISH, SentenceRole.LABEL} or piece.refers:
            continue
        if noted and not piece.framed:
            # Beside a note, only what is clearly meant for another capability is a wish.
            if piece.role is SentenceRole.WISH and _is_for_another(
                account.choice, piece.sentence.text, catalog
            ):
                found.append(piece.order)
            continue
        if noted:
            found += _beside_a_note(account.choice, piece, catalog, verbs)
            continue
        if keeps and not piece.sentence.in_title and _elaborates(account, piece, catalog, verbs):
            continue
        parts = [part for part in _clauses(piece, verbs) if _says_something(account, part)]
        alone = piece.role is SentenceRole.LABEL and not parts[1:] and not piece.sentence.bullet
        if alone and stems(piece.order) & others:
            found += parts
            other = [account.choice.name]
            continue
        if alone and not (_has_its_time(account, piece) or ADDS.match(piece.sentence.text)):
            continue
        found += parts
    bullets = [piece.sentence.text for piece in account.pieces if piece.sentence.bullet]
    if len(bullets) > 1 and not writes_down:
        return bullets
    kept = _distinct(found)
    # "Badge for Mr Okafor, and his visit goes in the calendar"
    return kept if kept[1:] else [*kept, *other]


def _elaborates(
    account: Account, piece: Piece, catalog: Sequence[OfferedCapability], verbs: frozenset[str]
) -> bool:
    """Return whether a wish only says more of the title's: "We need three sets"."""
    if piece.framed or begins_with_verb(piece.order, verbs) or ADDS.match(piece.sentence.text):
        return False
    others = {stem(other.name.rpartition("_")[2]) for other in catalog} - stems(account.choice.name)
    return not stems(piece.order) & others and not _has_its_time(account, piece)


def _has_its_time(account: Account, piece: Piece) -> bool:
    """Return whether a name has a time, so that it is a wish: "Lunch on Friday at 12:30"."""
    if not takes(account.choice, "datetime") or not content(piece.matter):
        return False
    return any(one.when.day or one.when.time_of_day for one in piece.mentions)


def _beside_a_note(
    choice: OfferedCapability,
    piece: Piece,
    catalog: Sequence[OfferedCapability],
    verbs: frozenset[str],
) -> list[str]:
    """Return a note as one wish, with the orders before and behind it that are no part of it."""
    if begins_with_verb(piece.before, verbs):
        # "Email Tom, and note that I did"
        return [piece.before, piece.order.removeprefix(piece.before).strip(" ,.;")]
    parts = _clauses(piece, verbs)
    # "We are out of ink, and order some": an order behind what is no order, as a recipe is.
    ordered = not begins_with_verb(piece.matter, verbs)
    meant = any(
        _is_for_another(choice, part, catalog) or (ordered and _has_object(part, verbs))
        for part in parts[1:]
    )
    return parts if meant else [piece.order]


def _has_object(part: str, verbs: frozenset[str]) -> bool:
    said = [word.lower() for word in words(part)[:2]]
    return begins_with_verb(part, verbs) and said[1] in _OBJECTS | _OBJECT_BEGINS


def _says_something(account: Account, part: str) -> bool:
    known = own_words(account.choice)
    match = frames.match(bare(part)[0], account.choice.examples, known)
    says = content(part, explained=known) if takes(account.choice, "path") else content(part)
    return bool(says) and not (match is not None and match.refers)


def _is_for_another(
    own: OfferedCapability, text: str, catalog: Sequence[OfferedCapability]
) -> bool:
    """Return whether a text has the trigger words or the verb of another capability."""
    core = bare(text)[0]
    verb = opening(core)
    return any(
        verb in openings(other.examples)
        or frames.match(core, other.examples, frozenset()) is not None
        for other in catalog
        if other.name != own.name
    )


def _clauses(piece: Piece, verbs: frozenset[str]) -> list[str]:
    """Split an order before each further verb: "buy milk and call Anna"."""
    text = bare(piece.sentence.text)[0]
    found: list[str] = []
    begin = 0
    for match in JOINT.finditer(text):
        following = words(text[match.end() :])[:2]
        if (
            len(following) > 1
            and (
                following[0].lower() in ACTION_VERBS | OTHER_DEEDS | verbs
                # Whatever the verb is: "and frame it".
                or (following[1].lower() in _OBJECTS and following[0].lower() not in FUNCTION_WORDS)
                or _wished(text[match.end() :])
            )
        ):
            found.append(text[begin : match.start()])
            begin = match.end()
    return [part.strip(" ,;.") for part in (*found, text[begin:]) if part.strip(" ,;.")]


def _wished(text: str) -> bool:
    return bare(text)[1] and not text.lower().startswith("please")


def _distinct(parts: Collection[str]) -> list[str]:
    """Leave out what says no more than another part."""
    kept: list[str] = []
    for part in parts:
        said = frozenset(map(stem, content(part)))
        if not any(said <= frozenset(map(stem, content(other))) for other in kept):
            kept.append(part)
    return kept
