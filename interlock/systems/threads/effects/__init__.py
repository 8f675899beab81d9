"""The effects of threads, one a file. A new effect needs a line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.system.records import Handler
from interlock.systems.threads.effects.cleanup import cleanup
from interlock.systems.threads.effects.execution import execution
from interlock.systems.threads.effects.inference import inference

HANDLERS: Mapping[str, Handler] = {
    "cleanup": cleanup,
    "execution": execution,
    "inference": inference,
}
