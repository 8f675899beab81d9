"""Measures 10,000 listeners of one process of the API: its memory, its idle time, and delivery."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.http import serving
from bench.server import BenchServer
from interlock.workers.api.followers import LISTENERS_MAX, LISTENERS_OF_ONE_MAX
from interlock.workers.client import Client

AT_ONCE = 100  # connections that are opened at the same time
IDLE_S = 20.0
WITHIN_S = 60.0
PAYLOAD = {"inciting": {"source": "bench", "title": "Call the bank"}, "hold": True}
EVENT = b"event: "


class Listening(asyncio.Protocol):
    """One listener: when it got the first bytes, and the last event or note."""

    def __init__(self, request: bytes) -> None:
        self.request, self.begun, self.event_at = request, asyncio.Event(), 0.0

    def connection_made(self, transport: Any) -> None:
        """Ask for the stream."""
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Note what came, and when."""
        self.begun.set()
        if EVENT in data:
            self.event_at = time.monotonic()


def measure(server: BenchServer) -> dict[str, Any]:
    """Let as many listen as may, to all events and then to one record."""
    server.client.flushall()
    client = Client(server.settings())
    client.submit(PAYLOAD, machine="thread", id="one")

    def commit() -> None:
        client.submit(PAYLOAD, machine="thread", id="two")

    def note() -> None:
        client.pause("one")

    return {
        "listeners": {
            "number": LISTENERS_MAX,
            "all_events": asyncio.run(_listen(server, "/v1/events", commit)),
            "one_record": asyncio.run(_listen(server, "/v1/records/one:events", note)),
        }
    }


async def _listen(server: BenchServer, path: str, act: Callable[[], None]) -> dict[str, Any]:
    with serving(server) as (url, pid):
        before_kb, began = _resident_kb(pid), time.monotonic()
        listeners = await _open(url, path)
        opened_s = time.monotonic() - began
        # What each of them reads at first is no part of the idle time.
        await asyncio.sleep(WITHIN_S / 4)
        memory_kb, cpu_s = _resident_kb(pid) - before_kb, _cpu_s(pid)
        await asyncio.sleep(IDLE_S)
        idle_share = (_cpu_s(pid) - cpu_s) / IDLE_S
        cpu_s, acted = _cpu_s(pid), time.monotonic()
        await asyncio.to_thread(act)
        while any(one.event_at < acted for one in listeners):
            if time.monotonic() > acted + WITHIN_S:
                raise RuntimeError("some listeners got no event")
            await asyncio.sleep(0.05)
        took = sorted(one.event_at - acted for one in listeners)
        return {
            "opened_s": round(opened_s, 1),
            "kb_each": round(memory_kb / len(listeners), 1),
            "idle_share": round(idle_share, 3),
            "event_s": {"first": round(took[0], 2), "last": round(took[-1], 2)},
            "event_cpu_s": round(_cpu_s(pid) - cpu_s, 2),
        }


async def _open(url: str, path: str) -> list[Listening]:
    """Open all connections, and wait until each has begun to get its stream."""
    loop, address = asyncio.get_running_loop(), urlsplit(url).netloc
    host, _, port = address.partition(":")
    room = asyncio.Semaphore(AT_ONCE)

    async def listen(number: int) -> Listening:
        name = f"listener-{number // LISTENERS_OF_ONE_MAX}"
        head = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nX-Interlock-Actor: {name}\r\n\r\n"
        async with room:
            _, one = await loop.create_connection(lambda: Listening(head.encode()), host, int(port))
            await one.begun.wait()
            return one

    return list(await asyncio.gather(*(listen(number) for number in range(LISTENERS_MAX))))


def _resident_kb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
