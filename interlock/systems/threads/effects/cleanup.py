"""Removes a thread's request from its source, because the work is done elsewhere."""

from __future__ import annotations

from interlock import EffectWork, Outcome
from interlock.system.models import CleanedUp, open_sources
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.names import Trigger


async def cleanup(work: EffectWork[ThreadData]) -> Outcome:
    """Remove the request. A repetition with the effect's key changes nothing."""
    sources = work.resources.get(open_sources)
    answer = await sources.clean_up(work.record.data["inciting"], key=work.key)
    if isinstance(answer, CleanedUp):
        payload = {"detail": answer.detail, "already_gone": answer.already_gone}
        return Outcome(Trigger.CLEANUP_SUCCEEDED, payload)
    payload = {"code": "cleanup", "detail": answer.detail}
    return Outcome(Trigger.CLEANUP_FAILED, payload, reason=answer.detail)
