"""The test kit of workflows: their steps run in the test's own process, in a time of its own.

Nothing is imported before a name is used, because pytest loads this package in every project.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from typing import Any

    from interlock.testing.exploring import explore
    from interlock.testing.findings import FoundError
    from interlock.testing.kit import Kit
    from interlock.testing.said import KitError
    from interlock.testing.stateful import state_machine

__all__ = ["FoundError", "Kit", "KitError", "explore", "state_machine"]

_MODULES = {
    "FoundError": "findings",
    "Kit": "kit",
    "KitError": "said",
    "explore": "exploring",
    "state_machine": "stateful",
}


def __getattr__(name: str) -> Any:
    """Return a public name. Raises AttributeError for any other."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
