"""The question that a model gets in each phase of a thread, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from interlock.system.models import OfferedCapability
from interlock.systems.threads.tier import Tier

# Increase it with every change of a prompt or its data; each proposal stores its version.
PROMPT_VERSION = 2


class Target(StrEnum):
    """The part of a thread that is to be inferred."""

    INTENT = auto()
    CONTEXT = auto()
    ACTION = auto()
    COMBINED = auto()


PHASES: Mapping[Target, tuple[Target, ...]] = {
    Target.INTENT: (Target.INTENT,),
    Target.CONTEXT: (Target.CONTEXT,),
    Target.ACTION: (Target.ACTION,),
    Target.COMBINED: (Target.INTENT, Target.CONTEXT, Target.ACTION),
}


@dataclass(frozen=True, slots=True)
class Question:
    """All the data of one inference.

    `feedback` lists what people answered to earlier proposals, oldest first: {"phase", "kind",
    "text", "values"}, with the kind provided, redirected or edited. `intent` and `context` are the
    confirmed results of the phases before. `previous` is the action proposal that was redirected
    or edited. `turned_down` are the calls that failed, or in whose place a person wanted something
    else, oldest first: {"capability", "parameters", "why"}. Give the catalog in every phase: a
    provider's model sees it in the action phase alone, but the embedded model can express an
    intent only in the words of the catalog.
    """

    target: Target
    inciting: Mapping[str, Any]
    items: tuple[Mapping[str, Any], ...]
    feedback: tuple[Mapping[str, Any], ...]
    intent: str | None
    context: Mapping[str, Any] | None
    catalog: tuple[OfferedCapability, ...]
    previous: Mapping[str, Any] | None
    turned_down: tuple[Mapping[str, Any], ...]
    tier: Tier

    def choice(self, name: str | None) -> OfferedCapability | None:
        """Return the capability of the catalog with this name."""
        return next((choice for choice in self.catalog if choice.name == name), None)
