"""The model that needs no network and no key: it proposes the capability nearest in meaning.

It generates no text; where no capability is near enough, it asks a question. Its confidence in a
capability is its share among all capabilities and a background of phrases for what people ask in
general:

    confidence = e^(s/T) / (sum of e^(si/T) over the catalog + e^(max(b, FLOOR)/T))

where s is the greatest cosine between the request and the capability's description and examples,
raised if the request begins with the verb of an example ("Buy milk" as "Buy printer paper") or
holds what its required hints need, and lowered if it lacks that; b is the greatest cosine to the
background, raised if the request is a question, which asks for an answer and not for an action.
So the confidence rises with the similarity itself and with each margin. Below
UNDERSTOOD the model asks, and UNDERSTOOD is high: a question costs less than the wrong action. The
constants were fitted on bench/tuning.json, BEGINS_ALIKE was chosen on the part `tuned` of
tests/golden/short_requests.json, never on the judged requests.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.workers.gateways.llm.outcome import (
    ConfigurationError,
    FailureCode,
    TokenUsage,
    Unanswered,
)
from interlock.workers.text import sentence
from interlock.workers.threads.inference.background import BACKGROUND
from interlock.workers.threads.inference.hints import (
    ReadRequest,
    answers_question,
    fill,
    has_question,
    is_pick,
    opening,
    picked_name,
    picked_number,
    rare_hints,
    read,
    without_code,
)
from interlock.workers.threads.inference.meaning import (
    Meanings,
    meanings,
    parts,
    whole,
)
from interlock.workers.threads.inference.outcome import Answered, InferenceOutcome, ModelProposal
from interlock.workers.threads.inference.question import PHASES, Choice, Question, Target

NAME = "embedded:wordllama"
UNDERSTOOD = 0.8
# The limit for a capability whose parameters are missing: a person is asked for them first.
GUESSED = 0.5
TEMPERATURE = 0.06
FLOOR = 0.34
ASKS_A_QUESTION = 0.25
HAS_WHAT_IT_NEEDS = 0.35
LACKS_WHAT_IT_NEEDS = 0.1
BEGINS_ALIKE = 0.35
# A background phrase this near to a capability's phrases is left out of the background.
SAME = 0.6
BELONGS = 0.4
SURE_GAP = 0.2
NOT_UNDERSTOOD_MAX = 0.29
TITLE_CHARS_MAX = 120
NEAREST_MAX = 5
DESCRIPTION_CHARS_MAX = 70
# In "Put 'call Sam' on my list" the quoted words are the matter; "put it on my list" has none.
_QUOTED = re.compile(
    r"(?<!\w)['\"\u2018\u201c]([^'\"\u2018-\u201d\n]{2,200})['\"\u2019\u201d](?!\w)"
)
_REFERS_BACK = re.compile(r"\b(?:this|that|it|them|these|those)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The capability that a request seems to ask for; None if none is near."""

    choice: Choice | None
    confidence: float


@dataclass(frozen=True, slots=True)
class _Compared:
    """The texts of a request: the background is compared with the whole, capabilities with parts.

    Where the request is a question that lacks the rare hints of a capability, that capability is
    compared with the question alone: the text beside it only says what the question is about.
    """

    whole: Sequence[str]
    parts: Sequence[str]
    question: Sequence[str] | None = None


class EmbeddedModel:
    """Static word embeddings of the wordllama package."""

    def __init__(self, name: str = NAME) -> None:
        """Check the name; load nothing yet. Raises ConfigurationError."""
        if name != NAME:
            raise ConfigurationError(f"there is no embedded model {name!r}, only {NAME!r}")
        self.name = NAME

    def estimate_micro(self, question: Question) -> int:
        """Return 0, because an answer costs nothing."""
        del question
        return 0

    async def answer(self, question: Question, *, timeout_s: float) -> InferenceOutcome:
        """Answer in a thread, so that the event loop goes on meanwhile."""
        try:
            async with asyncio.timeout(timeout_s) as total:
                proposals = await asyncio.to_thread(_propose, question, meanings())
        except TimeoutError:
            if not total.expired():
                raise
            detail = f"{self.name} did not answer within {timeout_s:g} s."
            return Unanswered(FailureCode.TIMEOUT, detail, TokenUsage(), 0, self.name)
        return Answered(proposals, TokenUsage(requests=1), 0, self.name)

    async def close(self) -> None:
        """Do nothing: the model holds no connection."""


def _propose(question: Question, model: Meanings) -> Mapping[Target, ModelProposal]:
    request = read(question)
    request = replace(request, wording=_wording(question, request, model))
    proposals: dict[Target, ModelProposal] = {}
    for target in PHASES[question.target]:
        match target:
            case Target.INTENT:
                proposals[target] = _intent(question, request, model)
            case Target.CONTEXT:
                proposals[target] = _context(question, request, model)
            case _:
                proposals[target] = _action(question, request, model)
    return proposals


