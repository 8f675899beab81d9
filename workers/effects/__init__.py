"""The handler of every effect. A new one needs its module here, or no worker starts."""

from __future__ import annotations

from collections.abc import Mapping

from workers.effects.cascade import cascade
from workers.effects.cleanup import cleanup
from workers.effects.execution import execution
from workers.effects.inference import inference
from workers.effects.resolution import resolution
from workers.effects.spawn import spawn
from workers.work import Run

HANDLERS: Mapping[str, Run] = {
    "cascade": cascade,
    "cleanup": cleanup,
    "execution": execution,
    "inference": inference,
    "resolution": resolution,
    "spawn": spawn,
}
