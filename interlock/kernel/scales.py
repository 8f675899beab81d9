"""Words in an order, and the scale that policies and capabilities share."""

from __future__ import annotations

from enum import StrEnum, auto


class Ranked(StrEnum):
    """Base of words in the order of the enum, not of the alphabet: `Trust.LOW < Trust.HIGH`."""

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
