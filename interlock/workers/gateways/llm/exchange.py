"""Asks a language model behind an API, with retries within limits, and books what it costs.

`Exchange.ask` returns every failure of the provider as `Unanswered`. It raises only for a fault in
our code, or when its own task is cancelled. The ledger has the costs in each of these cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolOutput
from pydantic_ai.capabilities import PrepareOutputTools
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import Model as Client
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import UsageLimits

from interlock.workers.gateways.llm.cost import Booked, Bound, Ledger, Price
from interlock.workers.gateways.llm.metered_model import Metered, refuse_absurd_usage
from interlock.workers.gateways.llm.options import ExchangeLimits
from interlock.workers.gateways.llm.outcome import Answered, FailureCode, Unanswered
from interlock.workers.gateways.llm.prompt import AnswerT, Prompt, Speaker, closed
from interlock.workers.gateways.llm.retry import is_timeout, retrying
from interlock.workers.text import one_line

PROVIDER_TEXT_MAX = 200


class Exchange:
    """A model of pydantic-ai, and the one loop of attempts around it."""

    def __init__(
        self,
        name: str,
        client: Client,
        limits: ExchangeLimits,
        price: tuple[float, float] | None,
        key: str = "",
    ) -> None:
        self.name = name
        self._client = client
        self._limits = limits
        self._key = key
        self._agents: dict[tuple[str, type[object]], Agent[Any, Any]] = {}
        self._price = Price(name, client.model_name, client.system, price)
        refuse_absurd_usage()

    def ledger(self, size_bytes: int, tokens_max: int, booked: Booked | None = None) -> Ledger:
        """Return a ledger for an answer of so many tokens to so many bytes, with its bound."""
        return Ledger(Bound(self._price, size_bytes, tokens_max), booked)

    async def ask(
        self, prompt: Prompt[AnswerT], ledger: Ledger, *, timeout_s: float
    ) -> Answered[AnswerT] | Unanswered:
        """Ask until there is a valid answer, a failure that lasts, or no time left."""
        try:
            async with asyncio.timeout(timeout_s) as total:
                answer = await self._answer(prompt, ledger, timeout_s)
        except TimeoutError:
            if not total.expired():
                raise
            return Unanswered.late(self.name, timeout_s, ledger.usage, ledger.cost_micro)
        except ModelAPIError as error:
            code = FailureCode.TIMEOUT if is_timeout(error) else FailureCode.PROVIDER_ERROR
            unanswered = self._unanswered(code, self._detail(error, ledger), ledger)
            return replace(unanswered, retry_after_s=error.retry_after)
        except UserError as error:
            detail = f"{self.name} cannot be asked: {one_line(error.message)}"
            return self._unanswered(FailureCode.PROVIDER_ERROR, detail, ledger)
        except AgentRunError as error:
            detail = f"{self.name} gave no valid answer: {_reason(error)}"
            return self._unanswered(FailureCode.INVALID_OUTPUT, detail, ledger)
        return Answered(answer, self.name, ledger.usage, ledger.cost_micro)

    async def close(self) -> None:
        """Close the connections of this model."""
        async with self._client:
            pass

    async def _answer(self, prompt: Prompt[AnswerT], ledger: Ledger, timeout_s: float) -> AnswerT:
        client = Metered(self._client, ledger, self._key)
        attempts = retrying(
            attempts_max=self._limits.attempts_max,
            wait_s_max=self._limits.wait_s_max,
            time_s_max=timeout_s,
            may_retry=lambda: ledger.billable_left > 0,
            sleep=self._limits.sleep,
        )

        key = (prompt.name, prompt.answer)
        if key not in self._agents:
            self._agents[key] = _agent(*key)
        agent: Agent[Prompt[AnswerT], AnswerT] = self._agents[key]
        history = [*map(_message, prompt.history)]

        async def attempt() -> AnswerT:
            left = ledger.billable_left
            result = await agent.run(
                prompt.message,
                model=client,
                deps=prompt,
                message_history=history,
                model_settings=self._settings(ledger.bound.output_tokens_max),
                retries=left - 1,
                usage_limits=UsageLimits(request_limit=left),
            )
            answer: AnswerT = result.output
            return answer

        return await attempts(attempt)

    def _settings(self, tokens_max: int) -> ModelSettings:
        settings = ModelSettings(max_tokens=tokens_max, request_timeout=self._limits.request_s_max)
        # The one loop of attempts is ours: retries inside a provider's client would multiply it.
        if "max_retries" not in self._client.unsupported_settings:
            settings["max_retries"] = 0
        return settings

    def _unanswered(self, code: FailureCode, detail: str, ledger: Ledger) -> Unanswered:
        return Unanswered(code, detail, ledger.usage, ledger.cost_micro, self.name)

    def _detail(self, error: ModelAPIError, ledger: Ledger) -> str:
        tries = f"{ledger.usage.requests} request" + ("s" if ledger.usage.requests > 1 else "")
        if isinstance(error, ModelHTTPError):
            body = error.body if isinstance(error.body, Mapping) else {}
            text = one_line(str(body.get("message") or ""), length_max=PROVIDER_TEXT_MAX)
            reason = f" ({text})" if text else ""
            return f"{self.name} refused with status {error.status_code}{reason} after {tries}."
        text = one_line(error.message, length_max=PROVIDER_TEXT_MAX)
        return f"{self.name} could not be reached or understood after {tries}: {text}"


def _agent(name: str, answer: type[AnswerT]) -> Agent[Prompt[AnswerT], AnswerT]:
    shaped = ToolOutput(answer, name="answer") if issubclass(answer, BaseModel) else answer
    agent: Agent[Prompt[AnswerT], AnswerT] = Agent(
        output_type=shaped,
        deps_type=Prompt,
        instructions=_instructions,
        name=name,
        capabilities=[PrepareOutputTools(_closed)],
    )

    @agent.output_validator
    def check(context: RunContext[Prompt[AnswerT]], found: AnswerT) -> AnswerT:
        if fault := context.deps.fault_of(found):
            raise ModelRetry(fault)
        return found

    return agent


def _closed(_: object, tools: list[ToolDefinition]) -> list[ToolDefinition]:
    return [
        replace(tool, parameters_json_schema=closed(tool.parameters_json_schema)) for tool in tools
    ]


def _instructions(context: RunContext[Prompt[AnswerT]]) -> str | None:
    return context.deps.instructions or None


def _message(said: tuple[Speaker, str]) -> ModelMessage:
    speaker, text = said
    if speaker == "user":
        return ModelRequest(parts=[UserPromptPart(text)])
    return ModelResponse(parts=[TextPart(text)])


def _reason(error: AgentRunError) -> str:
    # The cause explains what was wrong with the last answer; the error only says it was the last.
    explained = error.__cause__ if error.__cause__ is not None else error
    return one_line(str(explained), length_max=PROVIDER_TEXT_MAX)
