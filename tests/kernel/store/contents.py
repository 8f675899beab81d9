"""The contents of every key of a test, in an order that no server changes."""

from __future__ import annotations

from typing import Any

from interlock.kernel.store.scripts import Client, read
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
    return {key: content(world.client, key) for key in map(bytes.decode, world.dump())}


def content(client: Client, key: str) -> Any:
    """Return the content of a key."""
    word, *more = READS[read(client, "TYPE", key)]
    return read(client, word, key, *more)


def stored(world: World) -> dict[str, Any]:
    """Return the content of every key as text, by the key without its prefix and partition."""
    return {key.rpartition("}:")[2]: _as_text(value) for key, value in contents(world).items()}


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_as_text(name): _as_text(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_as_text(one) for one in value]
    return value
