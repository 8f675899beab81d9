"""What is shown beside the question of a card: a difference, an output, a model's words. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class EvidenceKind(StrEnum):
    """How a piece of evidence is shown: as sentences, as an output, or as a difference."""

    TEXT = auto()
    OUTPUT = auto()
    DIFF = auto()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence. `missing` says what of it is not shown, where that is, and why."""

    title: str
    text: str = ""
    kind: EvidenceKind = EvidenceKind.TEXT
    missing: str = ""
