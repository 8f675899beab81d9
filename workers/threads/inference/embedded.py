"""The model that needs no network and no key: it proposes the capability nearest in meaning.

It generates no text; where no capability is near enough, it asks a question. Its confidence in a
capability is its share among all capabilities and a background of phrases for what people ask in
general:

    confidence = e^(s/T) / (sum of e^(si/T) over the catalog + e^(max(b, FLOOR)/T))

where s is the greatest cosine between the request and the capability's description and examples,
raised if the request holds what its required hints need and lowered if not; b is the greatest
cosine to the background, raised if the request is a question, which asks for an answer and not for
an action. So the confidence rises with the similarity itself and with each margin. Below
UNDERSTOOD the model asks, and UNDERSTOOD is high: a question costs less than the wrong action. The
constants were fitted on bench/tuning.json, never on the judged requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    fill,
    has_question,
    rare_hints,
    read,
    without_code,
)
from interlock.workers.threads.inference.meaning import (
    Meanings,
    meanings,
    parts,
    require_packages,
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
# A background phrase this near to a capability's phrases is left out of the background.
SAME = 0.6
BELONGS = 0.4
SURE_GAP = 0.2
NOT_UNDERSTOOD_MAX = 0.29
TITLE_CHARS_MAX = 120


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
        """Check that the model can be loaded; load nothing yet. Raises ConfigurationError."""
        if name != NAME:
            raise ConfigurationError(f"there is no embedded model {name!r}, only {NAME!r}")
        require_packages()
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


def _intent(question: Question, request: ReadRequest, model: Meanings) -> ModelProposal:
    reading = _read_wish(question, request, model)
    title = _title(request)
    if reading.choice is None:
        return ModelProposal({"intent": title}, min(reading.confidence, NOT_UNDERSTOOD_MAX))
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
    reasoning = f"{len(chosen)} of {len(near)} known items are near in meaning"
    return ModelProposal({"item_ids": chosen, "reasoning": reasoning}, confidence)


def _action(question: Question, request: ReadRequest, model: Meanings) -> ModelProposal:
    reading = _read_wish(question, request, model)
    choice = reading.choice
    if choice is None:
        title = sentence(_title(request), length_max=TITLE_CHARS_MAX)
        wanted = (
            f"what is wanted with {title!r}" if title else "what is wanted: the request is empty"
        )
        return _clarification(f"I did not understand {wanted}", None, {}, reading.confidence)
    filled = fill(choice, request)
    if filled.problems:
        blocked_on = f"{_description(choice)}: for this I still need {'; '.join(filled.problems)}"
        return _clarification(blocked_on, choice.name, filled.parameters, reading.confidence)
    if question.failure is None and _is_repetition(
        question.previous, choice.name, filled.parameters
    ):
        blocked_on = "I would propose the same again: name another capability, or other values"
        return _clarification(blocked_on, choice.name, filled.parameters, reading.confidence)
    summary = f"{_description(choice)}: {_title(request)}"
    payload = _payload("standard", choice.name, filled.parameters, summary, None)
    return ModelProposal(payload, reading.confidence)


def _read_wish(question: Question, request: ReadRequest, model: Meanings) -> _Reading:
    """Read the newest remark alone; if it points to no capability, read everything."""
    title, prose = request.title, request.prose
    if not request.remarks:
        texts = parts(title, prose)
        if has_question(title):
            return _nearest(
                question, request, _Compared(whole(title, prose), texts, [title]), model
            )
    else:
        newest = without_code(request.remarks[0])
        asked = [newest] if has_question(newest) else None
        alone = _Compared(whole("", newest), parts("", newest), asked)
        reading = _nearest(question, request, alone, model)
        if reading.choice is not None:
            return reading
        remarks = without_code(". ".join(reversed(request.remarks)))
        texts = [*parts(title, prose), *parts("", remarks)]
    if question.intent and question.target is Target.ACTION:
        texts.append(question.intent)
    return _nearest(question, request, _Compared(whole(title, prose), texts), model)


def _nearest(
    question: Question, request: ReadRequest, compared: _Compared, model: Meanings
) -> _Reading:
    if not compared.parts or not question.catalog:
        return _Reading(None, 0.0)
    scores: dict[str, float] = {}
    background = list(BACKGROUND)
    for choice in question.catalog:
        phrases = [choice.description, *choice.examples]
        evidence = _evidence(choice, request)
        texts = compared.parts
        if evidence <= 0 and compared.question is not None:
            texts = compared.question
        scores[choice.name] = model.nearness(texts, phrases) + evidence
        background = [other for other in background if model.nearness([other], phrases) < SAME]
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
    return sentence(request.title or request.text, length_max=TITLE_CHARS_MAX)
