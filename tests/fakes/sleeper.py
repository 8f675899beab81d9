"""A sleep that takes no time, for the waits between attempts."""

from __future__ import annotations

import asyncio


class Sleeper:
    """Sleeps no time, and remembers how long it was asked to."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Remember; let others run."""
        self.asked.append(seconds)
        await asyncio.sleep(0)
