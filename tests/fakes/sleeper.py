"""A sleep that takes no time, for the waits between attempts."""

from __future__ import annotations

import asyncio


class Sleeper:
    """Returns at once, and keeps the durations that it was asked to sleep."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Keep the duration, and let other tasks run."""
        self.asked.append(seconds)
        await asyncio.sleep(0)