def _wording(question: Question, request: ReadRequest, model: Meanings) -> str | None:
    """Return the newest words of a person that replace those of the request, or None."""
    names = {choice.name for choice in question.catalog}
    for feedback in reversed(question.feedback):
        text = str(feedback.get("text") or "").strip()
        if not text or text == request.answer or is_pick(text, names):
            continue
        reworded = (feedback.get("phase"), feedback.get("kind")) == ("intent", "provided")
        if not reworded and not _REFERS_BACK.search(text):
            reworded = _read_alone(question, request, text, model).choice is not None
        if reworded:
            quoted = _QUOTED.search(text)
            return quoted.group(1).strip() if quoted else text
    return None


def _intent(question: Question, request: ReadRequest, model: Meanings) -> ModelProposal:
    reading = _read_wish(question, request, model)
    title = _title(request)
    if reading.choice is None:
        asks = _not_understood(question, request, model)
        confidence = min(reading.confidence, NOT_UNDERSTOOD_MAX)
        return ModelProposal({"intent": title, "blocked_on": asks}, confidence)
    return ModelProposal({"intent": f"{_description(reading.choice)}: {title}"}, reading.confidence)


def _context(question: Question, request: ReadRequest, model: Meanings) -> ModelProposal:
    texts = parts(request.title, request.prose)
    near = {
        str(item.get("id")): model.nearness(texts, _item_texts(item)) for item in question.items
    }
    chosen = [item_id for item_id, nearness in near.items() if nearness >= BELONGS]
    # The confidence is high when no item is close to the threshold.
    gap = min((abs(nearness - BELONGS) for nearness in near.values()), default=SURE_GAP)
    confidence = 0.5 + 0.5 * min(gap / SURE_GAP, 1.0)
    reasoning = f"{len(chosen)} of its {len(near)} items are near in meaning"
    if not near:
        reasoning = "the request came with none"
    return ModelProposal({"item_ids": chosen, "reasoning": reasoning}, confidence)


def _action(question: Question, request: ReadRequest, model: Meanings) -> ModelProposal:
    reading = _read_wish(question, request, model)
    choice = reading.choice
    if choice is None:
        asks = _not_understood(question, request, model)
        return _clarification(asks, None, {}, reading.confidence)
    filled = fill(choice, request)
    if filled.lack:
        blocked_on = f"{_description(choice)}: {filled.lack}"
        return _clarification(blocked_on, choice.name, filled.parameters, reading.confidence)
    if question.failure is None and _is_repetition(
        question.previous, choice.name, filled.parameters
    ):
        blocked_on = "I would propose the same again: name another capability, or other values"
        return _clarification(blocked_on, choice.name, filled.parameters, reading.confidence)
    summary = f"{_description(choice)}: {_title(request)}"
    payload = _payload("standard", choice.name, filled.parameters, summary, None)
    return ModelProposal(payload, reading.confidence)


def _not_understood(question: Question, request: ReadRequest, model: Meanings) -> str:
    """Ask what is wanted, and list the nearest capabilities to pick from."""
    title = sentence(_title(request), length_max=TITLE_CHARS_MAX)
    wanted = f"what is wanted with {title!r}" if title else "what is wanted: the request is empty"
    nearest = [
        f"{number} {found.name} ({sentence(found.description, length_max=DESCRIPTION_CHARS_MAX)})"
        for number, found in enumerate(_ranking(question, request, model), 1)
    ]
    if not nearest:
        return f"I did not understand {wanted}"
    listed = f"The nearest that I can do: {', '.join(nearest)}."
    return f"I did not understand {wanted}. {listed} Answer with a name or number, or in your words"


def _ranking(question: Question, request: ReadRequest, model: Meanings) -> list[Choice]:
    """Return the capabilities to pick from, the nearest to all words of the request first."""
    texts = [*parts(request.title, request.prose), *parts("", ". ".join(request.remarks))]
    scores = {
        choice.name: model.nearness(texts, [choice.description, *choice.examples])
        + _evidence(choice, request)
        for choice in question.catalog
    }
    ranked = sorted(question.catalog, key=lambda choice: -scores[choice.name])
    return ranked[:NEAREST_MAX]


def _picked(question: Question, model: Meanings) -> Choice | None:
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
    listed = _ranking(before, read(before), model)
    return listed[number - 1] if 1 <= number <= len(listed) else None


