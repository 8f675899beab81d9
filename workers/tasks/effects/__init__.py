"""The effects of coding tasks, one per file. A new effect needs a line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.tasks.effects.abort import abort
from interlock.workers.tasks.effects.assignment import assignment
from interlock.workers.tasks.effects.follow_up import aftermath
from interlock.workers.tasks.effects.merge import merge
from interlock.workers.tasks.effects.recovery import recovery
from interlock.workers.tasks.effects.turn_cleanup import reaping
from interlock.workers.tasks.effects.verification import verification

HANDLERS: Mapping[str, Handler] = {
    "abort": abort,
    "assignment": assignment,
    "aftermath": aftermath,
    "merge": merge,
    "recovery": recovery,
    "reaping": reaping,
    "verification": verification,
}
