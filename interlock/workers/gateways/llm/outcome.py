"""The answer of a language model, or why there is none, and what the question used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Generic

from interlock.workers.config import SettingsError
from interlock.workers.gateways.llm.prompt import AnswerT


class UnknownPriceError(SettingsError):
    """The price of a model is not known, so a limit of costs could not hold. Give its price."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the price of the model {name} is not known, so the limit of costs could not hold: set"
            f" INTERLOCK_MODEL_PRICES={name}=INPUT/OUTPUT in dollars for a million tokens"
            " (0/0 if it costs nothing)"
        )


class FailureCode(StrEnum):
    """Why there is no answer."""

    INVALID_OUTPUT = auto()
    PROVIDER_ERROR = auto()
    TIMEOUT = auto()


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens and requests that a question used, all its attempts together.

    `unmeasured` counts the requests that may have been billed but whose usage the provider did not
    report: given up, broken off, or answered with impossible numbers. Their cost is booked at its
    upper bound. `priced` is false if the price of a request is unknown; it is booked as 0,
    and only where no limit of costs holds.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    unmeasured: int = 0
    priced: bool = True

    def deltas(self, cost_micro: int) -> dict[str, int]:
        """Return what the question adds to a record's counters."""
        amounts = {
            "spent": cost_micro,
            "tokens_in": self.input_tokens,
            "tokens_out": self.output_tokens,
        }
        return {name: amount for name, amount in amounts.items() if amount}


NOT_ASKED = TokenUsage()


@dataclass(frozen=True, slots=True)
class Answered(Generic[AnswerT]):
    """The `answer` of a language model, and what the whole question used, all its attempts."""

    answer: AnswerT
    model: str
    usage: TokenUsage = NOT_ASKED
    cost_micro: int = 0

    @property
    def deltas(self) -> dict[str, int]:
        """What it cost, as an outcome or `work.spend` takes it: micro-dollars and tokens."""
        return self.usage.deltas(self.cost_micro)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There is no answer. `detail` is one sentence for a person; `code` says what kind of failure.

    It may have cost something too.
    """

    code: FailureCode
    detail: str
    usage: TokenUsage
    cost_micro: int
    model: str
    # How long the provider asks its callers to wait, in s; None where it did not say.
    retry_after_s: float | None = None

    @property
    def deltas(self) -> dict[str, int]:
        """What it cost nevertheless, as an outcome or `work.spend` takes it."""
        return self.usage.deltas(self.cost_micro)

    @classmethod
    def late(
        cls, model: str, timeout_s: float, usage: TokenUsage = NOT_ASKED, cost_micro: int = 0
    ) -> Unanswered:
        """Return that a model did not answer in time."""
        detail = f"{model} did not answer within {timeout_s:g} s."
        return cls(FailureCode.TIMEOUT, detail, usage, cost_micro, model)

    @classmethod
    def not_asked(cls, model: str, why: str) -> Unanswered:
        """Return that a model cannot be asked, with a sentence that says why."""
        return cls(FailureCode.PROVIDER_ERROR, why, NOT_ASKED, 0, model)
