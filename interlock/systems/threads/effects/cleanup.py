"""Removes a thread's request from its source, because the work is done elsewhere."""

from __future__ import annotations

import asyncio

from interlock import EffectWork, Outcome
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.names import Trigger


async def cleanup(work: EffectWork[ThreadData]) -> Outcome:
    """Remove the request. A repetition with the effect's key changes nothing."""
    sources = await asyncio.to_thread(lambda: work.records.sources)
    answer = await sources.clean_up(work.record.data["inciting"], key=work.key)
    if answer.failed:
        failure = {"code": "cleanup", "detail": answer.detail}
        return Outcome(Trigger.CLEANUP_FAILED, failure, reason=answer.detail)
    payload = {"detail": answer.detail, "already_gone": answer.already_gone}
    return Outcome(Trigger.CLEANUP_SUCCEEDED, payload)
