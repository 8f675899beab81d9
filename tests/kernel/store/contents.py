"""The contents of every key of a test, in an order that no server changes."""

from __future__ import annotations

from typing import Any

from interlock.kernel.store.scripts import read
from tests.kernel.store.kernel_at_a_fixed_time import World

READS: dict[bytes, tuple[Any, ...]] = {
    b"hash": ("HGETALL",),
    b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    b"stream": ("XRANGE", "-", "+"),
    b"set": ("SMEMBERS",),
    b"list": ("LRANGE", 0, -1),
    b"string": ("GET",),
}


def contents(world: World) -> dict[str, Any]:
    """Return the content of every key."""
    found: dict[str, Any] = {}
    for key in map(bytes.decode, world.dump()):
        word, *more = READS[read(world.client, "TYPE", key)]
        found[key] = read(world.client, word, key, *more)
    return found
