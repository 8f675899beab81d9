"""The schemas of a model's answers, and the faults that make an answer invalid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from interlock import Level
from interlock.system.text import one_line
from interlock.systems.threads.inference.outcome import ModelProposal
from interlock.systems.threads.inference.question import PHASES, Question, Target
from interlock.systems.threads.machines.autonomy import ActionKind

FAULTS_SHOWN_MAX = 3
ANSWER_CHARS_MAX = 64 * 1024

Text = Annotated[str, StringConstraints(strip_whitespace=True)]
Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
# Strict: a confidence of true or "0.9" says that the model did not mean a probability.
Confidence = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]


class ClosedAnswer(BaseModel):
    """An answer, or a part of one, with no field beside those of its schema."""

    model_config = ConfigDict(extra="forbid")


class IntentAnswer(ClosedAnswer):
    """What the person wants."""

    intent: Phrase
    confidence: Confidence


class ContextAnswer(ClosedAnswer):
    """Which known items belong to it."""

    item_ids: list[str]
    reasoning: Text
    confidence: Confidence


class ActionAnswer(ClosedAnswer):
    """The one action to propose. A risk that is not declared counts as the worst."""

    kind: ActionKind
    capability: Text | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    summary: Text = ""
    blocked_on: Text | None = None
    irreversibility: Level = Level.HIGH
    regret_potential: Level = Level.HIGH
    risk_amplifier: bool = True
    confidence: Confidence


class CombinedAnswer(ClosedAnswer):
    """Intent, context and action together."""

    intent: IntentAnswer
    context: ContextAnswer
    action: ActionAnswer


ModelAnswer = IntentAnswer | ContextAnswer | ActionAnswer | CombinedAnswer

ANSWERS: Mapping[Target, type[ModelAnswer]] = {
    Target.INTENT: IntentAnswer,
    Target.CONTEXT: ContextAnswer,
    Target.ACTION: ActionAnswer,
    Target.COMBINED: CombinedAnswer,
}


def fault_of(question: Question, answer: ModelAnswer) -> str | None:
    """Return why the answer is unusable, in one sentence for the model and for a person."""
    faults = [
        found
        for part in _parts(answer).values()
        for found in (
            _context_faults(question, part)
            if isinstance(part, ContextAnswer)
            else _action_faults(question, part)
            if isinstance(part, ActionAnswer)
            else []
        )
    ]
    if len(answer.model_dump_json()) > ANSWER_CHARS_MAX:
        faults.append(f"the answer is longer than {ANSWER_CHARS_MAX} characters")
    return "; ".join(faults[:FAULTS_SHOWN_MAX]) if faults else None


def proposals(answer: ModelAnswer) -> Mapping[Target, ModelProposal]:
    """Return the proposals of an answer, as the record keeps them."""
    return {
        target: ModelProposal(
            payload=part.model_dump(mode="json", exclude={"confidence"}),
            confidence=part.confidence,
        )
        for target, part in _parts(answer).items()
    }


def _parts(answer: ModelAnswer) -> Mapping[Target, IntentAnswer | ContextAnswer | ActionAnswer]:
    if isinstance(answer, CombinedAnswer):
        parts = (answer.intent, answer.context, answer.action)
        return dict(zip(PHASES[Target.COMBINED], parts, strict=True))
    return {target: answer for target, kind in ANSWERS.items() if isinstance(answer, kind)}


def _context_faults(question: Question, answer: ContextAnswer) -> list[str]:
    known = {item.get("id") for item in question.items}
    return [
        f"item_ids: there is no item {one_line(item, length_max=80)!r}"
        for item in answer.item_ids
        if item not in known
    ]


def _action_faults(question: Question, answer: ActionAnswer) -> list[str]:
    choice = question.choice(answer.capability)
    if answer.capability is not None and choice is None:
        name = one_line(answer.capability, length_max=80)
        return [f"capability: there is no {name!r} in the catalog"]
    if answer.kind is ActionKind.CLARIFICATION:
        return [] if answer.blocked_on else ["blocked_on: say what you need to know"]
    if answer.kind is not ActionKind.STANDARD:
        return [] if answer.summary else ["summary: say what you propose"]
    if choice is None:
        return ["capability: a standard action must name one of the catalog"]
    return [f"parameters.{each}" for each in choice.problems(answer.parameters)]
