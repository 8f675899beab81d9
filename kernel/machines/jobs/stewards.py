"""Tells who may decide about a job or a graph: its stewards, or everybody if it names none.

Pure.
"""

from __future__ import annotations

from interlock.kernel.table import Ask

STEWARDS_SHOWN_MAX = 5


def steward(ask: Ask) -> bool:
    """Whether one of the record's stewards decides, or the record names none."""
    return not ask.data["stewards"] or ask.payload.get("by") in ask.data["stewards"]


def only_stewards(ask: Ask) -> str:
    """Return a sentence with the names of those who may decide, and how to act as one of them."""
    stewards = ask.data["stewards"]
    more = len(stewards) - STEWARDS_SHOWN_MAX
    others = [f"{more} more"] if more > 0 else []
    names = " or ".join([*stewards[:STEWARDS_SHOWN_MAX], *others])
    return f"only {names} may decide: add --as {stewards[0] if len(stewards) == 1 else 'NAME'}"
