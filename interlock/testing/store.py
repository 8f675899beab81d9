"""The store of tests: a server of its own for a session, whose scripts read the time of a kit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import redis

from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.connect import DRIVER
from interlock.kernel.store.format import OF_TESTS
from interlock.kernel.store.keys import Keys
from interlock.testing.said import KitError
from interlock.testing.wire import Wire, WireConnection, twins
from interlock.workers.gateways.server import EmbeddedServer, ServerMissingError, private_socket

DROP = """
local names = redis.call('KEYS', ARGV[1] .. ':*')
for first = 1, #names, 1000 do
  redis.call('UNLINK', unpack(names, first, math.min(first + 999, #names)))
end
return #names
"""


# For each sorted set of KEYS: whether something is due by ARGV[1], and what is due after it.
DUE = """
local is_due, later = 0, {}
for n, key in ipairs(KEYS) do
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= tonumber(ARGV[1]) then
    is_due = 1
    first = redis.call('ZRANGEBYSCORE', key, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  later[n] = first[2] or ''
end
return {is_due, later}
"""


class KitStore:
    """A server that runs for a `with` block, with nothing on disk. Kits share it."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="interlock-test-")
        folder = Path(self._folder.name)
        self.server = EmbeddedServer(
            folder / "store",
            socket=private_socket(folder / "socket"),
            settings={"appendonly": "no"},
        )

    @property
    def url(self) -> str:
        """Return its address. A process that opens it there without a kit is refused."""
        return self.server.url

    def start(self) -> Self:
        """Start the server, and give it the scripts with the kit's clock. Raises ServerError."""
        try:
            self.server.start()
        except ServerMissingError as missing:
            self.stop()
            raise KitError(
                "the kit starts a store of its own, whose server is not installed: "
                "pip install 'interlock[server]'"
            ) from missing
        with redis.Redis.from_url(self.url, driver_info=DRIVER) as client:
            pipeline: Any = client.pipeline(transaction=False)
            for _, _, text in twins().values():
                pipeline.script_load(text)
            pipeline.execute()
        return self

    def stop(self) -> None:
        """End the server, and delete its folder."""
        self.server.stop()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def open(self, wire: Wire) -> redis.Redis:
        """Return a client whose connections are those of a wire."""
        path = self.url.removeprefix("unix://")
        pool = redis.ConnectionPool(
            connection_class=WireConnection, wire=wire, path=path, driver_info=DRIVER
        )
        return redis.Redis(connection_pool=pool)


class KitClock:
    """The time of one kit, in its store. It stands still until the kit sets it."""

    def __init__(self, client: redis.Redis, wire: Wire, keys: Keys) -> None:
        self._client, self._key = client, wire.key
        # Whoever opens the store without the kit's clock finds a format that it must not touch.
        client.hset(keys.meta(0), "format", OF_TESTS)
        self.now_ms = 0
        self.set(time.time_ns() // 1_000_000)

    def set(self, at_ms: int) -> None:
        """Set the time, in milliseconds since 1970."""
        self.now_ms = at_ms
        seconds, rest = divmod(at_ms, 1_000)
        self._client.hset(self._key, mapping={"seconds": seconds, "micros": rest * 1_000})


@dataclass(frozen=True, slots=True)
class Due:
    """Whether something is due now, and when what comes later is, in ms; None: nothing is."""

    now: bool
    effect: int | None
    timer: int | None
    slot: int | None
    limit: int | None  # of a step at work

    @property
    def next(self) -> int | None:
        """When the first of these is due."""
        times = [
            each for each in (self.effect, self.timer, self.slot, self.limit) if each is not None
        ]
        return min(times, default=None)


def due(client: redis.Redis, keys: Keys, now_ms: int, limit_ms: int | None) -> Due:
    """Return what is due in a kit, in one round trip."""
    kinds = (keys.effects, keys.timers, keys.checked_slots)
    names = [kind(partition) for kind in kinds for partition in range(PARTITIONS)]
    answer: Any = client.eval(DUE, len(names), *names, now_ms)
    is_due, later = answer
    effect, timer, slot = [
        min((int(float(at)) for at in later[first : first + PARTITIONS] if at), default=None)
        for first in range(0, len(names), PARTITIONS)
    ]
    return Due(bool(is_due), effect, timer, slot, limit_ms)


def drop(client: redis.Redis, prefix: str) -> None:
    """Delete all keys of a kit, and close its connections."""
    client.eval(DROP, 0, prefix)
    client.close()
