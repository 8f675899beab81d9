"""Puts together what a request asks for, with how sure that is, and what a person must be asked.

Nearness in meaning says which capability is meant; it does not say whether it is wanted ("do not
file it"), nor whether all that was said is done. So the confidence starts with the nearness, falls
to NOT_UNDERSTOOD_MAX where there is a doubt, and, for the action, below the floor of each
composition with the first word of the wish that was not used. The constants were chosen on
tests/systems/threads/inference/own_requests.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.system.models import OfferedCapability
from interlock.system.text import one_line
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.inference.reading.account import Account, account
from interlock.systems.threads.inference.reading.doubts import Doubt, DoubtKind, doubts
from interlock.systems.threads.inference.reading.meaning import Meanings
from interlock.systems.threads.inference.reading.nearest import (
    Nearest,
    Origin,
    nearest,
    ranking,
    wording,
)
from interlock.systems.threads.inference.reading.openings import verbs as first_verbs
from interlock.systems.threads.inference.reading.request import ReadRequest, read
from interlock.systems.threads.inference.reading.values import Filled, fill
from interlock.systems.threads.inference.reading.wishes import wishes
from interlock.systems.threads.inference.reading.words import stem, words

NOT_UNDERSTOOD_MAX = 0.29
# Even where nothing speaks against it, one request in so many means something else.
SURE_MAX = 0.97
# With one unused word; each further one multiplies by the second.
UNUSED_MAX, UNUSED_MORE, UNUSED_MIN = 0.5, 0.9, 0.3
# Each word that only explains multiplies by the first, as far as the second.
ASIDE, ASIDE_MIN = 0.97, 0.65
# A part of a split is read as sure as that.
PART_MIN = 0.6
DECOMPOSE = "decompose"
# A part with one of these cannot be understood without the others.
_REFERS = re.compile(
    r"\b(?:it|its|him|his|her|hers|them|they|their|he|she|there|again|this|these|those|same|both)\b",
    re.IGNORECASE,
)
UNUSED_SHOWN_MAX = 8
WORD_CHARS_MAX = 80


# A capability that keeps a title: what a request near to none is read as.
_NONE = OfferedCapability("", "", (), {"properties": {"title": {"x-from": "title"}}})


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a request asks for: a capability with its values, or a question to a person."""

    request: ReadRequest
    choice: OfferedCapability | None = None
    # How sure the capability is, and how sure the call with its values is.
    of_intent: float = 0.0
    of_action: float = 0.0
    filled: Filled | None = None
    doubts: tuple[Doubt, ...] = ()
    unused: tuple[str, ...] = ()
    nearest: tuple[OfferedCapability, ...] = ()
    # What a person said in place of the request, without its trigger words.
    reworded: str | None = None

    @property
    def not_used(self) -> str:
        """Say which words of the request were not used, or nothing."""
        if not self.unused:
            return ""
        shown = [one_line(word, length_max=WORD_CHARS_MAX) for word in self.unused]
        listed = ", ".join(f"'{word}'" for word in shown[:UNUSED_SHOWN_MAX])
        more = len(shown) - UNUSED_SHOWN_MAX
        return f"I did not use: {listed}{f' and {more} more' if more > 0 else ''}"


def understand(question: Question, model: Meanings, *, whole: bool = True) -> Understanding:
    """Read a question's request. A part of a request is not `whole`, and is split no further."""
    request = read(question)
    request = replace(request, wording=wording(question, request, model))
    verbs = first_verbs(example for choice in question.catalog for example in choice.examples)
    found = nearest(question, request, model)
    if found.choice is None:
        return _asking(question, request, model, found, _doubts_of_none(question, request, verbs))
    accounted = account(found.choice, request, verbs)
    by_person = found.origin in {Origin.PICK, Origin.ANSWER}
    reasons = () if by_person else _doubts(question, request, accounted, found.origin, verbs)
    if whole and reasons and all(one.why is DoubtKind.SEVERAL for one in reasons):
        parts = wishes(accounted, question.catalog, verbs)
        if split := _split(question, request, accounted, parts, model):
            return split
    if reasons:
        return _asking(question, request, model, found, reasons)
    of_intent = 1.0 if by_person else found.nearness * SURE_MAX
    seen = found.origin is Origin.ANSWER
    return Understanding(
        request,
        found.choice,
        of_intent,
        of_action=of_intent if seen else _trust(of_intent, accounted),
        filled=fill(accounted, request),
        unused=(*accounted.unused, *accounted.explained_by),
        reworded=str(accounted.values["title"] or request.wording) if request.wording else None,
    )


