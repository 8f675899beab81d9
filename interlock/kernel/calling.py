"""Calls a function that the author of a table wrote, and says which one it is if it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from interlock.kernel.errors import KernelError, TableFunctionError

Value = TypeVar("Value")


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
