"""The cost of one question so far, in whole micro-dollars. An estimate is always an upper bound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TypeAlias

from genai_prices import Usage as PricedTokens
from genai_prices import calc_price
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from interlock.workers.gateways.llm.outcome import TokenUsage, UnknownPriceError

TOKENS_OF_PRICE = 1_000_000
# An answer and one correction of it. A request that was given up counts too: it may be billed.
BILLABLE_MAX = 2
TOKENS_MAX = 10**9
# The tokens that a provider adds to a message: roles, the schema's wrapping, the list of faults.
OVERHEAD_TOKENS = 1_000

# Called with the micro-dollars of each request as it is booked, what the provider says that it
# used, None where that is not known, and the text of its response.
Booked: TypeAlias = Callable[[int, RequestUsage | None, str], None]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one model's tokens: the one that the settings give, or that of public lists.

    `given` is in dollars for a million tokens of input and of output.
    """

    name: str
    model: str
    provider: str
    given: tuple[float, float] | None = None

    def usd(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return the price of that many tokens, or None if it is unknown."""
        if self.given is not None:
            of_input, of_output = (Decimal(str(usd)) for usd in self.given)
            return (of_input * input_tokens + of_output * output_tokens) / TOKENS_OF_PRICE
        tokens = PricedTokens(input_tokens=input_tokens, output_tokens=output_tokens)
        try:
            return calc_price(tokens, self.model, provider_id=self.provider).total_price
        except LookupError:
            return None


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a question can cost.

    No token is shorter than one byte, so the bytes of a prompt bound its tokens. A correction sends
    the first output back, and once more in quotes.
    """

    price: Price
    input_bytes: int
    output_tokens_max: int

    def usd(self, request: int) -> Decimal | None:
        """Return the bound of the first, second ... request of a question."""
        input_tokens = self.input_bytes + OVERHEAD_TOKENS
        input_tokens += (request - 1) * (2 * self.output_tokens_max + OVERHEAD_TOKENS)
        return self.price.usd(input_tokens=input_tokens, output_tokens=self.output_tokens_max)

    def micro(self) -> int:
        """Return the bound of a whole question with all its attempts. Raises UnknownPriceError."""
        bounds = [self.usd(request) for request in range(1, BILLABLE_MAX + 1)]
        known = [usd for usd in bounds if usd is not None]
        if len(known) < len(bounds):
            raise UnknownPriceError(self.price.name)
        return micro(sum(known, Decimal(0)))


class AbsurdUsageError(Exception):
    """The provider reports impossible numbers. Do not believe its answer either."""


class Ledger:
    """The bookkeeping of one question over all its attempts."""

    def __init__(self, bound: Bound, booked: Booked | None = None) -> None:
        self.bound = bound
        self._booked = booked
        self._usd = Decimal(0)
        self._input_tokens = self._output_tokens = 0
        self._requests = self._unmeasured = self._billable = 0
        self._priced = True

    @property
    def billable_left(self) -> int:
        """Return how many more requests of this question may cost money."""
        return BILLABLE_MAX - self._billable

    @property
    def cost_micro(self) -> int:
        """Return the cost that is booked so far."""
        return micro(self._usd)

    @property
    def usage(self) -> TokenUsage:
        """Return the usage so far."""
        return TokenUsage(
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            requests=self._requests,
            unmeasured=self._unmeasured,
            priced=self._priced,
        )

    def sent(self) -> None:
        """Count a request that is about to be sent."""
        self._requests += 1

    def unmeasured(self, text: str = "") -> None:
        """Book a request that may be billed, but whose usage is not known."""
        self._billable += 1
        self._unmeasured += 1
        self._book(self.bound.usd(self._billable), None, text)

    def measured(self, response: ModelResponse) -> None:
        """Book a response. Impossible numbers are booked as unmeasured; then AbsurdUsageError."""
        reported, text = response.usage, response.text or ""
        numbers = {"input": reported.input_tokens, "output": reported.output_tokens}
        # Zero tokens mean that the provider did not measure.
        if reported.unmeasured_requests or 0 in numbers.values():
            self.unmeasured(text)
            return
        for name, tokens in numbers.items():
            if not 0 <= tokens <= TOKENS_MAX:
                self.unmeasured()
                raise AbsurdUsageError(f"it reports {tokens} {name} tokens")
        self._billable += 1
        self._input_tokens += reported.input_tokens
        self._output_tokens += reported.output_tokens
        self._book(self._cost(response), reported, text)

    def _cost(self, response: ModelResponse) -> Decimal | None:
        # The library knows the price of cached tokens. Our own price is for a server that calls its
        # model by another name.
        if response.model_name and self.bound.price.given is None:
            with suppress(LookupError, ValueError):
                return response.cost().total_price
        tokens = response.usage
        return self.bound.price.usd(
            input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens
        )

    def _book(self, usd: Decimal | None, usage: RequestUsage | None, text: str) -> None:
        before_micro = self.cost_micro
        self._priced = self._priced and usd is not None
        self._usd += usd or Decimal(0)
        if self._booked is not None:
            self._booked(self.cost_micro - before_micro, usage, text)


def micro(usd: Decimal) -> int:
    """Return whole micro-dollars, rounded up."""
    return int((usd * 1_000_000).to_integral_value(ROUND_CEILING))
