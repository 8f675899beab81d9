"""The error of the kit: what a test asked for that cannot be done."""

from __future__ import annotations

from collections.abc import Iterable


class KitError(AssertionError):
    """A test asks the kit for what is not there. The message says what there is instead."""


def one_of(what: str, name: str, names: Iterable[str]) -> None:
    """Raise KitError, with the names that there are, if a name is none of them."""
    listed = list(names)
    if name not in listed:
        raise KitError(f"there is no {what} {name!r}; there is {', '.join(listed) or 'none'}")
