"""The Lua scripts: put together from their files, and called by name."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from time import CLOCK_MONOTONIC, clock_gettime, perf_counter
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
from interlock.kernel.store.call_times import BATCH, NAMED_SCRIPTS, READ, SCRIPT, CallTimes
from interlock.kernel.store.connections import ConnectionCache
from interlock.kernel.store.script_layout import NamedKeys, ScriptLayout, layout_in

Client = Redis | RedisCluster
# The errors of a cluster are no RedisErrors.
FAULTS = (exceptions.RedisError, exceptions.RedisClusterException)
_USE = "--@use"
GUARD_S = 2.0  # a client runs scripts for so long after a check that they may be run
# It also runs while the computer sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", CLOCK_MONOTONIC)
# How a server answers that wants a password and was given none, or another one than before.
_LOGIN = ("NOAUTH", "WRONGPASS", "HELLO must be called with the client already authenticated")


@cache
def source_of(name: str) -> str:
    """Return a script's text, before it every part that it or one of its parts uses, each once.

    Between them are the variables that the script has by its layout.
    """
    parts: dict[str, str] = {}
    script = _without_uses(f"{name}.lua", parts)
    return "\n".join([*parts.values(), layout_in(script).prologue, script])


@cache
def layout_of(name: str) -> ScriptLayout:
    """Return the layout of a script."""
    return layout_in(_without_uses(f"{name}.lua", {}))


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


@dataclass(slots=True)
class _Guard:
    """A check that may refuse the scripts of a client, and when it has passed last."""

    check: Callable[[Client], None]
    passed_s: float

    def refuse(self, client: Client) -> None:
        """Raise what the check raises; it is made again only after GUARD_S in which it passes."""
        began_s = clock_gettime(_CLOCK)
        if began_s - self.passed_s >= GUARD_S:
            self.check(client)
            self.passed_s = began_s


@dataclass(slots=True)
class _ClientState:
    """What is kept for a client: its connections, unless it is a cluster's, and what it counts."""

    connections: ConnectionCache | None = None
    times: CallTimes | None = None
    guard: _Guard | None = None


# A state is dropped together with its client.
_STATES: WeakKeyDictionary[Client, _ClientState] = WeakKeyDictionary()


def count_call_times(client: Client, times: CallTimes) -> None:
    """Count the times of all calls by this client from now on, and add them to the store's."""
    _state_of(client).times = times


def guard(client: Client, check: Callable[[Client], None]) -> None:
    """Run no script by a client from now on unless `check` has passed in the last GUARD_S."""
    _state_of(client).guard = _Guard(check, clock_gettime(_CLOCK))


def call(client: Client, name: str, keys: NamedKeys, plan: Mapping[str, Any]) -> Any:
    """Run a script with keys and arguments by the names in its comment; a repeat is safe.

    Raises a StoreError that says what the store refused, KeyError for a name that does not fit.
    """
    names, args = layout_of(name).arranged(keys, plan)

    def run() -> Any:
        try:
            return _send(client, ("EVALSHA", sha_of(name), len(names), *names, *args))
        except exceptions.NoScriptError:
            return client.eval(source_of(name), len(names), *names, *args)

    state = _state_of(client)
    if state.guard is not None:
        state.guard.refuse(client)
    return _answer(client, state.times, name if name in NAMED_SCRIPTS else SCRIPT, run)


def call_all(
    client: Client, name: str, calls: Sequence[tuple[NamedKeys, Mapping[str, Any]]]
) -> list[Any]:
    """Run a script once for each pair of keys and arguments, in one round trip.

    Raises as `call`. The calls are independent of each other, and a repeat of each must be safe.
    """
    if (guarded := _state_of(client).guard) is not None:
        guarded.refuse(client)
    arranged = [layout_of(name).arranged(keys, plan) for keys, plan in calls]
    commands = [("EVALSHA", sha_of(name), len(names), *names, *args) for names, args in arranged]
    replies = _exchange(client, commands, raise_on_error=False)
    for at, (keys, plan) in enumerate(calls):
        if isinstance(replies[at], exceptions.NoScriptError):
            replies[at] = call(client, name, keys, plan)
        elif isinstance(replies[at], Exception):
            raise store_error(replies[at]) from replies[at]
    return replies


def _state_of(client: Client) -> _ClientState:
    found = _STATES.get(client)
    if found is None:
        made = _ClientState()
        if not isinstance(client, RedisCluster):
            made.connections = ConnectionCache(client.connection_pool)
        found = _STATES.setdefault(client, made)
    return found


def read(client: Client, *arguments: Any) -> Any:
    """Run one reading command. Raises a StoreError."""
    return _answer(client, _state_of(client).times, READ, lambda: _send(client, arguments))


def read_all(client: Client, commands: Sequence[Sequence[Any]]) -> list[Any]:
    """Run reading commands in one round trip, and return their replies in order.

    Raises a StoreError if one of them is refused.
    """
    replies = _exchange(client, commands, raise_on_error=True)
    for reply in replies:
        if isinstance(reply, Exception):
            raise store_error(reply) from reply
    return replies


def _exchange(
    client: Client, commands: Sequence[Sequence[Any]], *, raise_on_error: bool
) -> list[Any]:
    if not commands:
        return []
    send = partial(_send_all, client, commands, raise_on_error=raise_on_error)
    replies: list[Any] = _answer(client, _state_of(client).times, BATCH, send)
    return replies


def _send(client: Client, command: Sequence[Any]) -> Any:
    """Send one command, and return its reply."""
    sent = _send_by_cache(client, [command])
    if sent is None:
        execute: Any = client.execute_command  # redis-py leaves it untyped
        return execute(*command)
    if isinstance(sent[0], Exception):
        # A variable, the refusal and its traceback would form a cycle that keeps the client alive.
        raise sent.pop()
    return sent[0]


def _send_all(
    client: Client, commands: Sequence[Sequence[Any]], *, raise_on_error: bool
) -> list[Any]:
    """Send commands in one round trip, and return the reply or the refusal of each, in order.

    With `raise_on_error` a cluster's client repeats them after a refusal, and raises the last one.
    """
    sent = _send_by_cache(client, commands)
    if sent is not None:
        return sent
    pipeline: Any = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    replies: list[Any] = pipeline.execute(raise_on_error=raise_on_error)
    return replies


def _send_by_cache(client: Client, commands: Sequence[Sequence[Any]]) -> list[Any] | None:
    """Send commands on a kept connection; return None for a cluster, or if the connection fails.

    The client then sends them itself, as often as it may.
    """
    connections = _state_of(client).connections
    return None if connections is None else connections.exchange(client, commands)


def _answer(client: Client, times: CallTimes | None, kind: str, ask: Callable[[], Any]) -> Any:
    """Return what the store answers, and count how long that took. Raises StoreError."""
    began_s = perf_counter()
    try:
        reply = ask()
    except FAULTS as refusal:
        if times is not None:
            times.count(kind, began_s, perf_counter())
        raise store_error(refusal) from refusal
    # Counts are added only after an answer: nobody waits for a store that hangs for their sake.
    if times is not None and times.count(kind, began_s, perf_counter()):
        commands = times.taken()
        with suppress(*FAULTS):
            answers = zip(commands, _send_all(client, commands, raise_on_error=False), strict=True)
            times.keep(command for command, answer in answers if isinstance(answer, Exception))
    return reply


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
