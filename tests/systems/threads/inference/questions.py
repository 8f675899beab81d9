"""Questions, and one way to ask them, for the tests of the models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.model import InferenceModel, model_of
from interlock.systems.threads.inference.outcome import InferenceOutcome, ModelProposal
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.tier import Tier
from interlock.workers.gateways.llm.language_model import LanguageModel
from interlock.workers.gateways.llm.options import (
    MODEL_VARIABLE,
    NO_PRICES,
    ExchangeLimits,
    ModelPrices,
    is_embedded,
)
from interlock.workers.gateways.llm.outcome import Answered, FailureCode, Unanswered
from tests.fakes.openai_server import OpenAIServer, Script, refuses
from tests.fakes.sleeper import Sleeper

LIMITS = ExchangeLimits()
Proposed = Answered[Mapping[Target, ModelProposal]]
INVALID = FailureCode.INVALID_OUTPUT
BROKEN = FailureCode.PROVIDER_ERROR
LATE = FailureCode.TIMEOUT
ADD_NOTE = OfferedCapability(
    name="add_note",
    description="write something down in a note file",
    examples=("note to self", "write this down"),
    parameters={
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "x-from": "text"},
            "copies": {"type": "integer"},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
)
ACTION: Mapping[str, Any] = {
    "kind": "standard",
    "capability": "add_note",
    "parameters": {"text": "milk"},
    "summary": "write down milk",
    "blocked_on": None,
    "irreversibility": "low",
    "regret_potential": "low",
    "risk_amplifier": False,
    "confidence": 0.9,
}
INTENT: Mapping[str, Any] = {"intent": "write down milk", "confidence": 0.8}
CONTEXT: Mapping[str, Any] = {"item_ids": ["i1"], "reasoning": "the list", "confidence": 0.7}


def question(target: Target = Target.ACTION, **changes: Any) -> Question:
    """Return a question about milk."""
    given: dict[str, Any] = {
        "target": target,
        "inciting": {
            "source": "inbox",
            "title": "milk",
            "text": "write down that we need milk",
            "at": "2026-03-10T09:00:00+01:00",
            "fields": {},
        },
        "items": ({"id": "i1", "source": "f", "type": "list", "label": "list", "payload": {}},),
        "feedback": (),
        "intent": None,
        "context": None,
        "catalog": (ADD_NOTE,),
        "previous": None,
        "turned_down": (),
        "tier": Tier.FRONTIER_FAST,
    }
    return Question(**(given | changes))


def model_named(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    tier_models: Mapping[Tier, str] | None = None,
    limits: ExchangeLimits = LIMITS,
    prices: ModelPrices = NO_PRICES,
) -> InferenceModel:
    """Open a model as threads do, with limits and prices that no deployment sets."""

    def open_named(name: str) -> LanguageModel | None:
        if is_embedded(name):
            return None
        # The embedded model is tested without its libraries.
        from interlock.workers.gateways.llm.model import open_exchange  # noqa: PLC0415

        return LanguageModel(
            open_exchange(
                name,
                variable=MODEL_VARIABLE,
                base_url=base_url,
                api_key=api_key,
                limits=limits,
                prices=prices,
            )
        )

    return model_of(spec, tier_models or {}, open_named)


def model_at(
    server: OpenAIServer,
    spec: str = "openai:gpt-4o-mini",
    *,
    tier_models: Mapping[Tier, str] | None = None,
    **limits: Any,
) -> InferenceModel:
    """Open a model whose provider is the scripted server."""
    return model_named(
        spec, base_url=server.url, tier_models=tier_models, limits=ExchangeLimits(**limits)
    )


def ask(model: InferenceModel, asked: Question, *, timeout_s: float = 600.0) -> InferenceOutcome:
    """Ask once, in a new event loop."""

    async def once() -> InferenceOutcome:
        try:
            return await model.answer(asked, timeout_s=timeout_s)
        finally:
            await model.close()

    return asyncio.run(once())


def outcome_of(
    *script: Script, asked: Question | None = None, timeout_s: float = 600.0, **options: Any
) -> tuple[InferenceOutcome, OpenAIServer]:
    options.setdefault("sleep", Sleeper())
    with OpenAIServer(script, otherwise=refuses(418)) as server:
        model = model_at(server, **options)
        return ask(model, asked or question(), timeout_s=timeout_s), server


def failed(outcome: InferenceOutcome) -> Unanswered:
    assert isinstance(outcome, Unanswered), outcome
    assert outcome.detail.startswith("openai:gpt-4o-mini ")
    assert "\n" not in outcome.detail
    return outcome


def answered(outcome: InferenceOutcome) -> Proposed:
    assert isinstance(outcome, Answered), outcome
    return outcome
