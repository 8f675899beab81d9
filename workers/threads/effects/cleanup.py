"""Tidies up the source of a matter whose work is done elsewhere; it runs no action."""

from __future__ import annotations

from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.sources import CleanedUp


async def cleanup(work: Work) -> Outcome:
    """Ask the source's adapter, under the effect's key."""
    answer = await work.resources.sources.clean_up(work.record.data["inciting"], key=work.key)
    if isinstance(answer, CleanedUp):
        gone = {"detail": answer.detail, "already_gone": answer.already_gone}
        return Outcome("cleanup_succeeded", gone)
    return Outcome(
        "cleanup_failed", {"code": "cleanup", "detail": answer.detail}, reason=answer.detail
    )
