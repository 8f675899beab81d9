"""Where a measurement happens: a server of our own, as a deployment's, and a door to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from redis import Redis

from bench.app import door
from bench.machine import CHAIN
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.codec import nonce_of
from interlock.kernel.store.commands import Call
from interlock.workers.config import Settings
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.server import EmbeddedServer

# A rewrite of the file in the middle of a round would hit one side and not the other.
SERVER = {"auto-aof-rewrite-percentage": "0"}
CAUSE = Cause("bench")


@dataclass(frozen=True, slots=True)
class Place:
    """A server and how to reach it."""

    url: str
    client: Redis

    def settings(self, **given: Any) -> Settings:
        """Return the settings of our side: the product's, without the events that Flower reads."""
        chosen: dict[str, Any] = {"store_url": self.url, "task_events": False, "concurrency": 1}
        return Settings.model_validate({**chosen, **given})

    def door(self, **given: Any) -> Dispatch:
        """Return a producer's way in."""
        return door(self.settings(**given))

    def memory(self) -> int:
        """Return what the server has in use."""
        return int(self.client.info("memory")["used_memory"])

    def cpu_s(self) -> float:
        """Return the processor time that the server has had."""
        used = self.client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def now_ms(self) -> int:
        """Return the server's time."""
        seconds, micros = self.client.time()
        return int(seconds) * 1_000 + int(micros) // 1_000


def environment_of(settings: Settings) -> dict[str, str]:
    """Return settings as the variables of a worker."""
    return {
        f"INTERLOCK_{name.upper()}": str(getattr(settings, name))
        for name in settings.model_fields_set
    }


def born(dispatch: Dispatch, count: int) -> list[Record]:
    """Create records of the measured machine; their first effect is owed and published."""
    made = (
        dispatch.create(CHAIN.name, f"ch-{uuid4().hex[:10]}", {}, Call(CAUSE)) for _ in range(count)
    )
    return [fired.record for fired in made if fired.record is not None]


def first_key(record: Record) -> str:
    """Return the id of the effect that a record was born with."""
    return f"{record.id}:1.0:{nonce_of(record.id)}"


@contextmanager
def open_place() -> Iterator[Place]:
    """Start a server with nothing in it, for as long as the block."""
    with TemporaryDirectory(prefix="interlock-bench-") as folder:
        server = EmbeddedServer(Path(folder), settings=SERVER)
        with server, Redis.from_url(server.url) as client:
            yield Place(server.url, client)
