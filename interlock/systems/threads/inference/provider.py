"""A language model behind an API, asked with the prompt and the schema of each phase."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from pydantic_ai import Agent, ModelRetry, RunContext, ToolOutput

from interlock.system.exchanges import Exchange, PricedQuestion
from interlock.system.models import Unanswered
from interlock.system.tables import Tier
from interlock.systems.threads.inference.answer import ANSWERS, ModelAnswer, fault_of, proposals
from interlock.systems.threads.inference.outcome import Answered, InferenceOutcome
from interlock.systems.threads.inference.prompt import INSTRUCTIONS, prompt
from interlock.systems.threads.inference.question import Question, Target

OUTPUT_TOKENS_MAX: Mapping[Tier, int] = {
    Tier.LOCAL_TOOL_CALLING: 1024,
    Tier.LOCAL_FAST: 1024,
    Tier.FRONTIER_FAST: 1024,
    Tier.FRONTIER_BALANCED: 4096,
    Tier.FRONTIER_BEST: 8192,
}


class ProviderModel:
    """A model of pydantic-ai."""

    def __init__(self, exchange: Exchange) -> None:
        self.name = exchange.name
        self._exchange = exchange

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
        asked = self._priced(question)
        answer = await asked.ask(timeout_s=timeout_s)
        if isinstance(answer, Unanswered):
            return answer
        return Answered(proposals(answer), asked.usage, asked.cost_micro, self.name)

    async def close(self) -> None:
        """Close the connections of this model."""
        await self._exchange.close()

    def _priced(self, question: Question) -> PricedQuestion[Question, ModelAnswer]:
        return self._exchange.question(
            _agent(question.target),
            prompt(question),
            question,
            fixed_bytes=_size(question.target),
            tokens_max=OUTPUT_TOKENS_MAX[question.tier],
        )


@cache
def _agent(target: Target) -> Agent[Question, ModelAnswer]:
    agent: Agent[Question, ModelAnswer] = Agent(
        output_type=ToolOutput(ANSWERS[target], name="answer"),
        deps_type=Question,
        instructions=INSTRUCTIONS[target],
        name=target.value,
    )

    @agent.output_validator
    def check(context: RunContext[Question], answer: ModelAnswer) -> ModelAnswer:
        if fault := fault_of(context.deps, answer):
            raise ModelRetry(fault)
        return answer

    return agent


@cache
def _size(target: Target) -> int:
    """Return how many bytes of instructions and schema go with every question about a target."""
    schema = json.dumps(ANSWERS[target].model_json_schema())
    return len((INSTRUCTIONS[target] + schema).encode())
