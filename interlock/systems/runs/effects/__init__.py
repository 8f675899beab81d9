"""The effects of runs, one per file. A new effect needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.system.records import Handler
from interlock.systems.runs.effects.codon_cleanup import clean_up_codon
from interlock.systems.runs.effects.events import apply_events
from interlock.systems.runs.effects.launch import launch_run_supervisor

HANDLERS: Mapping[str, Handler] = {
    "codon_cleanup": clean_up_codon,
    "events": apply_events,
    "launch": launch_run_supervisor,
}
