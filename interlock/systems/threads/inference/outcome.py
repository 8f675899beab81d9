"""The outcome of a question: an answer to every phase, or to none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from interlock.system.models import Answered, Unanswered
from interlock.systems.threads.inference.question import PROMPT_VERSION, Target


@dataclass(frozen=True, slots=True)
class ModelProposal:
    """The proposal of the model for one phase."""

    payload: Mapping[str, Any]
    confidence: float
    prompt_version: int = PROMPT_VERSION


# An answer has a proposal for every phase of the question.
InferenceOutcome: TypeAlias = Answered[Mapping[Target, ModelProposal]] | Unanswered
