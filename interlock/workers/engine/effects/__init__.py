"""The effects that every system has, one per file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.effects.awaiting import awaiting
from interlock.workers.engine.effects.cascade import cascade
from interlock.workers.engine.effects.notification import notification
from interlock.workers.engine.effects.resolution import resolution
from interlock.workers.engine.effects.spawn import spawn
from interlock.workers.engine.work import Handler

HANDLERS: Mapping[str, Handler] = {
    "awaiting": awaiting,
    "cascade": cascade,
    "notification": notification,
    "resolution": resolution,
    "spawn": spawn,
}
