"""Calls a function that the author of a table wrote, and says which one it is if it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from interlock.kernel.amounts import check_deltas
from interlock.kernel.errors import InvalidPayloadError, KernelError, TableFunctionError

Value = TypeVar("Value")
Amount = TypeVar("Amount", int, int | None)


def called(machine: str, name: str, function: Callable[..., Value], *given: Any) -> Value:
    """Call a function of a machine's table. Raises TableFunctionError if it raises."""
    try:
        return function(*given)
    except KernelError:
        raise
    except (Exception, SystemExit) as failure:
        raise TableFunctionError(machine, name, failure) from failure


def as_data(machine: str, name: str, found: Any) -> Mapping[str, Any]:
    """Return what a function found as the data of a record. Raises TableFunctionError."""
    if not isinstance(found, Mapping):
        wrong = TypeError(f"it returned {type(found).__name__}, and data are a mapping")
        raise TableFunctionError(machine, name, wrong)
    return found


def amounts_of(
    machine: str,
    name: str,
    function: Callable[[Any], Mapping[str, Amount]] | None,
    data: Mapping[str, Any],
) -> Mapping[str, Amount]:
    """Return the amounts that a function finds in the data of a record; there may be no function.

    Raises TableFunctionError for what a script cannot count, as that would fail halfway.
    """
    found = called(machine, name, function, data) if function else {}
    try:
        check_deltas({each: amount for each, amount in found.items() if amount is not None})
    except InvalidPayloadError as refusal:
        wrong = TypeError(f"it returned {found!r}, and amounts are whole numbers by their names")
        raise TableFunctionError(machine, name, wrong) from refusal
    return found
