"""Amounts of what is counted, by name: whole numbers, and money in millionths of a dollar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from interlock.kernel.errors import InvalidPayloadError

MONEY = "spent"  # the counter of money
MICRO = 1_000_000  # of them are a dollar
TEN_CENTS = 0.1
DELTA_MAX = 2**53  # the largest number that a script counts exactly


def amounts(usd: float | Decimal | None = None, **counted: int | None) -> dict[str, int]:
    """Return amounts by the names under which they are counted; None is none.

    Money is given in dollars as `usd`, and is counted as `spent`, in millionths of a dollar. All
    other names are free, and count whole numbers: `amounts(usd=0.25, tokens=1_000)`. Raises
    InvalidPayloadError for what cannot be counted.
    """
    found = {name: amount for name, amount in counted.items() if amount is not None}
    if usd is not None:
        try:
            found[MONEY] = found.get(MONEY, 0) + round(usd * MICRO)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InvalidPayloadError("the amounts", [f"usd is no money: {usd!r}"]) from error
    check_deltas(found)
    if less := [f"{name} is {amount}" for name, amount in found.items() if amount < 0]:
        raise InvalidPayloadError("the amounts", [f"{each}, less than nothing" for each in less])
    return found


def check_deltas(deltas: Mapping[str, int]) -> None:
    """Refuse deltas that a script cannot count exactly, or whose name it cannot keep apart."""
    bad = [name for name, n in deltas.items() if type(n) is not int or abs(n) > DELTA_MAX]
    if bad:
        raise InvalidPayloadError("the deltas", [f"{name} is no integer to count" for name in bad])
    if bad := [name for name in deltas if not name.isidentifier()]:
        problems = [f"{name!r} is no name: take letters, digits and _" for name in bad]
        raise InvalidPayloadError("the deltas", problems)


def summed(each: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of deltas, by name."""
    total: dict[str, int] = {}
    for deltas in each:
        for name, amount in deltas.items():
            total[name] = total.get(name, 0) + amount
    return total


def dollars(micro: float) -> str:
    """Return millionths of a dollar as dollars with cents; below ten cents with two digits.

    So 12,000 are $0.012, and 1,234,000 are $1.23. What is given back has a minus: -$0.50.
    """
    amount = abs(micro) / MICRO
    cents, fine = f"{amount:.2f}", f"{Decimal(f'{amount:.1e}'):f}"
    shown = fine if amount < TEN_CENTS and Decimal(fine) != Decimal(cents) else cents
    return f"-${shown}" if micro < 0 else f"${shown}"


def amount_text(name: str, amount: int) -> str:
    """Return an amount of what is counted by this name: "1,200 tokens", or money in dollars."""
    return dollars(amount) if name == MONEY else f"{amount:,} {name}"


def share_text(name: str, part: int, whole: int) -> str:
    """Return a part of an amount: "40 of 1,000 tokens", or "$0.04 of $1.00"."""
    shown = dollars(part) if name == MONEY else f"{part:,}"
    return f"{shown} of {amount_text(name, whole)}"
