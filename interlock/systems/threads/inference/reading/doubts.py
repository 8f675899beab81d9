"""The reasons for which a request is not done but asked about, whatever its words are near to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.reading import phrases
from interlock.systems.threads.inference.reading.account import CALLED, Account
from interlock.systems.threads.inference.reading.courtesy import bare
from interlock.systems.threads.inference.reading.language import foreign_language
from interlock.systems.threads.inference.reading.pieces import (
    Piece,
    is_heading,
    own_words,
    phrase_words,
    takes,
)
from interlock.systems.threads.inference.reading.request import (
    READ_CHARS_MAX,
    ReadRequest,
    without_paths,
)
from interlock.systems.threads.inference.reading.sentences import (
    SentenceRole,
    asks,
    begins_with_verb,
)
from interlock.systems.threads.inference.reading.wishes import wishes
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    OTHER_DEEDS,
    alike,
    content,
    stem,
    stems,
    words,
)

# An order with no more words than this has to say what it is about.
_SHORT_MAX = 2


class DoubtKind(StrEnum):
    """The sorts of doubts, each with how it is said to a person."""

    LONG = "it is long: I read at most {said} characters"
    LANGUAGE = "I know English only, and it may be {said}"
    NEGATION = "it says {said}"
    PAST = "it tells what was done: {said}"
    QUESTION = "it is a question: {said}"
    UNABLE = "I have nothing for {said}"
    CONDITION = "it depends on something: {said}"
    UNCLEAR = "I do not know what is meant by {said}"
    STATES = "it tells something and wishes for nothing: {said}"
    SEVERAL = "it asks for several things: {said}"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason to ask, and the words of the request that are the reason."""

    why: DoubtKind
    said: str

    def __str__(self) -> str:
        """Return the reason as a part of a sentence."""
        return self.why.value.format(said=self.said)


def doubts(
    account: Account,
    request: ReadRequest,
    catalog: Sequence[OfferedCapability],
    verbs: frozenset[str],
) -> list[Doubt]:
    """Return why a request should not be done as it was read."""
    if request.is_long:
        return [Doubt(DoubtKind.LONG, f"{READ_CHARS_MAX:,}")]
    known = stems(" ".join(example for choice in catalog for example in choice.examples))
    known |= frozenset(word for choice in catalog for word in own_words(choice))
    known |= frozenset(word for choice in catalog for word in phrase_words(choice))
    if language := foreign_language(request.heading, request.body, known=known):
        return [Doubt(DoubtKind.LANGUAGE, language)]
    wished = any(piece.role is SentenceRole.WISH for piece in account.pieces)
    alone = len(request.sentences) == 1
    found = [
        doubt
        for piece in account.pieces
        if not _is_noted(account, piece)
        for doubt in (
            *_asked(account, piece),
            *_taken_back(account, piece, wished=wished),
            *_not_able(account, piece, verbs, alone=alone),
        )
    ]
    if not found and not wished and (told := _only_told(account)):
        found.append(Doubt(DoubtKind.STATES, f"'{told}'"))
    if takes(account.choice, "command") and request.command:
        # The code says what is to be done, and a person who is asked reads the rest.
        return [one for one in found if one.why in {DoubtKind.NEGATION, DoubtKind.PAST}]
    several = wishes(account, catalog, verbs)
    several = several if len(several) > 1 else list(account.rivals)
    if several:
        found.append(Doubt(DoubtKind.SEVERAL, ", ".join(f"'{one}'" for one in several)))
    return found


def _is_noted(account: Account, piece: Piece) -> bool:
    """Return whether a sentence is what is to be written down, where another one asks for that."""
    noted = takes(account.choice, "matter") and any(
        one.framed or is_heading(account.choice, one) for one in account.pieces
    )
    if phrases.FORBIDS.match(piece.sentence.text):
        return False
    return noted and not piece.framed and piece.role is not SentenceRole.WISH


def _asked(account: Account, piece: Piece) -> Iterator[Doubt]:
    if piece.role is SentenceRole.QUESTION and not _is_answered(account, piece):
        yield Doubt(DoubtKind.QUESTION, f"'{piece.sentence.text}'")


def _is_answered(account: Account, piece: Piece) -> bool:
    # "How many words" is answered, "would you say that it is long" is not.
    said = f" {' '.join(words(piece.sentence.text.lower()))} "
    return any(
        asks(example) and f" {' '.join(words(bare(example.lower())[0])[:2])} " in said
        for example in account.choice.examples
    ) or (takes(account.choice, "text") and _is_about_the_text(account.choice, piece))


def _is_about_the_text(choice: OfferedCapability, piece: Piece) -> bool:
    """Return whether a question has no other words than a capability on a text has."""
    known = own_words(choice) | stems(" ".join(choice.examples)) | stems("know see")
    return not content(CALLED.sub(" ", piece.sentence.text), explained=known)


def _taken_back(account: Account, piece: Piece, *, wished: bool) -> Iterator[Doubt]:
    """Find negations and reports; a statement beside a wish counts if it is about the wish."""
    text = without_paths(phrases.HARMLESS.sub(" ", piece.judged))
    if piece.framed and not takes(account.choice, "matter"):
        text = bare(text)[0]
    if piece.role is SentenceRole.QUESTION and _is_answered(account, piece):
        # "How many words have I written?"
        return
    if match := phrases.TURNS.search(text):
        yield Doubt(DoubtKind.NEGATION, phrases.with_next(text, match))
    if wished and piece.role is SentenceRole.STATEMENT and not _is_about_the_wish(account, piece):
        return
    if match := phrases.NEGATION.search(text):
        yield Doubt(DoubtKind.NEGATION, phrases.with_next(text, match))
        return
    reports = not piece.framed and piece.role is not SentenceRole.WISH
    match = phrases.OVER.search(text) or (phrases.PAST.search(text) if reports else None)
    if match:
        yield Doubt(DoubtKind.PAST, phrases.with_next(text, match))


