"""What a careless or hostile sender makes of something right."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import reduce
from random import Random
from typing import Any

from hypothesis import strategies as st

ENDS_EARLY = 0.3
DEEP: list[Any] = reduce(lambda inner, _: [inner], range(500), [])
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**53 + 1,
    10**400,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "a/b",
    "\0",
    "\ud800",
    "\u202e\n",
    "x" * 5_000,
    [],
    {},
    [None],
    {"": None},
    {"x": "\ud800"},
    DEEP,
)

# Each example is one way to damage something.
chances = st.integers(0, 2**32).map(Random)


def damaged(value: Any, random: Random) -> Any:
    """Return a copy of a JSON value with one to three odd, missing, doubled or added parts."""
    holder = [copy.deepcopy(value)]
    for _ in range(random.randint(1, 3)):
        places = list(_places(holder))
        if places:
            _damage(*random.choice(places), random)
    return holder[0] if holder else None


def torn(text: bytes, random: Random) -> bytes:
    """Return bytes in which one to three have changed, or that end early."""
    changed = bytearray(text)
    for _ in range(random.randint(1, 3)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    ends = random.randrange(len(changed) + 1) if random.random() < ENDS_EARLY else len(changed)
    return bytes(changed[:ends])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each part of a JSON value, as what holds it and its key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list) and inner is not DEEP:
            yield from _places(inner)


def _damage(place: Any, key: Any, random: Random) -> None:
    odd = random.choice(ODD)
    odd = odd if odd is DEEP else copy.deepcopy(odd)
    match random.randrange(5):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[random.choice(["", "id", "by", "x" * 300, "__proto__", "\ud800"])] = odd
        case 2:
            place[key] = [place[key]]
        case 3:
            place[key] = {"x": place[key]}
        case _:
            place[key] = odd
