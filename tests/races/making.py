"""The effect of parts: each is made, but one that is weak breaks."""

from __future__ import annotations

from interlock.workers.engine.work import EffectWork, Outcome


def make(work: EffectWork) -> Outcome:
    """Make a part, unless it is weak."""
    return Outcome("break" if work.record.data["part"] == "weak" else "made")


HANDLERS = {"make": make}
