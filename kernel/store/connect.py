"""Opens the store: standalone, Sentinel or Cluster, by the form of the address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redis import Redis, exceptions
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from kernel.errors import StoreMisconfiguredError
from kernel.store.scripts import Client, store_error

TIMEOUT_S = 5.0
RETRIES = 3
VERSION_MIN = 7
CLUSTER = "redis+cluster"
SENTINEL = "redis+sentinel"


def open_store(url: str, *, connections_max: int = 500) -> Client:
    """Open a client for an address; connections are made when they are needed.

    `redis://`, `rediss://`, `unix://` are redis-py's. `redis+cluster://host:port[,host:port]` is a
    cluster, `redis+sentinel://host:port[,...]/service[/db]` a master found through Sentinel. Every
    wait has a bound; a repeated script is safe because each mutating call carries an op-id.
    """
    parts = urlsplit(url)
    if parts.scheme == CLUSTER:
        nodes = [ClusterNode(host, port) for host, port in _hosts(parts.netloc, url)]
        return RedisCluster(
            startup_nodes=nodes,
            username=parts.username,
            password=parts.password,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            max_connections=connections_max,
        )
    if parts.scheme == SENTINEL:
        return _behind_sentinel(url)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise StoreMisconfiguredError(
            f"{url!r} is no address of a store; use redis://, rediss://, unix://, {SENTINEL}:// or {CLUSTER}://"
        )
    return Redis.from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        socket_keepalive=parts.scheme != "unix" or None,
        health_check_interval=10,
        retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=1.0), RETRIES),
        max_connections=connections_max,
    )


def refuse_unsafe(client: Client) -> None:
    """Raise StoreMisconfiguredError for a store that may silently drop what we rely on."""
    try:
        if isinstance(client, RedisCluster):
            return
        policy = client.info("memory").get("maxmemory_policy", "noeviction")
        version = str(client.info("server").get("redis_version", "0"))
    except exceptions.RedisError as refusal:
        raise store_error(refusal) from refusal
    if policy != "noeviction":
        raise StoreMisconfiguredError(
            f"the store evicts keys (maxmemory-policy {policy}); set maxmemory-policy noeviction"
        )
    if int(version.split(".", maxsplit=1)[0]) < VERSION_MIN:
        raise StoreMisconfiguredError(
            f"the store is version {version}; Interlock needs Redis 7.0 or Valkey 8 or newer"
        )


def _behind_sentinel(url: str) -> Redis:
    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise StoreMisconfiguredError(
            f"{url!r} names no service; use {SENTINEL}://host:port/service"
        )
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    make: Callable[..., Any] = Sentinel
    sentinel = make(
        _hosts(parts.netloc, url),
        sentinel_kwargs={"socket_timeout": TIMEOUT_S, "password": options.get("sentinel_password")},
        socket_timeout=TIMEOUT_S,
        username=parts.username,
        password=parts.password,
        db=int(database or 0),
        retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=1.0), RETRIES),
    )
    master: Redis = sentinel.master_for(service)
    return master


def _hosts(netloc: str, url: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for place in netloc.rpartition("@")[2].split(","):
        host, colon, port = place.rpartition(":")
        if not (colon and port.isdigit()):
            raise StoreMisconfiguredError(f"{place!r} in {url!r} is no host:port")
        found.append((host, int(port)))
    return found
