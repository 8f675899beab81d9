"""The outcome of a question: an answer to every phase, or to none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from interlock.system.models import TokenUsage, Unanswered
from interlock.systems.threads.inference.question import PROMPT_VERSION, Target


@dataclass(frozen=True, slots=True)
class ModelProposal:
    """The proposal of the model for one phase."""

    payload: Mapping[str, Any]
    confidence: float
    prompt_version: int = PROMPT_VERSION


@dataclass(frozen=True, slots=True)
class Answered:
    """The model answered every phase of the question. The cost is that of the whole call, once."""

    proposals: Mapping[Target, ModelProposal]
    usage: TokenUsage
    cost_micro: int
    model: str


InferenceOutcome: TypeAlias = Answered | Unanswered
