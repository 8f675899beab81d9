"""The effects of coding tasks, one per file. A new effect needs a line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.system.records import Handler
from interlock.systems.tasks.effects.abort import abort
from interlock.systems.tasks.effects.assignment import assignment
from interlock.systems.tasks.effects.follow_up import follow_up
from interlock.systems.tasks.effects.merge import merge
from interlock.systems.tasks.effects.recovery import recovery
from interlock.systems.tasks.effects.turn_cleanup import turn_cleanup
from interlock.systems.tasks.effects.verification import verification

HANDLERS: Mapping[str, Handler] = {
    "abort": abort,
    "assignment": assignment,
    "follow_up": follow_up,
    "merge": merge,
    "recovery": recovery,
    "turn_cleanup": turn_cleanup,
    "verification": verification,
}
