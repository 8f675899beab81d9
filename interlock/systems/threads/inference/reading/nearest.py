"""Chooses the capability that a request is nearest to in meaning, or none.

The nearness of a capability is its share among all capabilities and a background of phrases for
what people ask in general:

    nearness = e^(s/T) / (sum of e^(si/T) over the catalog + e^(max(b, FLOOR)/T))

where s is the greatest cosine between the request and the capability's description and examples,
raised if the request begins with the verb of an example ("Buy milk" as "Buy printer paper"), has
the words of one around its matter ("Put ... on my list"), names what the capability's name ends
with ("badge" of print_badge), or holds what its required hints need, and lowered if it lacks that;
b is the greatest cosine to the background, raised if the request is a question, which asks for an
answer and not for an action. The constants were fitted on bench/tuning.json, BEGINS_ALIKE on the
part `tuned` of tests/systems/threads/golden/short_requests.json, SAYS_SO, NAMES_IT and
IS_DUE on own_requests.jsonl.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.inference.reading import dates, frames
from interlock.systems.threads.inference.reading.background import BACKGROUND
from interlock.systems.threads.inference.reading.courtesy import bare
from interlock.systems.threads.inference.reading.meaning import Meanings, parts, whole
from interlock.systems.threads.inference.reading.openings import (
    opening,
    openings,
    orders_an_errand,
)
from interlock.systems.threads.inference.reading.pieces import object_of, own_words, takes
from interlock.systems.threads.inference.reading.request import (
    ReadRequest,
    is_pick,
    picked_name,
    picked_number,
    read,
    without_paths,
)
from interlock.systems.threads.inference.reading.sentences import (
    begins_with_verb,
    has_question,
    without_code,
)
from interlock.systems.threads.inference.reading.values import answers_question, rare_hints
from interlock.systems.threads.inference.reading.words import content, stems
from interlock.systems.threads.machines.thread.names import Trigger

UNDERSTOOD = 0.8
# The limit for a capability whose parameters are missing: a person is asked for them first.
GUESSED = 0.5
TEMPERATURE = 0.06
FLOOR = 0.34
ASKS_A_QUESTION = 0.25
HAS_WHAT_IT_NEEDS = 0.35
LACKS_WHAT_IT_NEEDS = 0.15
BEGINS_ALIKE = 0.35
SAYS_SO = 0.45
NAMES_IT = 0.2
IS_DUE = 0.35
# A background phrase this near to a capability's phrases is left out of the background.
SAME = 0.6
NEAREST_MAX = 5
_NO_VERBS: frozenset[str] = frozenset()
SENTENCES_MAX = 24
_QUOTED = re.compile(
    r"(?<!\w)['\"\u2018\u201c]([^'\"\u2018-\u201d\n]{2,200})['\"\u2019\u201d](?!\w)"
)
_REFERS_BACK = re.compile(r"\b(?:this|that|it|them|these|those)\b", re.IGNORECASE)


class Origin(StrEnum):
    """What a capability was chosen by."""

    REQUEST = auto()
    # The newest remark of a person alone.
    REMARK = auto()
    # A person named it.
    PICK = auto()
    # A person answered the question for its values, and saw what was not used.
    ANSWER = auto()


@dataclass(frozen=True, slots=True)
class Nearest:
    """The capability that a request seems to ask for; None if none is near."""

    choice: OfferedCapability | None
    nearness: float
    origin: Origin = Origin.REQUEST


@dataclass(frozen=True, slots=True)
class _Compared:
    """The texts of a request: the background is compared with the whole, capabilities with parts.

    Where the request is a question that lacks the rare hints of a capability, that capability is
    compared with the question alone: the text beside it only says what the question is about.
    """

    whole: Sequence[str]
    parts: Sequence[str]
    question: Sequence[str] | None = None


def nearest(question: Question, request: ReadRequest, model: Meanings) -> Nearest:
    """Read the newest answer alone; if it points to no capability, read everything."""
    if (picked := _picked(question, model)) is not None:
        return Nearest(picked, 1.0, Origin.PICK)
    asked = question.choice(request.previous.get("capability")) if request.answer else None
    if asked is not None and answers_question(asked, request):
        return Nearest(asked, 1.0, Origin.ANSWER)
    title, prose = request.title, request.prose
    if not request.remarks:
        texts = parts(title, prose)
        if has_question(title):
            return _nearest(
                question, request, _Compared(whole(title, prose), texts, [title]), model
            )
    else:
        alone = _read_alone(question, request, request.remarks[0], model)
        if alone.choice is not None:
            return replace(alone, origin=Origin.REMARK)
        if asked is not None:
            return Nearest(asked, 1.0, Origin.ANSWER)
        remarks = without_code(". ".join(reversed(request.remarks)))
        texts = [*parts(title, prose), *parts("", remarks)]
    if question.intent and question.target is Target.ACTION:
        texts.append(question.intent)
    return _nearest(question, request, _Compared(whole(title, prose), texts), model)


def wording(question: Question, request: ReadRequest, model: Meanings) -> str | None:
    """Return the newest words of a person that replace those of the request, or None."""
    names = {choice.name for choice in question.catalog}
    for feedback in reversed(question.feedback):
        text = str(feedback.get("text") or "").strip()
        if not text or text == request.answer or is_pick(text, names):
            continue
        if not content(dates.undated(text, request.at)):
            # "At 16:30 would be fine" adds a time, and says nothing else.
            continue
        reworded = (feedback.get("phase"), feedback.get("kind")) == ("intent", Trigger.PROVIDED)
        if not reworded and not _REFERS_BACK.search(text):
            reworded = _read_alone(question, request, text, model).choice is not None
        if reworded:
            return text
    return None


def ranking(question: Question, request: ReadRequest, model: Meanings) -> list[OfferedCapability]:
    """Return the capabilities to pick from, the nearest to all words of the request first."""
    texts = [*parts(request.title, request.prose), *parts("", ". ".join(request.remarks))]
    scores = {
        choice.name: model.nearness(texts, [choice.description, *choice.examples])
        + _evidence(choice, request)
        for choice in question.catalog
    }
    ranked = sorted(question.catalog, key=lambda choice: -scores[choice.name])
    return ranked[:NEAREST_MAX]


def _picked(question: Question, model: Meanings) -> OfferedCapability | None:
    """Return the capability that the newest answer names, or whose number in the list it is."""
    *earlier, newest = question.feedback or ({},)
    text = str(newest.get("text") or "")
    if named := question.choice(picked_name(text)):
        return named
    number = picked_number(text)
    if number is None or (question.previous or {}).get("capability"):
        return None
    # The list is the same again if it is made of what was known when the card was shown.
    before = replace(question, feedback=tuple(earlier))
    listed = ranking(before, read(before), model)
    return listed[number - 1] if 1 <= number <= len(listed) else None


def _read_alone(question: Question, request: ReadRequest, text: str, model: Meanings) -> Nearest:
    """Read one answer of a person without the request."""
    prose = without_code(text)
    asked = [prose] if has_question(prose) else None
    return _nearest(question, request, _Compared(whole("", prose), parts("", prose), asked), model)


def _nearest(
    question: Question, request: ReadRequest, compared: _Compared, model: Meanings
) -> Nearest:
    if not compared.parts or not question.catalog:
        return Nearest(None, 0.0)
    scores: dict[str, float] = {}
    begins = "" if compared.question is not None else opening(compared.parts[0])
    phrases = {choice.name: [choice.description, *choice.examples] for choice in question.catalog}
    undated = [dates.undated(text, request.at) for text in compared.parts[:SENTENCES_MAX]]
    framed = _framed(question.catalog, undated)
    times = _hint_of_time(request, undated[0], framed)
    for choice in question.catalog:
        evidence = _evidence(choice, request)
        texts = [*compared.parts, _QUOTED.sub("this", compared.parts[0])]
        if evidence <= 0 and compared.question is not None:
            texts = list(compared.question)
        scores[choice.name] = model.nearness(texts, phrases[choice.name]) + evidence
        if compared.question is not None and any(map(has_question, choice.examples)):
            # This capability answers questions.
            scores[choice.name] += ASKS_A_QUESTION
        if choice.name in framed:
            scores[choice.name] += SAYS_SO
        elif begins and begins in openings(choice.examples):
            scores[choice.name] += BEGINS_ALIKE
        if _names(choice, request, compared):
            scores[choice.name] += NAMES_IT
        scores[choice.name] += sum(more for hint, more in times.items() if takes(choice, hint))
    offered = model.nearness_of_each(BACKGROUND, [one for each in phrases.values() for one in each])
    background = [text for text, near in zip(BACKGROUND, offered, strict=True) if near < SAME]
    # The sentences of a long text have many subjects, so only the whole text is compared.
    background_score = max(model.nearness(compared.whole, background), FLOOR)
    if compared.question is not None:
        background_score += ASKS_A_QUESTION
    weights = {name: math.exp(score / TEMPERATURE) for name, score in scores.items()}
    best = max(weights, key=lambda name: weights[name])
    nearness = weights[best] / (sum(weights.values()) + math.exp(background_score / TEMPERATURE))
    chosen = question.choice(best)
    enough = GUESSED if chosen is not None and _evidence(chosen, request) < 0 else UNDERSTOOD
    return Nearest(chosen if nearness >= enough else None, nearness)


def _hint_of_time(
    request: ReadRequest, undated: str, framed: Collection[str]
) -> Mapping[str, float]:
    """Return what a day or a time says for capabilities that take one."""
    if request.when.day is None:
        return {}
    found: dict[str, float] = {}
    # "Vet for the cat, Monday at 9:15" has no verb.
    if request.when.time_of_day and not framed and not begins_with_verb(undated, _NO_VERBS):
        found["datetime"] = NAMES_IT
    if orders_an_errand(undated):
        found["date"] = IS_DUE
    return found


def _framed(catalog: Sequence[OfferedCapability], texts: Sequence[str]) -> frozenset[str]:
    """Return the capabilities of which a sentence has the words of an example around its matter.

    "I need to write that down" has those of a task, too, but "I need to" tells less.
    """
    found: dict[str, bool] = {}
    for choice in catalog:
        known = stems(f"{choice.name.replace('_', ' ')} {choice.description}")
        for text in texts:
            for said in dict.fromkeys((text, bare(text)[0])):
                match = frames.match(said, choice.examples, known) if content(said) else None
                if match is not None:
                    found[choice.name] = found.get(choice.name, False) or match.telling
    return frozenset(name for name, telling in found.items() if telling) or frozenset(found)


def _names(choice: OfferedCapability, request: ReadRequest, compared: _Compared) -> bool:
    """Return whether a request names what a capability is about, or has all that it takes."""
    about, said = object_of(choice), stems(without_paths(f"{request.title}\n{request.prose}"))
    if about in (said if takes(choice, "name") else stems(compared.parts[0])):
        return True
    return takes(choice, "path") and request.has("path") and bool(said & own_words(choice))


def _evidence(choice: OfferedCapability, request: ReadRequest) -> float:
    needed = rare_hints(choice)
    if not needed:
        return 0.0
    return HAS_WHAT_IT_NEEDS if all(map(request.has, needed)) else -LACKS_WHAT_IT_NEEDS
