"""The Lua scripts: put together from their files, and called by name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from redis import exceptions
from redis.client import Redis
from redis.cluster import RedisCluster

from interlock.kernel.errors import (
    StoreDeniedError,
    StoreDownError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from interlock.kernel.store.connections import ConnectionCache

Client = Redis | RedisCluster
# The errors of a cluster are no RedisErrors.
FAULTS = (exceptions.RedisError, exceptions.RedisClusterException)
_USE = "--@use"
# How a server answers that wants a password and was given none, or another one than before.
_LOGIN = ("NOAUTH", "WRONGPASS", "HELLO must be called with the client already authenticated")


@cache
def source_of(name: str) -> str:
    """Return a script's text, before it every part that it or one of its parts uses, each once."""
    parts: dict[str, str] = {}
    script = _without_uses(f"{name}.lua", parts)
    return "\n".join([*parts.values(), script])


def _without_uses(path: str, parts: dict[str, str]) -> str:
    """Read a file of Lua, add to `parts` the parts that it names first, and return the rest."""
    lines = (files("interlock.kernel.store") / "lua" / path).read_text("utf-8").splitlines()
    uses = [line for line in lines if line.startswith(_USE)]
    for part in " ".join(uses).split():
        if part != _USE and part not in parts:
            # A part comes after those that it uses: Lua sees only what was defined before.
            parts[part] = _without_uses(f"part/{part}.lua", parts)
    return "\n".join(lines[len(uses) :])


@cache
def sha_of(name: str) -> str:
    """Return the name under which a server keeps a script's text."""
    return hashlib.sha1(source_of(name).encode()).hexdigest()  # noqa: S324 - the server's own name for it


# A cache is dropped together with its client.
_CACHES: WeakKeyDictionary[Redis, ConnectionCache] = WeakKeyDictionary()


def call(client: Client, name: str, keys: list[str], args: list[Any]) -> Any:
    """Run a script. Raises a StoreError that says what the store refused; a repeat is safe."""
    try:
        try:
            return _run(client, sha_of(name), len(keys), *keys, *args)
        except exceptions.NoScriptError:
            return client.eval(source_of(name), len(keys), *keys, *args)
    except FAULTS as refusal:
        raise store_error(refusal) from refusal


def call_all(client: Client, name: str, calls: Sequence[tuple[list[str], list[Any]]]) -> list[Any]:
    """Run a script once for each pair of keys and arguments, in one round trip.

    Raises StoreError. The calls are independent of each other, and a repeat of each must be safe.
    """
    commands = [("EVALSHA", sha_of(name), len(keys), *keys, *args) for keys, args in calls]
    replies = _exchange(client, commands, raise_on_error=False)
    for at, (keys, args) in enumerate(calls):
        if isinstance(replies[at], exceptions.NoScriptError):
            replies[at] = call(client, name, keys, args)
        elif isinstance(replies[at], Exception):
            raise store_error(replies[at]) from replies[at]
    return replies


def _run(client: Client, *arguments: Any) -> Any:
    if isinstance(client, RedisCluster):
        return client.evalsha(*arguments)
    connections = _CACHES.get(client)
    if connections is None:
        connections = _CACHES.setdefault(client, ConnectionCache(client.connection_pool))
    try:
        return connections.exchange("EVALSHA", *arguments)
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        return client.evalsha(*arguments)


def read(client: Client, *arguments: Any) -> Any:
    """Run one reading command. Raises a StoreError."""
    run: Any = client.execute_command  # redis-py leaves it untyped
    try:
        return run(*arguments)
    except FAULTS as refusal:
        raise store_error(refusal) from refusal


def read_all(client: Client, commands: Sequence[Sequence[Any]]) -> list[Any]:
    """Run reading commands in one round trip, and return their replies in order."""
    return _exchange(client, commands, raise_on_error=True)


def _exchange(
    client: Client, commands: Sequence[Sequence[Any]], *, raise_on_error: bool
) -> list[Any]:
    if not commands:
        return []
    pipeline: Any = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    try:
        replies: list[Any] = pipeline.execute(raise_on_error=raise_on_error)
    except FAULTS as refusal:
        raise store_error(refusal) from refusal
    return replies


def store_error(refusal: Exception) -> StoreError:
    """Translate what the client reports into what the caller should do."""
    text = str(refusal)
    if isinstance(refusal, exceptions.OutOfMemoryError) or "OOM" in text:
        return StoreFullError(f"the store is full and refuses to write: {text}")
    busy = (exceptions.ReadOnlyError, exceptions.BusyLoadingError)
    if isinstance(refusal, busy) or text.startswith(("MISCONF", "READONLY", "NOREPLICAS")):
        return StoreReadOnlyError(f"the store refuses to write for now: {text}")
    denied = (exceptions.AuthenticationError, exceptions.NoPermissionError)
    if isinstance(refusal, denied) or text.startswith(_LOGIN):
        return StoreDeniedError(f"the store refuses this password or this user: {text}")
    if isinstance(refusal, exceptions.InvalidResponse):
        return StoreDownError(f"what answers is neither Redis nor Valkey: {text}")
    down = (
        exceptions.ConnectionError,
        exceptions.TimeoutError,
        exceptions.ClusterDownError,
        exceptions.RedisClusterException,
    )
    if isinstance(refusal, down):
        return StoreDownError(f"the store does not answer: {text}")
    return StoreError(f"the store failed: {text}")
