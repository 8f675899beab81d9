"""A language model behind an API: asked with a typed schema, retried within limits, never trusted.

`answer` returns an outcome however the provider behaves. What it raises is a defect, or the
cancellation of its own task.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_ai import Agent, ModelRetry, RunContext, ToolOutput
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    UserError,
)
from pydantic_ai.models import Model as Client
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from kernel.autonomy import Tier
from workers.gateways.llm.answer import ANSWERS, Answer, fault, proposals
from workers.gateways.llm.ledger import Bound, Ledger, Price
from workers.gateways.llm.metered import Metered, refuse_absurd_usage
from workers.gateways.llm.outcome import Answered, Failed, FailureCode, Outcome, Usage
from workers.gateways.llm.prompt import INSTRUCTIONS, prompt
from workers.gateways.llm.question import Question, Target
from workers.gateways.llm.retry import Sleep, is_timeout, retrying
from workers.result import sentence

PROVIDER_WORDS_MAX = 200
OUTPUT_TOKENS_MAX: Mapping[Tier, int] = {
    Tier.LOCAL_TOOL_CALLING: 1024,
    Tier.LOCAL_FAST: 1024,
    Tier.FRONTIER_FAST: 1024,
    Tier.FRONTIER_BALANCED: 4096,
    Tier.FRONTIER_BEST: 8192,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often a provider is asked before it counts as failed."""

    attempts_max: int = 4
    # The longest pause between two attempts, whatever Retry-After says.
    wait_s_max: float = 30.0
    # A single request; the whole answer has its own limit.
    request_s_max: float = 120.0
    sleep: Sleep = asyncio.sleep


class ProviderModel:
    """A model of pydantic-ai."""

    def __init__(self, name: str, client: Client, limits: Limits) -> None:
        self.name = name
        self._client = client
        self._limits = limits
        self._price = Price(client.model_name, client.system)
        self._agents = {target: _agent(target) for target in Target}
        self._sizes = {target: _size(target) for target in Target}
        refuse_absurd_usage()

    def estimate_micro(self, question: Question) -> int:
        """Return the most that one answer can cost, all its attempts included."""
        if question.tier not in OUTPUT_TOKENS_MAX:
            return 0
        return self._bound(question, prompt(question)).micro()

    async def answer(self, question: Question, *, timeout_s: float) -> Outcome:
        """Ask until there is a valid answer, a failure that lasts, or no time left."""
        if question.tier not in OUTPUT_TOKENS_MAX:
            detail = f"The tier {question.tier.value!r} is not answered by a language model."
            return Failed(FailureCode.PROVIDER_ERROR, detail, Usage(), 0, self.name)
        words = prompt(question)
        ledger = Ledger(self._bound(question, words))
        try:
            async with asyncio.timeout(timeout_s) as total:
                answer = await self._ask(question, words, ledger, timeout_s)
        except TimeoutError:
            if not total.expired():
                raise
            detail = f"{self.name} did not answer within {timeout_s:g} s."
            return self._failed(FailureCode.TIMEOUT, detail, ledger)
        except ModelAPIError as error:
            code = FailureCode.TIMEOUT if is_timeout(error) else FailureCode.PROVIDER_ERROR
            return self._failed(code, self._told(error, ledger), ledger)
        except UserError as error:
            detail = f"{self.name} cannot be asked: {sentence(error.message)}"
            return self._failed(FailureCode.PROVIDER_ERROR, detail, ledger)
        except AgentRunError as error:
            detail = f"{self.name} gave no valid answer: {_reason(error)}"
            return self._failed(FailureCode.INVALID_OUTPUT, detail, ledger)
        return Answered(proposals(answer), ledger.usage, ledger.cost_micro, self.name)

    async def close(self) -> None:
        """Close the connections of this model."""
        async with self._client:
            pass

    async def _ask(
        self, question: Question, words: str, ledger: Ledger, timeout_s: float
    ) -> Answer:
        client = Metered(self._client, ledger)
        attempts = retrying(
            attempts_max=self._limits.attempts_max,
            wait_s_max=self._limits.wait_s_max,
            time_s_max=timeout_s,
            may_retry=lambda: ledger.billable_left > 0,
            sleep=self._limits.sleep,
        )

        async def attempt() -> Answer:
            left = ledger.billable_left
            result = await self._agents[question.target].run(
                words,
                model=client,
                deps=question,
                model_settings=self._settings(question),
                retries=left - 1,
                usage_limits=UsageLimits(request_limit=left),
            )
            return result.output

        return await attempts(attempt)

    def _settings(self, question: Question) -> ModelSettings:
        settings = ModelSettings(
            max_tokens=OUTPUT_TOKENS_MAX[question.tier],
            request_timeout=self._limits.request_s_max,
        )
        # The one loop is ours: retries inside a provider's own client would multiply it.
        if "max_retries" not in self._client.unsupported_settings:
            settings["max_retries"] = 0
        return settings

    def _bound(self, question: Question, words: str) -> Bound:
        size = self._sizes[question.target] + len(words.encode())
        return Bound(self._price, size, OUTPUT_TOKENS_MAX[question.tier])

    def _failed(self, code: FailureCode, detail: str, ledger: Ledger) -> Failed:
        return Failed(code, detail, ledger.usage, ledger.cost_micro, self.name)

    def _told(self, error: ModelAPIError, ledger: Ledger) -> str:
        tries = f"{ledger.usage.requests} request" + ("s" if ledger.usage.requests > 1 else "")
        if isinstance(error, ModelHTTPError):
            body = error.body if isinstance(error.body, Mapping) else {}
            said = sentence(str(body.get("message") or ""), length_max=PROVIDER_WORDS_MAX)
            words = f" ({said})" if said else ""
            return f"{self.name} refused with status {error.status_code}{words} after {tries}."
        said = sentence(error.message, length_max=PROVIDER_WORDS_MAX)
        return f"{self.name} could not be reached or understood after {tries}: {said}"


def _agent(target: Target) -> Agent[Question, Answer]:
    agent: Agent[Question, Answer] = Agent(
        output_type=ToolOutput(ANSWERS[target], name="answer"),
        deps_type=Question,
        instructions=INSTRUCTIONS[target],
        name=target.value,
    )

    @agent.output_validator
    def check(context: RunContext[Question], answer: Answer) -> Answer:
        if found := fault(context.deps, answer):
            raise ModelRetry(found)
        return answer

    return agent


def _size(target: Target) -> int:
    """Return the bytes of what goes with every question about a target."""
    schema = json.dumps(ANSWERS[target].model_json_schema())
    return len((INSTRUCTIONS[target] + schema).encode())


def _reason(error: AgentRunError) -> str:
    # The cause says what was wrong with the last answer, the error only that it was the last.
    told = error.__cause__ if error.__cause__ is not None else error
    return sentence(str(told), length_max=PROVIDER_WORDS_MAX)