def _asking(
    question: Question,
    request: ReadRequest,
    model: Meanings,
    found: Nearest,
    reasons: Sequence[Doubt],
) -> Understanding:
    low = min(found.nearness, NOT_UNDERSTOOD_MAX)
    nearer = tuple(ranking(question, request, model))
    return Understanding(
        request, of_intent=low, of_action=low, doubts=tuple(reasons), nearest=nearer
    )


def _doubts(
    question: Question,
    request: ReadRequest,
    accounted: Account,
    origin: Origin,
    verbs: frozenset[str],
) -> Sequence[Doubt]:
    """Return the doubts about a request, and those about the newest remark on it."""
    of_remark: Sequence[Doubt] = ()
    if request.remarks:
        said = replace(request, wording=request.remarks[0])
        of_remark = doubts(account(accounted.choice, said, verbs), said, question.catalog, verbs)
        # A remark may be a part of a sentence, and refer to what was said before.
        of_remark = [
            one for one in of_remark if one.why not in {DoubtKind.STATES, DoubtKind.UNCLEAR}
        ]
    if origin is Origin.REMARK:
        return of_remark
    of_request = doubts(accounted, request, question.catalog, verbs)
    if question.target is Target.ACTION and question.intent:
        # The intent says what is wished for.
        of_request = [one for one in of_request if one.why is not DoubtKind.STATES]
    return (*of_remark, *of_request)


def _doubts_of_none(
    question: Question, request: ReadRequest, verbs: frozenset[str]
) -> Sequence[Doubt]:
    """Return what makes a request doubtful that is near to no capability."""
    if request.remarks and request.wording is None:
        request = replace(request, wording=request.remarks[0])
    reasons = doubts(account(_NONE, request, verbs), request, question.catalog, verbs)
    able = {stem(verb) for verb in verbs}
    return [
        one
        for one in reasons
        if one.why not in {DoubtKind.UNCLEAR, DoubtKind.STATES}
        and not (one.why is DoubtKind.UNABLE and stem(words(one.said)[0]) in able)
    ]


def _trust(confidence: float, accounted: Account) -> float:
    """Return the confidence in the call, which falls with each word that was not used."""
    if accounted.unused:
        less = UNUSED_MAX * UNUSED_MORE ** (len(accounted.unused) - 1)
        return min(confidence, max(less, UNUSED_MIN))
    return min(confidence, max(confidence * ASIDE ** len(accounted.aside), ASIDE_MIN))


def _split(
    question: Question,
    request: ReadRequest,
    accounted: Account,
    parts: list[str],
    model: Meanings,
) -> Understanding | None:
    """Return the split of a request into parts, if each of them can be done as it stands."""
    decompose = question.choice(DECOMPOSE)
    if decompose is None or not parts[1:] or request.remarks:
        return None
    if any(_REFERS.search(part) for part in parts):
        return None
    sure: list[float] = []
    for part in parts:
        inciting = {"title": part, "text": "", "at": request.at, "fields": {}}
        asked = replace(
            question, target=Target.ACTION, inciting=inciting, items=(), intent=None, previous=None
        )
        alone = understand(asked, model, whole=False)
        if alone.choice is None or alone.filled is None or alone.filled.lack is not None:
            return None
        sure.append(min(alone.of_intent, alone.of_action))
    confidence = min(sure)
    if confidence < PART_MIN:
        return None
    children = [{"title": part[:1].upper() + part[1:], "text": ""} for part in parts]
    parameters: Mapping[str, Any] = {"children": children}
    left = _outside(accounted, parts)
    of_action = confidence if not left else min(confidence, UNUSED_MAX)
    filled = Filled(parameters, (), ())
    return Understanding(request, decompose, confidence, of_action, filled, unused=left)


def _outside(accounted: Account, parts: list[str]) -> tuple[str, ...]:
    """Return the sentences of a request that are in none of its parts."""
    said = " ".join(parts)
    return tuple(
        piece.sentence.text
        for piece in accounted.pieces
        if piece.matter
        and piece.order not in said
        and not any(part in piece.order for part in parts)
        # A heading of bullets says that there are several.
        and not (piece.sentence.in_title and accounted.pieces[-1].sentence.bullet)
    )
