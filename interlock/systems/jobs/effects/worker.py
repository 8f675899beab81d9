"""Runs the worker of a job, phase by phase, and reports what each phase came to."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import EffectWork, Outcome
from interlock.systems.jobs.attempt import (
    WORKER,
    AttemptResult,
    LimitReachedError,
    book_stopped_time,
    elapsed_ms,
    rate_limit_pause_s,
    run_attempt,
    stop_or_halt,
)
from interlock.systems.jobs.brief import make_job_folder
from interlock.systems.jobs.evidence import keep_evidence
from interlock.systems.jobs.machines.job.changes import finished
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import Trigger
from interlock.systems.jobs.reply import ReplyAction, ReplyError
from interlock.systems.jobs.settings import JobSettings

PAUSES_MAX = 100  # pauses of one job for rate limits; then another one counts as a try


async def worker(work: EffectWork[JobData]) -> Outcome:
    """Run the workers of the remaining phases. If all are done, report that again."""
    try:
        folder, lack = await asyncio.to_thread(open_folder, work)
    except OSError as refusal:
        detail = f"its directory cannot be used: {refusal.strerror}: {refusal.filename}"
        return Outcome(Trigger.STUCK, {"code": "directory", "detail": detail})
    data = work.record.data
    if lack:
        return Outcome(Trigger.SUSPEND, {"reason": lack, "by": WORKER, "code": "disk"})
    if finished(data):
        # The job was suspended after its work was done, and the results are still there.
        return Outcome(Trigger.AGENT_COMPLETED, {"summary": data.get("summary", "")})
    while True:
        index = work.record.data["phase"]
        executor = work.record.data["phases"][index]["worker"]
        began = time.monotonic()
        try:
            result = await run_attempt(work, executor, WORKER, folder)
        except LimitReachedError as refused:
            return await asyncio.to_thread(stop_or_halt, work, refused)
        except asyncio.CancelledError:
            await asyncio.to_thread(book_stopped_time, work, began)
            raise
        deltas = {**result.deltas, "time_ms": elapsed_ms(began)}
        if result.reply.evidence_files:
            outcome = await asyncio.to_thread(outcome_of, work, result, folder, deltas)
        else:
            outcome = outcome_of(work, result, folder, deltas)
        last = index + 1 >= len(work.record.data["phases"])
        if outcome.trigger != Trigger.AGENT_COMPLETED or last:
            return outcome
        phase = Outcome(Trigger.PHASE_COMPLETED, outcome.payload, outcome.deltas)
        await asyncio.to_thread(work.fire, phase)
        work.raise_if_stopped()


def open_folder(work: EffectWork[JobData]) -> tuple[Path, str]:
    """Return the job's directory, and why the disk is too full to begin, or ''."""
    folder = make_job_folder(work)
    return folder, lack_of_disk_space(work, folder)


def lack_of_disk_space(work: EffectWork[JobData], folder: Path) -> str:
    """Return why the disk is too full to begin, or ''; a full disk could cut a result in half."""
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    minimum_mb = work.records.settings.of(JobSettings).disk_free_min_mb
    if free_mb >= minimum_mb:
        return ""
    lack = f"{free_mb} MB are free at {folder}, and INTERLOCK_DISK_FREE_MIN_MB is {minimum_mb}"
    return f"{lack}; make room and resume it"


def outcome_of(
    work: EffectWork[JobData], result: AttemptResult, folder: Path, deltas: Mapping[str, int]
) -> Outcome:
    """Keep the evidence of a worker's reply, and return the outcome to fire."""
    reply = result.reply
    try:
        evidence = keep_evidence(folder, reply.evidence_files)
    except ReplyError as refusal:
        detail = f"its reply is invalid: {refusal}"
        return Outcome(Trigger.STUCK, {"code": "invalid_reply", "detail": detail}, deltas)
    payload: dict[str, Any] = {"summary": reply.summary, "evidence": evidence}
    pauses_left = work.record.data.get("pauses", 0) < PAUSES_MAX
    match reply.action:
        case ReplyAction.COMPLETED:
            return Outcome(Trigger.AGENT_COMPLETED, payload, deltas)
        case ReplyAction.RETRY if reply.rate_limited and pauses_left:
            pause = {"for_s": rate_limit_pause_s(reply), "reason": reply.summary, "by": WORKER}
            return Outcome(Trigger.PAUSE, pause | {"code": "rate_limit"}, deltas)
        case ReplyAction.RETRY:
            after = {"retry_after_s": reply.retry_after_s} if reply.retry_after_s else {}
            return Outcome(Trigger.RETRY, {**payload, **after}, deltas)
        case ReplyAction.STUCK:
            code = {"code": "invalid_reply"} if result.invalid else {}
            return Outcome(Trigger.STUCK, {**payload, **code}, deltas)
