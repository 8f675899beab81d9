"""The ordered scales that policies, capabilities and models share."""

from __future__ import annotations

from enum import StrEnum, auto


class Ranked(StrEnum):
    """Words in the order of the enum, not of the alphabet."""

    @property
    def rank(self) -> int:
        """Return the place of the word in its enum, from 0."""
        return list(type(self)).index(self)

    def __lt__(self, other: str) -> bool:
        return self.rank < type(self)(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= type(self)(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > type(self)(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= type(self)(other).rank


class Level(Ranked):
    """How severe something is. `Level(value)` reads an unknown or missing value as HIGH."""

    LOW = auto()
    MEDIUM = auto()
    HIGH = auto()

    @classmethod
    def _missing_(cls, value: object) -> Level:
        del value
        return cls.HIGH


class Tier(Ranked):
    """The kinds of models, agents and people that infer, from the cheapest to the dearest."""

    LOCAL_TOOL_CALLING = auto()
    LOCAL_FAST = auto()
    FRONTIER_FAST = auto()
    FRONTIER_BALANCED = auto()
    FRONTIER_BEST = auto()
    AGENT_HEADLESS = auto()
    USER = auto()
