"""What became of a question: answered or failed, and what it cost; never an empty success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from interlock.workers.config import SetupError
from interlock.workers.gateways.llm.question import PROMPT_VERSION, Target


class ConfigurationError(SetupError, ValueError):
    """The model cannot be opened as named. Set or install what the message says."""


class FailureCode(StrEnum):
    """Why there is no answer."""

    INVALID_OUTPUT = auto()
    PROVIDER_ERROR = auto()
    TIMEOUT = auto()


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used, all attempts together.

    `unmeasured` counts the requests that may have been billed but whose usage was never told: given
    up, broken off, or answered with absurd numbers. Their cost is booked at its upper bound.
    `priced` is false if the price of a request is unknown; it is booked as 0.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    unmeasured: int = 0
    priced: bool = True


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the model proposes for one phase."""

    payload: Mapping[str, Any]
    confidence: float
    prompt_version: int = PROMPT_VERSION


@dataclass(frozen=True, slots=True)
class Answered:
    """The model answered every phase it was asked for. The cost is that of the whole call, once."""

    proposals: Mapping[Target, Proposal]
    usage: Usage
    cost_micro: int
    model: str


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no answer. `detail` is one sentence for a person."""

    code: FailureCode
    detail: str
    usage: Usage
    cost_micro: int
    model: str
    # How long the provider wants to be left alone, in s; None where it did not say.
    retry_after_s: float | None = None


Outcome = Answered | Failed
