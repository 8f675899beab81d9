"""The names and limits of language models. It imports no library that asks one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

EMBEDDED = "embedded"
DEFAULT_MODEL = f"{EMBEDDED}:wordllama"
MODEL_VARIABLE = "INTERLOCK_MODEL"
REQUEST_S_MAX = 120.0  # of a single request; the whole answer has its own limit

Sleep = Callable[[float], Awaitable[None]]
# Dollars for a million tokens of input and of output, by the name of the model.
ModelPrices: TypeAlias = Mapping[str, tuple[float, float]]
NO_PRICES: ModelPrices = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """How long and how often a provider is asked before it counts as failed."""

    attempts_max: int = 4
    # The longest pause between two attempts, also where Retry-After asks for a longer one.
    wait_s_max: float = 30.0
    request_s_max: float = REQUEST_S_MAX
    sleep: Sleep = asyncio.sleep


def is_embedded(spec: str) -> bool:
    """Whether a name means the embedded model, which generates no text."""
    return spec.partition(":")[0] == EMBEDDED
