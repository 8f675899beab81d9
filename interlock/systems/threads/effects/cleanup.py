"""Removes a thread's request from its source, because the work is done elsewhere."""

from __future__ import annotations

from interlock import EffectWork, Outcome
from interlock.system.models import CleanedUp, open_sources


async def cleanup(work: EffectWork) -> Outcome:
    """Remove the request. A repetition with the effect's key changes nothing."""
    sources = work.resources.get(open_sources)
    answer = await sources.clean_up(work.record.data["inciting"], key=work.key)
    if isinstance(answer, CleanedUp):
        payload = {"detail": answer.detail, "already_gone": answer.already_gone}
        return Outcome("cleanup_succeeded", payload)
    return Outcome(
        "cleanup_failed", {"code": "cleanup", "detail": answer.detail}, reason=answer.detail
    )