def _is_about_the_wish(account: Account, piece: Piece) -> bool:
    """Return whether a statement beside a wish says that it is over: "I called him already"."""
    wished = [one.sentence.text for one in account.pieces if one.role is SentenceRole.WISH]
    text = piece.sentence.text
    deeds = frozenset(map(stem, ACTION_VERBS))
    if stems(text) & stems(" ".join(wished)) & deeds:
        return True
    about = phrases.ABOUT_THE_WISH.match(text)
    return about is not None and phrases.TAKES_BACK.search(text) is not None


def _not_able(
    account: Account, piece: Piece, verbs: frozenset[str], *, alone: bool
) -> Iterator[Doubt]:
    """Find what no capability can do, or cannot know: other deeds, conditions, references."""
    if piece.framed and takes(account.choice, "matter"):
        return
    if piece.role in {SentenceRole.WISH, SentenceRole.LABEL}:
        text = phrases.HARMLESS.sub(" ", piece.judged)
        if match := phrases.CONDITION.search(text):
            yield Doubt(DoubtKind.CONDITION, f"'{match.group().strip()}'")
        if reference := _unknown_reference(piece, alone=alone):
            yield Doubt(DoubtKind.UNCLEAR, f"'{reference}'")
    # "Cancel the paper. Put it on my list": the deed is only written down.
    listed = any(one.framed for one in account.pieces) and not takes(account.choice, "datetime")
    if listed or piece.refers or piece.role is SentenceRole.QUESTION:
        return
    if deed := _other_deed(account.choice, piece.order, verbs):
        yield Doubt(DoubtKind.UNABLE, f"'{deed}'")


def _unknown_reference(piece: Piece, *, alone: bool) -> str | None:
    match = phrases.UNCLEAR.search(piece.matter if piece.framed else piece.order)
    if match and not (piece.framed and len(content(piece.matter)) > _SHORT_MAX):
        return match.group()
    match = phrases.LOST.search(piece.order) if alone else None
    return match.group() if match and len(content(piece.order)) <= _SHORT_MAX else None


def _only_told(account: Account) -> str | None:
    """Return what a request tells that has no wish, or None: "Dentist, Friday at 9:30" is one."""
    choice = account.choice
    own = stems(choice.name.replace("_", " ")) | {stem(choice.name.replace("_", ""))}
    if takes(choice, "path"):
        own |= own_words(choice) | phrase_words(choice)
    named = any(
        stems(piece.sentence.text) & own
        for piece in account.pieces
        if piece.role is SentenceRole.LABEL
    )
    mentions = [one for piece in account.pieces for one in piece.mentions]
    timed = takes(choice, "datetime") and mentions
    noted = takes(choice, "matter")
    if noted and any(is_heading(choice, piece) for piece in account.pieces):
        return None
    for piece in account.pieces:
        keeps = named or takes(choice, "details")
        states = piece.role is SentenceRole.STATEMENT and (piece.sentence.in_title or not keeps)
        bare_label = piece.role is SentenceRole.LABEL and not (named or timed)
        if (states and not _announces(choice, piece)) or bare_label or noted:
            return piece.sentence.text
    return None


def _announces(choice: OfferedCapability, piece: Piece) -> bool:
    """Return whether a statement says when something takes place: "The plumber comes at 9"."""
    timed = any(one.when.day for one in piece.mentions) and any(
        one.when.time_of_day for one in piece.mentions
    )
    return (
        takes(choice, "datetime") and timed and phrases.TAKES_PLACE.search(piece.order) is not None
    )


def _other_deed(choice: OfferedCapability, order: str, verbs: frozenset[str]) -> str | None:
    """Return the words with which an order wants what the capability does not say it does."""
    said = words(order)
    if not said:
        return None
    first = said[0].lower()
    # A capability that keeps no words does what its own verbs say, and nothing else.
    closed = not any(takes(choice, hint) for hint in ("title", "matter", "command"))
    able = stem(first) in _deeds(choice, closed=closed)
    if (match := phrases.FOR_ME.match(order)) and not (closed and able):
        return match.group()
    if match := phrases.REVERSES.match(order):
        return None if _is_own_way(choice, order, match) else match.group()
    if takes(choice, "datetime") and (match := phrases.CHANGES.search(order)):
        return match.group()
    foreign = begins_with_verb(order, verbs) if closed else _is_other(said)
    return " ".join(said[:2]) if foreign and not able else None


def _is_other(said: Sequence[str]) -> bool:
    dropped_off = said[0].lower() == "drop" and said[1:2] == ["off"]
    return said[0].lower() in OTHER_DEEDS and len(said) > 1 and not dropped_off


def _deeds(choice: OfferedCapability, *, closed: bool) -> frozenset[str]:
    """Return the stems of the words that may begin an order to a capability."""
    firsts = (
        verb
        for example in choice.examples
        for said in (words(example), words(bare(example)[0] if closed else ""))
        if said
        for verb in alike(said[0].lower())
    )
    return own_words(choice) | frozenset(map(stem, firsts))


def _is_own_way(choice: OfferedCapability, order: str, match: re.Match[str]) -> bool:
    """Return whether a capability moves things in that way, as "out of the tray" of a letter."""
    said = match.group()
    behind = content(order[match.end() :])[:1]
    if takes(choice, "path") and behind and stem(behind[0]) in own_words(choice):
        return True
    verb, particle = words(said)[0].lower(), words(said)[-1].lower()
    return any(
        example.lower().startswith(verb) and particle in words(example.lower())
        for example in choice.examples
    )
