"""A language model behind an API, asked with the prompt and the schema of each phase."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from interlock.system.models import Answered, LanguageModel, PricedQuestion, Unanswered
from interlock.systems.threads.inference.answer import ANSWERS, ModelAnswer, fault_of, proposals
from interlock.systems.threads.inference.outcome import InferenceOutcome
from interlock.systems.threads.inference.prompt import INSTRUCTIONS, prompt
from interlock.systems.threads.inference.question import Question
from interlock.systems.threads.tier import Tier

OUTPUT_TOKENS_MAX: Mapping[Tier, int] = {
    Tier.LOCAL_TOOL_CALLING: 1024,
    Tier.LOCAL_FAST: 1024,
    Tier.FRONTIER_FAST: 1024,
    Tier.FRONTIER_BALANCED: 4096,
    Tier.FRONTIER_BEST: 8192,
}


class ProviderModel:
    """A language model that infers all that a thread needs."""

    def __init__(self, model: LanguageModel) -> None:
        self.name = model.name
        self._model = model

    def estimate_micro(self, question: Question) -> int:
        """Return the most that one answer can cost, all its attempts included."""
        if question.tier not in OUTPUT_TOKENS_MAX:
            return 0
        return self._priced(question).bound_micro()

    async def answer(self, question: Question, *, timeout_s: float) -> InferenceOutcome:
        """Ask until there is a valid answer, a permanent failure, or no time left."""
        if question.tier not in OUTPUT_TOKENS_MAX:
            detail = f"The tier {question.tier.value!r} is not answered by a language model."
            return Unanswered.not_asked(self.name, detail)
        found = await self._priced(question).ask(timeout_s=timeout_s)
        if isinstance(found, Unanswered):
            return found
        return Answered(proposals(found.answer), found.model, found.usage, found.cost_micro)

    async def close(self) -> None:
        """Close the connections of this model."""
        await self._model.close()

    def _priced(self, question: Question) -> PricedQuestion[ModelAnswer]:
        return self._model.question(
            question.target.value,
            INSTRUCTIONS[question.target],
            prompt(question),
            answer=ANSWERS[question.target],
            tokens_max=OUTPUT_TOKENS_MAX[question.tier],
            check=partial(fault_of, question),
        )