def _read_wish(question: Question, request: ReadRequest, model: Meanings) -> _Reading:
    """Read the newest answer alone; if it points to no capability, read everything."""
    if (picked := _picked(question, model)) is not None:
        return _Reading(picked, 1.0)
    asked = question.choice(request.previous.get("capability")) if request.answer else None
    if asked is not None and answers_question(asked, request):
        return _Reading(asked, 1.0)
    title, prose = request.title, request.prose
    if not request.remarks:
        texts = parts(title, prose)
        if has_question(title):
            return _nearest(
                question, request, _Compared(whole(title, prose), texts, [title]), model
            )
    else:
        reading = _read_alone(question, request, request.remarks[0], model)
        if reading.choice is not None:
            return reading
        if asked is not None:
            return _Reading(asked, 1.0)
        remarks = without_code(". ".join(reversed(request.remarks)))
        texts = [*parts(title, prose), *parts("", remarks)]
    if question.intent and question.target is Target.ACTION:
        texts.append(question.intent)
    return _nearest(question, request, _Compared(whole(title, prose), texts), model)


def _read_alone(question: Question, request: ReadRequest, text: str, model: Meanings) -> _Reading:
    """Read one answer of a person without the request."""
    prose = without_code(text)
    asked = [prose] if has_question(prose) else None
    return _nearest(question, request, _Compared(whole("", prose), parts("", prose), asked), model)


def _nearest(
    question: Question, request: ReadRequest, compared: _Compared, model: Meanings
) -> _Reading:
    if not compared.parts or not question.catalog:
        return _Reading(None, 0.0)
    scores: dict[str, float] = {}
    begins = "" if compared.question is not None else opening(compared.parts[0])
    phrases = {choice.name: [choice.description, *choice.examples] for choice in question.catalog}
    for choice in question.catalog:
        evidence = _evidence(choice, request)
        texts = [*compared.parts, _QUOTED.sub("this", compared.parts[0])]
        if evidence <= 0 and compared.question is not None:
            texts = list(compared.question)
        scores[choice.name] = model.nearness(texts, phrases[choice.name]) + evidence
        if begins and begins in map(opening, choice.examples):
            scores[choice.name] += BEGINS_ALIKE
    offered = model.nearness_of_each(BACKGROUND, [one for each in phrases.values() for one in each])
    background = [text for text, near in zip(BACKGROUND, offered, strict=True) if near < SAME]
    # The sentences of a long text have many subjects, so only the whole text is compared.
    background_score = max(model.nearness(compared.whole, background), FLOOR)
    if compared.question is not None:
        background_score += ASKS_A_QUESTION
    weights = {name: math.exp(score / TEMPERATURE) for name, score in scores.items()}
    best = max(weights, key=lambda name: weights[name])
    confidence = weights[best] / (sum(weights.values()) + math.exp(background_score / TEMPERATURE))
    chosen = question.choice(best)
    enough = GUESSED if chosen is not None and _evidence(chosen, request) < 0 else UNDERSTOOD
    return _Reading(chosen if confidence >= enough else None, confidence)


def _evidence(choice: Choice, request: ReadRequest) -> float:
    needed = rare_hints(choice)
    if not needed:
        return 0.0
    if all(request.value(hint) is not None for hint in needed):
        return HAS_WHAT_IT_NEEDS
    return -LACKS_WHAT_IT_NEEDS


def _item_texts(item: Mapping[str, Any]) -> list[str]:
    payload = item.get("payload")
    values = payload.values() if isinstance(payload, Mapping) else ()
    return [text for text in (item.get("label"), *values) if isinstance(text, str) and text]


def _is_repetition(
    previous: Mapping[str, Any] | None, capability: str, parameters: Mapping[str, Any]
) -> bool:
    if previous is None or previous.get("kind") != "standard":
        return False
    return (previous.get("capability"), previous.get("parameters")) == (capability, parameters)


def _clarification(
    blocked_on: str, capability: str | None, parameters: Mapping[str, Any], confidence: float
) -> ModelProposal:
    summary = "ask what is meant" if capability is None else "ask for what is missing"
    payload = _payload("clarification", capability, parameters, summary, blocked_on)
    return ModelProposal(payload, confidence)


def _payload(
    kind: str,
    capability: str | None,
    parameters: Mapping[str, Any],
    summary: str,
    blocked_on: str | None,
) -> Mapping[str, Any]:
    """Return an action with the least risk; its capability's declared risk is the minimum."""
    return {
        "kind": kind,
        "capability": capability,
        "parameters": dict(parameters),
        "summary": summary,
        "blocked_on": blocked_on,
        "irreversibility": "low",
        "regret_potential": "low",
        "risk_amplifier": False,
    }


def _description(choice: Choice) -> str:
    return choice.description.rstrip(".")


def _title(request: ReadRequest) -> str:
    title = request.wording or request.title or request.text
    return sentence(title, length_max=TITLE_CHARS_MAX)
