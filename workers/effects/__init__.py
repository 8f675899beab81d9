"""The handler of every effect. A new one needs its module here, or no worker starts."""

from __future__ import annotations

from collections.abc import Mapping

from workers.effects.abort import abort
from workers.effects.aftermath import aftermath
from workers.effects.assignment import assignment
from workers.effects.cascade import cascade
from workers.effects.cleanup import cleanup
from workers.effects.execution import execution
from workers.effects.inference import inference
from workers.effects.merge import merge
from workers.effects.reaping import reaping
from workers.effects.recovery import recovery
from workers.effects.resolution import resolution
from workers.effects.spawn import spawn
from workers.effects.verification import verification
from workers.work import Run

HANDLERS: Mapping[str, Run] = {
    "abort": abort,
    "aftermath": aftermath,
    "assignment": assignment,
    "cascade": cascade,
    "cleanup": cleanup,
    "execution": execution,
    "inference": inference,
    "merge": merge,
    "reaping": reaping,
    "recovery": recovery,
    "resolution": resolution,
    "spawn": spawn,
    "verification": verification,
}
