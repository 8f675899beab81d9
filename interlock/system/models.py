"""Questions to language models, with their price, and calls of capabilities."""

from __future__ import annotations

from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.canary import interlock_canary
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
from interlock.workers.gateways.llm.cost import Bound, Ledger
from interlock.workers.gateways.llm.exchange import Exchange
from interlock.workers.gateways.llm.model import exchange_of, open_exchange
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
    "Bound",
    "Capability",
    "CleanedUp",
    "ClosedAnswer",
    "Confidence",
    "ConfigurationError",
    "Exchange",
    "ExchangeLimits",
    "FailureCode",
    "InvalidResultError",
    "Ledger",
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
    "exchange_of",
    "fit",
    "interlock_canary",
    "is_embedded",
    "new_marker",
    "open_exchange",
    "open_registry",
    "open_sources",
    "problems_of",
]
