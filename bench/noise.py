"""Says how far a measurement can be trusted: what else ran, and how far rounds lay apart."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

STAT = Path("/proc/stat")
IDLE, WAITS = 3, 4  # positions in its first line, after the name
LOOK_S = 1.0
BUSY_MAX, SPREAD_MAX = 0.1, 0.2


def busy_share() -> float:
    """Return which share of all processors is used now, while nothing is measured yet."""
    idle_before, all_before = _ticks()
    time.sleep(LOOK_S)
    idle_after, all_after = _ticks()
    return round(1 - (idle_after - idle_before) / max(1, all_after - all_before), 2)


def _ticks() -> tuple[int, int]:
    if not STAT.exists():  # not Linux: the load of the last minute stands for it
        used = int(100 * min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * time.monotonic())
        return int(100 * time.monotonic()) - used, int(100 * time.monotonic())
    ticks = [int(word) for word in STAT.read_text().split("\n", 1)[0].split()[1:]]
    return ticks[IDLE] + ticks[WAITS], sum(ticks)


def spreads(found: Mapping[str, Any]) -> dict[str, float]:
    """Return, for each side of the rounds in a part's figures, how far its rounds lie apart.

    Half of the rounds lie in that range around the median, as a share of the median.
    """
    return {
        name: round((rates[-1 - len(rates) // 4] - rates[len(rates) // 4]) / median(rates), 2)
        for name, rates in _series(found)
        if len(rates) > 1
    }


def _series(found: Mapping[str, Any]) -> Iterator[tuple[str, list[float]]]:
    for key, value in found.items():
        if key.endswith("rounds"):
            groups = value if isinstance(value, dict) else {"": value}
            for group, rounds in groups.items():
                for side in rounds[0]:
                    yield f"{side} {group}".strip(), sorted(one[side] for one in rounds)


def noisy(noise: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence about each part whose figures were disturbed."""
    for part, one in noise.items():
        if one["busy"] > BUSY_MAX:
            yield f"{part}: other programs used {one['busy']:.0%} of the processors before it began"
        for side, share in one["spread"].items():
            if share > SPREAD_MAX:
                yield f"{part}: half of the rounds of {side} lie in a range of {share:.0%}"
