"""Infers a thread's intent, context or action with the model; the policy decides what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from interlock import CallError, EffectWork, Outcome, OverBudgetError
from interlock.system.models import (
    Unanswered,
)
from interlock.system.settings import SettingsError
from interlock.system.tables import dollars
from interlock.systems.threads.inference.model import open_model
from interlock.systems.threads.inference.outcome import InferenceOutcome
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.machines.autonomy import AutonomyPolicy, tier_for
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.guards import policy_of
from interlock.systems.threads.machines.thread.names import Trigger
from interlock.systems.threads.tier import Tier

TIERS = {
    "intent": Tier.FRONTIER_FAST,
    "context": Tier.FRONTIER_FAST,
    "action": Tier.FRONTIER_BALANCED,
}
# An intent with less confidence is not shown for confirmation: the person is asked for it.
GUESS_CONFIDENCE_MIN = 0.3


async def inference(work: EffectWork[ThreadData]) -> Outcome:
    """Infer the thread's target, and return a proposal or a typed failure."""
    data = work.record.data
    target = data["target"]
    from_producer = proposal_of_producer(data, target)
    known = from_producer or data.get("prefetched", {}).get(target)
    if known is not None:
        origin = "given" if from_producer else "prefetched"
        await fire_start(work, started(work, origin, ""))
        fields: dict[str, Any] = {"origin": origin, "model": origin}
        return await asyncio.to_thread(proposed, work, target, known, fields)
    policy = await asyncio.to_thread(effective_policy, work)
    question = await asyncio.to_thread(question_of, work, policy)
    model = work.resources.get(open_model)
    try:
        estimate = model.estimate_micro(question)
    except SettingsError as unknown:
        # The policy of a thread always has a budget.
        return Outcome(Trigger.BUDGET_EXCEEDED, {"code": "unknown_price", "detail": f"{unknown}."})
    try:
        if estimate:
            await asyncio.to_thread(partial(work.reserve, spent=estimate))
    except OverBudgetError:
        detail = f"asking {model.name} may cost {dollars(estimate)}, more than the budget has left"
        return Outcome(Trigger.BUDGET_EXCEEDED, {"estimate_micro": estimate, "detail": detail})
    await fire_start(work, started(work, model.name, question.tier))
    answer = await ask(work, question, estimate)
    deltas = answer.deltas
    if isinstance(answer, Unanswered):
        failure = {"code": str(answer.code), "detail": answer.detail}
        return Outcome(Trigger.INFERENCE_FAILED, failure, deltas)
    found = {
        str(name): {"payload": dict(proposal.payload), "confidence": proposal.confidence}
        for name, proposal in answer.answer.items()
    }
    first = answer.answer[Target(target)]
    if target == "intent" and first.confidence < GUESS_CONFIDENCE_MIN:
        asks = first.payload.get("blocked_on")
        detail = str(asks or "The request was not understood. Say it in other words") + "."
        options = first.payload.get("options") or []
        missed: dict[str, Any] = {"code": "not_understood", "detail": detail, "options": options}
        return Outcome(Trigger.INFERENCE_FAILED, missed, deltas)
    fields = {
        "model": answer.model,
        "prompt": first.prompt_version,
        "prefetched": {name: proposal for name, proposal in found.items() if name != target},
    }
    return await asyncio.to_thread(proposed, work, target, found[target], fields, deltas)


async def ask(work: EffectWork[ThreadData], question: Question, estimate: int) -> InferenceOutcome:
    """Ask the model. A cancelled call may still be billed, so its estimate is booked."""
    timeout_s = work.records.settings.model_timeout_s
    try:
        return await work.resources.get(open_model).answer(question, timeout_s=timeout_s)
    except asyncio.CancelledError:
        if estimate:
            await asyncio.to_thread(partial(work.spend, spent=estimate))
        raise


async def fire_start(work: EffectWork[ThreadData], outcome: Outcome) -> None:
    """Fire the start to its end. A cancellation meanwhile counts only if the work is stopped."""
    firing = asyncio.ensure_future(asyncio.to_thread(work.fire, outcome))
    try:
        await asyncio.shield(firing)
    except asyncio.CancelledError:
        await firing
        if work.stopped.is_set():
            raise


def started(work: EffectWork[ThreadData], model: str, tier: str) -> Outcome:
    """Return the outcome that moves the thread from the queue of the model to its inference."""
    payload = {"model": model, "attempt": work.attempt, "tier": str(tier)}
    return Outcome(Trigger.INFERENCE_STARTED, payload)


def effective_policy(work: EffectWork[ThreadData]) -> AutonomyPolicy:
    """Return the most conservative policy of the thread and its ancestors."""
    above = work.records.views.records(work.record.ancestors)
    return policy_of(work.record.data, {one: found.data for one, found in above.items()})


def proposal_of_producer(data: ThreadData, target: str) -> dict[str, Any] | None:
    """Return the proposal that the producer gave for a target."""
    given = data.get("given", {})
    payloads: Mapping[str, Any] = {
        "intent": {"intent": given.get("intent")} if given.get("intent") else None,
        "context": {"item_ids": given["item_ids"], "reasoning": "given by the producer"}
        if "item_ids" in given
        else None,
        "action": given.get("action"),
    }
    payload = payloads[target]
    return None if payload is None else {"payload": payload, "confidence": 1.0}


def question_of(work: EffectWork[ThreadData], policy: AutonomyPolicy) -> Question:
    """Return the question of this phase, with only the facts that belong to the phase."""
    data = work.record.data
    target = Target(data["target"])
    known = {phase: proposal["payload"] for phase, proposal in data["proposals"].items()}
    fresh = target is Target.INTENT and not known
    return Question(
        target=Target.COMBINED if fresh and policy.combined_inference else target,
        inciting=data["inciting"],
        items=tuple(data["items"]),
        feedback=tuple(data["feedback"]),
        intent=known.get("intent", {}).get("intent") if target is not Target.INTENT else None,
        context=known.get("context") if target is Target.ACTION else None,
        catalog=tuple(found.offered for found in work.records.capabilities.catalog()),
        previous=known.get("action") if target is Target.ACTION else None,
        turned_down=tuple(data.get("turned_down", ())) if target is Target.ACTION else (),
        tier=tier_for(policy, TIERS[data["target"]]),
    )


def proposed(
    work: EffectWork[ThreadData],
    target: str,
    proposal: Mapping[str, Any],
    fields: Mapping[str, Any],
    deltas: Mapping[str, int] | None = None,
) -> Outcome:
    """Return a proposal's outcome; an action is checked against its schema before approval."""
    payload: dict[str, Any] = {"proposal": dict(proposal), **fields}
    action = proposal["payload"]
    if target == "action" and action.get("kind", "standard") == "standard":
        known = work.records.capabilities
        try:
            capability = known[action.get("capability") or ""]
            known.check(capability.name, action.get("parameters", {}))
        except CallError as refusal:
            failure = {"code": "invalid_output", "detail": str(refusal)}
            return Outcome(Trigger.INFERENCE_FAILED, failure, deltas or {})
        payload["declared"] = capability.declared()
    return Outcome(Trigger.INFERENCE_DONE, payload, deltas or {})
