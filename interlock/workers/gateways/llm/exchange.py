"""Asks a language model behind an API, with retries within limits, and books what it costs.

`Exchange.ask` returns every failure of the provider as `Unanswered`. It raises only for a fault in
our code, or when its own task is cancelled. The ledger has the costs in each of these cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from pydantic_ai import Agent
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    UserError,
)
from pydantic_ai.models import Model as Client
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from interlock.workers.gateways.llm.cost import Bound, Ledger, Price
from interlock.workers.gateways.llm.metered_model import Metered, refuse_absurd_usage
from interlock.workers.gateways.llm.options import ExchangeLimits
from interlock.workers.gateways.llm.outcome import FailureCode, TokenUsage, Unanswered
from interlock.workers.gateways.llm.retry import is_timeout, retrying
from interlock.workers.text import sentence

PROVIDER_TEXT_MAX = 200
Deps = TypeVar("Deps")
AnswerT = TypeVar("AnswerT")


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
        self._price = Price(name, client.model_name, client.system, price)
        refuse_absurd_usage()

    def bound(self, size_bytes: int, tokens_max: int) -> Bound:
        """Return the most that an answer of so many tokens to so many bytes can cost."""
        return Bound(self._price, size_bytes, tokens_max)

    def ledger(self, size_bytes: int, tokens_max: int) -> Ledger:
        """Return a ledger for one answer; its bound is the most that this can cost."""
        return Ledger(self.bound(size_bytes, tokens_max))

    def question(
        self,
        agent: Agent[Deps, AnswerT],
        message: str,
        deps: Deps,
        *,
        fixed_bytes: int,
        tokens_max: int,
    ) -> PricedQuestion[Deps, AnswerT]:
        """Return a question of one message; `fixed_bytes` are its instructions and its schema."""
        ledger = self.ledger(fixed_bytes + len(message.encode()), tokens_max)
        return PricedQuestion(self, agent, message, deps, ledger)

    async def ask(
        self,
        agent: Agent[Deps, AnswerT],
        message: str,
        deps: Deps,
        ledger: Ledger,
        *,
        timeout_s: float,
    ) -> AnswerT | Unanswered:
        """Ask until there is a valid answer, a failure that lasts, or no time left."""
        try:
            async with asyncio.timeout(timeout_s) as total:
                return await self._answer(agent, message, deps, ledger, timeout_s)
        except TimeoutError:
            if not total.expired():
                raise
            return Unanswered.late(self.name, timeout_s, ledger.usage, ledger.cost_micro)
        except ModelAPIError as error:
            code = FailureCode.TIMEOUT if is_timeout(error) else FailureCode.PROVIDER_ERROR
            unanswered = self._unanswered(code, self._detail(error, ledger), ledger)
            return replace(unanswered, retry_after_s=error.retry_after)
        except UserError as error:
            detail = f"{self.name} cannot be asked: {sentence(error.message)}"
            return self._unanswered(FailureCode.PROVIDER_ERROR, detail, ledger)
        except AgentRunError as error:
            detail = f"{self.name} gave no valid answer: {_reason(error)}"
            return self._unanswered(FailureCode.INVALID_OUTPUT, detail, ledger)

    async def close(self) -> None:
        """Close the connections of this model."""
        async with self._client:
            pass

    async def _answer(
        self,
        agent: Agent[Deps, AnswerT],
        message: str,
        deps: Deps,
        ledger: Ledger,
        timeout_s: float,
    ) -> AnswerT:
        client = Metered(self._client, ledger, self._key)
        attempts = retrying(
            attempts_max=self._limits.attempts_max,
            wait_s_max=self._limits.wait_s_max,
            time_s_max=timeout_s,
            may_retry=lambda: ledger.billable_left > 0,
            sleep=self._limits.sleep,
        )

        async def attempt() -> AnswerT:
            left = ledger.billable_left
            result = await agent.run(
                message,
                model=client,
                deps=deps,
                model_settings=self._settings(ledger.bound.output_tokens_max),
                retries=left - 1,
                usage_limits=UsageLimits(request_limit=left),
            )
            return result.output

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
            text = sentence(str(body.get("message") or ""), length_max=PROVIDER_TEXT_MAX)
            reason = f" ({text})" if text else ""
            return f"{self.name} refused with status {error.status_code}{reason} after {tries}."
        text = sentence(error.message, length_max=PROVIDER_TEXT_MAX)
        return f"{self.name} could not be reached or understood after {tries}: {text}"


class PricedQuestion(Generic[Deps, AnswerT]):
    """A question to a language model, the most that it can cost, and what it has cost so far."""

    def __init__(
        self,
        exchange: Exchange,
        agent: Agent[Deps, AnswerT],
        message: str,
        deps: Deps,
        ledger: Ledger,
    ) -> None:
        self._exchange, self._agent = exchange, agent
        self._message, self._deps, self._ledger = message, deps, ledger

    def bound_micro(self) -> int:
        """Return the most that it can cost, all attempts included. Raises UnknownPriceError."""
        return self._ledger.bound.micro()

    async def ask(self, *, timeout_s: float) -> AnswerT | Unanswered:
        """Ask until there is a valid answer, a failure that lasts, or no time left."""
        agent, message, deps, ledger = self._agent, self._message, self._deps, self._ledger
        return await self._exchange.ask(agent, message, deps, ledger, timeout_s=timeout_s)

    @property
    def usage(self) -> TokenUsage:
        """The tokens and requests that it has used so far."""
        return self._ledger.usage

    @property
    def cost_micro(self) -> int:
        """What it has cost so far, in micro-dollars; also where nobody waited for its answer."""
        return self._ledger.cost_micro


def _reason(error: AgentRunError) -> str:
    # The cause explains what was wrong with the last answer; the error only says it was the last.
    explained = error.__cause__ if error.__cause__ is not None else error
    return sentence(str(explained), length_max=PROVIDER_TEXT_MAX)
