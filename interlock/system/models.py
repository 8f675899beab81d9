"""Capabilities and their calls, and what questions to language models are made of."""

from __future__ import annotations

from interlock.workers.engine.capability_call import CapabilityCall
from interlock.workers.gateways.capabilities.capability import call_problems
from interlock.workers.gateways.capabilities.registry import Registry, open_registry
from interlock.workers.gateways.capabilities.result import SplitWork, json_problem
from interlock.workers.gateways.llm.answers import Confidence, OpenAnswer
from interlock.workers.gateways.llm.blocks import blocks, new_marker
from interlock.workers.gateways.llm.options import (
    NO_PRICES,
    ExchangeLimits,
    ModelPrices,
    is_embedded,
)
from interlock.workers.gateways.llm.outcome import (
    ConfigurationError,
    TokenUsage,
    Unanswered,
    UnknownPriceError,
)
from interlock.workers.gateways.sources import CleanedUp, open_sources

__all__ = [
    "NO_PRICES",
    "CapabilityCall",
    "CleanedUp",
    "Confidence",
    "ConfigurationError",
    "ExchangeLimits",
    "ModelPrices",
    "OpenAnswer",
    "Registry",
    "SplitWork",
    "TokenUsage",
    "Unanswered",
    "UnknownPriceError",
    "blocks",
    "call_problems",
    "is_embedded",
    "json_problem",
    "new_marker",
    "open_registry",
    "open_sources",
]
