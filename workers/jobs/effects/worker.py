"""Does a job's work, phase by phase, and says how it went; it decides nothing about the job."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.kernel.machines.jobs.job.changes import finished
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.jobs.attempt import (
    WORKER,
    OverBudgetError,
    Said,
    labour,
    over,
    pause_s,
    stopped,
    took_ms,
)
from interlock.workers.jobs.brief import folder_of
from interlock.workers.jobs.evidence import keep
from interlock.workers.jobs.reply import Action, ReplyError

PAUSES_MAX = 100


async def worker(work: Work) -> Outcome:
    """Run the worker of each phase that is left. All of them done, it only says so again."""
    try:
        folder, short = await asyncio.to_thread(place_of, work)
    except OSError as refusal:
        detail = f"its directory cannot be used: {refusal.strerror}: {refusal.filename}"
        return Outcome("stuck", {"code": "directory", "detail": detail}, reason=detail)
    data = work.record.data
    if short:
        return Outcome("suspend", {"reason": short, "by": WORKER, "code": "disk"}, reason=short)
    if finished(data):
        # It was suspended after its work: what it made is still there.
        return Outcome("agent_completed", {"summary": data.get("summary", "")})
    while True:
        at = int(work.record.data["phase"])
        doer = work.record.data["phases"][at]["worker"]
        began = time.monotonic()
        try:
            said = await labour(work, doer, WORKER, folder)
        except OverBudgetError as refused:
            return await asyncio.to_thread(over, work, refused)
        except asyncio.CancelledError:
            await asyncio.to_thread(stopped, work, began)
            raise
        spent = took(began, said)
        if said.reply.evidence_files:
            outcome = await asyncio.to_thread(told, work, said, folder, spent)
        else:
            outcome = told(work, said, folder, spent)
        last = at + 1 >= len(work.record.data["phases"])
        if outcome.trigger != "agent_completed" or last:
            return outcome
        phase = Outcome("phase_completed", outcome.payload, outcome.deltas, outcome.reason)
        await asyncio.to_thread(work.fire, phase)
        work.raise_if_stopped()


def place_of(work: Work) -> tuple[Path, str]:
    """Return where it keeps what it makes, and why it cannot begin there, or nothing."""
    folder = folder_of(work)
    return folder, short_of_room(work, folder)


def short_of_room(work: Work, folder: Path) -> str:
    """Say that the disk is too full to begin, or nothing: half a result is worse than none."""
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    least_mb = work.dispatch.settings.disk_free_min_mb
    if free_mb >= least_mb:
        return ""
    told = f"{free_mb} MB are free at {folder}, and INTERLOCK_DISK_FREE_MIN_MB is {least_mb}"
    return f"{told}; make room and resume it"


def took(began: float, said: Said) -> dict[str, int]:
    """Return what a run used."""
    return {**said.deltas, "time_ms": took_ms(began)}


def told(work: Work, said: Said, folder: Path, deltas: Mapping[str, int]) -> Outcome:
    """Return the outcome of what a worker said, its evidence kept first."""
    reply = said.reply
    try:
        evidence = keep(folder, reply.evidence_files)
    except ReplyError as refusal:
        detail = f"its reply cannot be taken: {refusal}"
        return Outcome("stuck", {"code": "invalid_reply", "detail": detail}, deltas, detail)
    words: dict[str, Any] = {"summary": reply.summary, "evidence": evidence}
    match reply.action:
        case Action.COMPLETED:
            return Outcome("agent_completed", words, deltas, reply.summary)
        case Action.RETRY if reply.rate_limited and work.record.data.get("pauses", 0) < PAUSES_MAX:
            pause = {"for_s": pause_s(reply), "reason": reply.summary, "by": WORKER}
            return Outcome("pause", pause | {"code": "rate_limit"}, deltas, reply.summary)
        case Action.RETRY:
            after = {"retry_after_s": reply.retry_after_s} if reply.retry_after_s else {}
            return Outcome("retry", {**words, **after}, deltas, reply.summary)
        case Action.STUCK:
            code = {"code": "invalid_reply"} if said.unfit else {}
            return Outcome("stuck", {**words, **code}, deltas, reply.summary)
