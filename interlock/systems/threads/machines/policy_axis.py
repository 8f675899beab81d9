"""Reads one axis of a policy from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from reprlib import repr as short
from typing import TypeVar

BUDGET_MICRO_MAX = 10**15


class PolicyError(ValueError):
    """A policy cannot be read. Correct the axis that the message names."""

    def __init__(self, axis: str, value: object, allowed: str) -> None:
        super().__init__(f"autonomy policy: {axis} cannot be {short(value)}; allowed: {allowed}")
        self.axis, self.value, self.allowed = axis, value, allowed


Word = TypeVar("Word", bound=StrEnum)


def word(kind: type[Word], data: Mapping[str, object], axis: str) -> Word:
    """Return the axis as one word of the kind."""
    # Not kind(value): that may read an unknown word as a known one, here as the loosest threshold.
    value = data[axis]
    for known in kind:
        if isinstance(value, str) and value == known:
            return known
    raise PolicyError(axis, value, ", ".join(kind))


def words(kind: type[Word], data: Mapping[str, object], axis: str) -> frozenset[Word]:
    """Return the axis as a set of words of the kind; an empty list is an empty set."""
    value = data[axis]
    if not isinstance(value, list | tuple | set | frozenset):
        raise PolicyError(axis, value, "a list of " + ", ".join(kind))
    return frozenset(word(kind, {axis: item}, axis) for item in value)


def flag(data: Mapping[str, object], axis: str) -> bool:
    """Return the axis as true or false."""
    value = data[axis]
    if not isinstance(value, bool):
        raise PolicyError(axis, value, "true, false")
    return value


def fraction(data: Mapping[str, object], axis: str) -> float:
    """Return the axis as a number from 0 to 1."""
    value = data[axis]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PolicyError(axis, value, "a number from 0 to 1")
    return float(value)


def budget(data: Mapping[str, object], *, default: int) -> int:
    """Return the budget in micro-dollars, from `budget_micro` or from `budget_usd`."""
    if "budget_usd" in data and "budget_micro" in data:
        raise PolicyError("budget_usd", data["budget_usd"], "either budget_usd or budget_micro")
    if "budget_usd" in data:
        usd = data["budget_usd"]
        if (micro := _micro_of(usd)) is None:
            raise PolicyError("budget_usd", usd, "dollars to six decimals, at most a billion")
        return micro
    value = data.get("budget_micro", default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= BUDGET_MICRO_MAX:
        raise PolicyError("budget_micro", value, f"a whole number from 0 to {BUDGET_MICRO_MAX}")
    return value


def _micro_of(usd: object) -> int | None:
    if isinstance(usd, bool) or not isinstance(usd, int | float | str):
        return None
    try:
        # A float goes through its shortest text: 0.1 is meant as 100,000 micro-dollars.
        exact = Decimal(str(usd)).scaleb(6)
        whole = 0 <= exact <= BUDGET_MICRO_MAX and exact == exact.to_integral_value()
    except (ArithmeticError, ValueError):
        return None
    return int(exact) if whole else None
