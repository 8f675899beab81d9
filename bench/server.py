"""The store of a measurement: a server of its own, configured like a deployment's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from redis import Redis

from bench.app import open_dispatch
from bench.machine import CHAIN
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.codec import nonce_of
from interlock.workers.config import Settings
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.server import EmbeddedServer

# Without this a rewrite of the append-only file could slow down one side and not the other.
SERVER_SETTINGS = {"auto-aof-rewrite-percentage": "0"}
CAUSE = Cause("bench")


@dataclass(frozen=True, slots=True)
class BenchServer:
    """A running server and a client of it."""

    url: str
    client: Redis

    def settings(self, **options: Any) -> Settings:
        """Return the settings of Interlock's side: the defaults, without the events for Flower."""
        defaults: dict[str, Any] = {"store_url": self.url, "task_events": False, "concurrency": 1}
        return Settings.model_validate({**defaults, **options})

    def dispatch(self, **options: Any) -> Dispatch:
        """Return a dispatch as a producer uses it."""
        return open_dispatch(self.settings(**options))

    def memory(self) -> int:
        """Return the bytes of memory that the server uses."""
        return int(self.client.info("memory")["used_memory"])

    def cpu_s(self) -> float:
        """Return the processor time that the server has used."""
        used = self.client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def now_ms(self) -> int:
        """Return the server's time."""
        seconds, micros = self.client.time()
        return int(seconds) * 1_000 + int(micros) // 1_000


def environment_of(settings: Settings) -> dict[str, str]:
    """Return settings as the environment variables of a worker."""
    return {
        f"INTERLOCK_{name.upper()}": str(getattr(settings, name))
        for name in settings.model_fields_set
    }


def create_records(dispatch: Dispatch, count: int) -> list[Record]:
    """Create records of the measured machine. The first effect of each is due and published."""
    fired_calls = (
        dispatch.lifecycle.create(CHAIN.name, f"ch-{uuid4().hex[:10]}", {}, CAUSE)
        for _ in range(count)
    )
    return [fired.record for fired in fired_calls if fired.record is not None]


def first_key(record: Record) -> str:
    """Return the id of the effect that a record was created with."""
    return f"{record.id}:1.0:{nonce_of(record.id)}"


@contextmanager
def open_server() -> Iterator[BenchServer]:
    """Run an empty server for the duration of the block."""
    with TemporaryDirectory(prefix="interlock-bench-") as folder:
        server = EmbeddedServer(Path(folder), settings=SERVER_SETTINGS)
        # A store that is given a million records may hold an answer back until its disk follows.
        with server, Redis.from_url(server.url, socket_timeout=60) as client:
            yield BenchServer(server.url, client)
