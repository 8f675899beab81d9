"""The model that needs no network and no key: it proposes what a request is nearest to in meaning.

It generates no text and knows English only. Where no capability is near enough, where a request
says what should not be done, asks a question, wants several things or what no capability does, it
asks a person and says why; what it could not use it names. See `reading.understanding`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.system.models import Answered, OfferedCapability, Unanswered
from interlock.system.settings import SettingsError
from interlock.system.text import one_line
from interlock.systems.threads.inference.outcome import InferenceOutcome, ModelProposal
from interlock.systems.threads.inference.question import PHASES, Question, Target
from interlock.systems.threads.inference.reading.correction import corrected
from interlock.systems.threads.inference.reading.meaning import Meanings, meanings, parts
from interlock.systems.threads.inference.reading.request import ReadRequest
from interlock.systems.threads.inference.reading.understanding import Understanding, understand

NAME = "embedded:wordllama"
BELONGS = 0.4
SURE_GAP = 0.2
TITLE_CHARS_MAX = 120
DESCRIPTION_CHARS_MAX = 100


class EmbeddedModel:
    """Static word embeddings of the wordllama package."""

    def __init__(self, name: str = NAME) -> None:
        """Check the name; load nothing yet. Raises SettingsError."""
        if name != NAME:
            raise SettingsError(f"there is no embedded model {name!r}, only {NAME!r}")
        self.name = NAME

    def estimate_micro(self, question: Question) -> int:
        """Return 0, because an answer costs nothing."""
        del question
        return 0

    async def answer(self, question: Question, *, timeout_s: float) -> InferenceOutcome:
        """Answer in a thread, so that the event loop goes on meanwhile."""
        try:
            async with asyncio.timeout(timeout_s) as total:
                proposals = await asyncio.to_thread(propose, question, meanings())
        except TimeoutError:
            if not total.expired():
                raise
            return Unanswered.late(self.name, timeout_s)
        return Answered(proposals, self.name)

    async def close(self) -> None:
        """Do nothing: the model holds no connection."""


def propose(question: Question, model: Meanings) -> Mapping[Target, ModelProposal]:
    """Return a proposal for each phase of a question."""
    understood = corrected(question, understand(question, model), model)
    proposals: dict[Target, ModelProposal] = {}
    for target in PHASES[question.target]:
        match target:
            case Target.INTENT:
                proposals[target] = _intent(understood)
            case Target.CONTEXT:
                proposals[target] = _context(question, understood.request, model)
            case _:
                proposals[target] = _action(understood)
    return proposals


def _intent(understood: Understanding) -> ModelProposal:
    title = _title(understood)
    if understood.choice is None:
        payload = {
            "intent": title,
            "blocked_on": _not_understood(understood),
            "options": _options(understood),
        }
        return ModelProposal(payload, understood.of_intent)
    intent = f"{_description(understood.choice)}: {title}"
    return ModelProposal({"intent": intent}, understood.of_intent)


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


def _action(understood: Understanding) -> ModelProposal:
    choice, filled, confidence = understood.choice, understood.filled, understood.of_action
    if choice is None or filled is None:
        asks = _clarification(_not_understood(understood), None, {}, confidence)
        return replace(asks, payload={**asks.payload, "options": _options(understood)})
    if filled.lack:
        blocked_on = f"{_description(choice)}: {filled.lack}"
        if understood.not_used:
            blocked_on += f". {understood.not_used}"
        return _clarification(blocked_on, choice.name, filled.parameters, confidence)
    summary = f"{_description(choice)}: {_title(understood)}"
    if understood.not_used:
        summary += f". {understood.not_used}"
    payload = _payload("standard", choice.name, filled.parameters, summary, None)
    return ModelProposal(payload, confidence)


def _not_understood(understood: Understanding) -> str:
    """Ask what is wanted, and say why that is not known."""
    title = one_line(_title(understood), length_max=TITLE_CHARS_MAX)
    wanted = f"what is wanted with {title!r}" if title else "what is wanted: the request is empty"
    if understood.doubts:
        reason = one_line(str(understood.doubts[0]), length_max=2 * TITLE_CHARS_MAX)
        wanted += f", because {reason}"
    return f"I did not understand {wanted}"


def _options(understood: Understanding) -> list[dict[str, str]]:
    """Return the nearest capabilities to pick from."""
    return [{"says": _short_description(found), "text": found.name} for found in understood.nearest]


def _item_texts(item: Mapping[str, Any]) -> list[str]:
    payload = item.get("payload")
    values = payload.values() if isinstance(payload, Mapping) else ()
    return [text for text in (item.get("label"), *values) if isinstance(text, str) and text]


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


def _short_description(choice: OfferedCapability) -> str:
    """Return what a capability does, without the examples that follow a colon."""
    does = _description(choice).partition(":")[0]
    return one_line(does, length_max=DESCRIPTION_CHARS_MAX) or choice.name


def _description(choice: OfferedCapability) -> str:
    return choice.description.rstrip(".")


def _title(understood: Understanding) -> str:
    request = understood.request
    title = understood.reworded or request.heading or request.text
    return one_line(title, length_max=TITLE_CHARS_MAX)
