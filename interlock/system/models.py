"""Capabilities and their calls, and what questions to language models are made of."""

from __future__ import annotations

from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.capability import (
    RUNTIME_PARAMETERS,
    Capability,
    problems_of,
)
from interlock.workers.gateways.capabilities.registry import Registry, open_registry
from interlock.workers.gateways.capabilities.result import (
    InvalidResultError,
    Result,
    SplitWork,
    fit,
)
from interlock.workers.gateways.llm.answers import ClosedAnswer, Confidence, OpenAnswer
from interlock.workers.gateways.llm.blocks import blocks, new_marker
from interlock.workers.gateways.llm.options import (
    MODEL_VARIABLE,
    NO_PRICES,
    ExchangeLimits,
    ModelPrices,
    Sleep,
    is_embedded,
)
from interlock.workers.gateways.llm.outcome import (
    ConfigurationError,
    FailureCode,
    TokenUsage,
    Unanswered,
    UnknownPriceError,
)
from interlock.workers.gateways.sources import CleanedUp, open_sources

__all__ = [
    "MODEL_VARIABLE",
    "NO_PRICES",
    "RUNTIME_PARAMETERS",
    "Capability",
    "CleanedUp",
    "ClosedAnswer",
    "Confidence",
    "ConfigurationError",
    "ExchangeLimits",
    "FailureCode",
    "InvalidResultError",
    "ModelPrices",
    "OpenAnswer",
    "Registry",
    "Result",
    "Sleep",
    "SplitWork",
    "TokenUsage",
    "Unanswered",
    "UnknownPriceError",
    "blocks",
    "call_capability",
    "fit",
    "is_embedded",
    "new_marker",
    "open_registry",
    "open_sources",
    "problems_of",
]
