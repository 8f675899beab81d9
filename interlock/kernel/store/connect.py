"""Opens the store at an address: a single server, Sentinel or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from redis import Redis, exceptions
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.driver_info import DriverInfo
from redis.retry import Retry
from redis.sentinel import Sentinel

from interlock.kernel.errors import StoreDownError, StoreMisconfiguredError
from interlock.kernel.store.scripts import Client, store_error

TIMEOUT_S = 5.0
RETRIES = 3
GREETING_S = 2.0
VERSION_MIN = 7
# What a connection says that it is. Without it redis-py reads its own version from the disk for
# each connection, which takes longer than to connect.
DRIVER = DriverInfo()
CLUSTER = "redis+cluster"
SENTINEL = "redis+sentinel"


def open_store(url: str, *, connections_max: int = 500, patient: bool = True) -> Client:
    """Open a client for an address; connections are made when they are needed.

    `redis://`, `rediss://`, `unix://` are redis-py's. `redis+cluster://host:port[,host:port]` is a
    cluster, `redis+sentinel://host:port[,...]/service[/db]` a master found through Sentinel. Every
    wait has a bound; a repeated script is safe because each mutating call carries an op-id. No
    connection is probed before it is used: a probe has retries of its own, for each of a command's.

    A store that hangs, and so neither answers nor refuses, is given up after TIMEOUT_S, or twice
    that where a kept connection was tried first. With `patient`, a command is sent to it up to
    RETRIES times more. A cluster has tries of its own.
    """
    parts = _parts(url)
    if parts.scheme == CLUSTER:
        node: Callable[..., Any] = ClusterNode
        nodes = [node(host, port) for host, port in _hosts(parts.netloc, url)]
        options: Mapping[str, Any] = _login(parts)
        try:
            return RedisCluster(
                startup_nodes=nodes,
                **options,
                driver_info=DRIVER,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                max_connections=connections_max,
            )
        except (exceptions.RedisError, exceptions.RedisClusterException) as refusal:
            raise StoreDownError(f"no node of {_shown(url)} answers: {refusal}") from refusal
    if parts.scheme == SENTINEL:
        return _behind_sentinel(url, connections_max, patient=patient)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise StoreMisconfiguredError(
            f"{_shown(url)} is no address of a store; "
            f"use redis://, rediss://, unix://, {SENTINEL}:// or {CLUSTER}://"
        )
    try:
        client = Redis.from_url(
            url,
            driver_info=DRIVER,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            # A connection over a file takes no such option.
            **({} if parts.scheme == "unix" else {"socket_keepalive": True}),
            retry=_retry(RETRIES, patient=patient),
            max_connections=connections_max,
        )
        # This opens no connection, but raises now for an unknown option in the address.
        client.connection_pool.make_connection()
    except (TypeError, ValueError) as refusal:
        raise StoreMisconfiguredError(f"{_shown(url)} cannot be used: {refusal}") from None
    return client


def _retry(retries: int, *, patient: bool) -> Retry:
    """Return how a command is repeated whose connection broke, or also one that timed out."""
    backoff = ExponentialWithJitterBackoff(base=0.05, cap=1.0)
    timeouts = (exceptions.TimeoutError, TimeoutError) if patient else ()
    return Retry(backoff, retries, supported_errors=(exceptions.ConnectionError, *timeouts))


def greet(url: str) -> None:
    """Connect to a single server once. Raises StoreError if no store answers in GREETING_S."""
    client = open_store(url)
    if not isinstance(client, Redis) or urlsplit(url).scheme == SENTINEL:
        return
    pool = client.connection_pool
    options = {
        **pool.connection_kwargs,
        "socket_timeout": GREETING_S,
        "socket_connect_timeout": GREETING_S,
        "retry": Retry(NoBackoff(), 0),
    }
    connection = pool.connection_class(**options)
    try:
        connection.connect()
    except exceptions.RedisError as refusal:
        raise store_error(refusal) from refusal
    finally:
        connection.disconnect()


def refuse_unsafe(client: Client) -> None:
    """Raise StoreMisconfiguredError for a store that may silently delete data."""
    try:
        for memory, server in _nodes(client):
            _refuse(memory.get("maxmemory_policy", "noeviction"), str(server["redis_version"]))
    except exceptions.RedisError as refusal:
        raise store_error(refusal) from refusal


def _nodes(client: Client) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the memory and server sections of INFO of each node that takes writes."""
    if isinstance(client, Redis):
        yield client.info("memory"), client.info("server")
        return
    primaries: Callable[[], Any] = client.get_primaries
    for node in primaries():
        yield client.info("memory", target_nodes=node), client.info("server", target_nodes=node)


def _refuse(policy: str, version: str) -> None:
    if policy != "noeviction":
        raise StoreMisconfiguredError(
            f"the store evicts keys (maxmemory-policy {policy}); set maxmemory-policy noeviction"
        )
    if int(version.split(".", maxsplit=1)[0]) < VERSION_MIN:
        raise StoreMisconfiguredError(
            f"the store is version {version}; Interlock needs Redis 7.0 or Valkey 8 or newer"
        )


def _behind_sentinel(url: str, connections_max: int, *, patient: bool) -> Redis:
    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    if not service or not (database or "0").isdigit():
        raise StoreMisconfiguredError(
            f"{_shown(url)} must end with a service, and perhaps a database's number: "
            f"{SENTINEL}://host:port/service/0"
        )
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    watched = {"username": "sentinel_username", "password": "sentinel_password"}
    if unknown := sorted(set(options) - set(watched.values())):
        raise StoreMisconfiguredError(
            f"{_shown(url)}: {unknown[0]} is no option; there are {', '.join(watched.values())}"
        )
    make: Callable[..., Any] = Sentinel
    sentinel = make(
        _hosts(parts.netloc, url),
        sentinel_kwargs={
            "driver_info": DRIVER,
            "socket_timeout": TIMEOUT_S,
            "retry": _retry(1, patient=patient),
            **{name: options.get(option) for name, option in watched.items()},
        },
        driver_info=DRIVER,
        socket_timeout=TIMEOUT_S,
        socket_keepalive=True,
        max_connections=connections_max,
        **_login(parts),
        db=int(database or 0),
        retry=_retry(RETRIES, patient=patient),
    )
    master: Redis = sentinel.master_for(service)
    return master


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as refusal:
        raise StoreMisconfiguredError(f"{_shown(url)} cannot be used: {refusal}") from None


def _login(parts: SplitResult) -> dict[str, str | None]:
    """Return user and password, without the escapes that an address needs."""
    return {
        name: unquote(word) if word else None
        for name, word in (("username", parts.username), ("password", parts.password))
    }


def _shown(url: str) -> str:
    """Return an address without its password, for a message that anybody may read."""
    scheme, _, rest = url.rpartition("://")
    return repr(f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest.rpartition("@")[2])


def _hosts(netloc: str, url: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for place in netloc.rpartition("@")[2].split(","):
        host, colon, port = place.rpartition(":")
        if not (colon and port.isdigit()):
            raise StoreMisconfiguredError(f"{place!r} in {_shown(url)} is no host:port")
        found.append((host, int(port)))
    return found
