"""The effects of runs, one a file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.runs.effects.codon_cleanup import clearance
from interlock.workers.runs.effects.events import events
from interlock.workers.runs.effects.launch import conductor

HANDLERS: Mapping[str, Handler] = {
    "clearance": clearance,
    "events": events,
    "conductor": conductor,
}
