"""Lets a job's reviewer look at what was made, and says what it found; it decides nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from interlock.kernel.machines.jobs.job.names import ReviewVerdict
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.jobs.attempt import (
    REVIEWER,
    OverBudgetError,
    Said,
    labour,
    over,
    stopped,
    took_ms,
)
from interlock.workers.jobs.brief import folder_of
from interlock.workers.jobs.evidence import keep
from interlock.workers.jobs.reply import Action, ReplyError, ReviewReply


async def reviewer(work: Work) -> Outcome:
    """Review once. A job without a reviewer goes on to be signed off."""
    doer = work.record.data.get("review")
    if doer is None:
        words = {"verdict": ReviewVerdict.APPROVAL_REQUIRED, "summary": "no reviewer is configured"}
        return Outcome("review_completed", words)
    try:
        folder = await asyncio.to_thread(folder_of, work)
    except OSError as refusal:
        return _intervene([f"its directory cannot be used: {refusal}"], "", {})
    began = time.monotonic()
    try:
        said = await labour(work, doer, REVIEWER, folder)
    except OverBudgetError as refused:
        return await asyncio.to_thread(over, work, refused)
    except asyncio.CancelledError:
        await asyncio.to_thread(stopped, work, began)
        raise
    deltas = {**said.deltas, "time_ms": took_ms(began)}
    return await asyncio.to_thread(told, said, folder, deltas)


def told(said: Said, folder: Path, deltas: Mapping[str, int]) -> Outcome:
    """Return the outcome of what a reviewer said. One that is stuck is a person's matter."""
    reply = cast(ReviewReply, said.reply)
    try:
        evidence = keep(folder, reply.evidence_files)
    except ReplyError as refusal:
        return _intervene([f"the reviewer's reply cannot be taken: {refusal}"], "", deltas)
    words: dict[str, Any] = {"summary": reply.summary, "evidence": evidence}
    match reply.action:
        case Action.RETRY:
            after = {"retry_after_s": reply.retry_after_s} if reply.retry_after_s else {}
            return Outcome("retry", {**words, **after}, deltas, reply.summary)
        case Action.STUCK:
            why = said.unfit or reply.summary or "it gave no reason"
            return _intervene([f"the reviewer is stuck: {why}"], reply.summary, deltas)
        case Action.COMPLETED:
            assert reply.verdict is not None, "a completed review has a verdict"
            words |= {"verdict": ReviewVerdict[reply.verdict], "reasons": reply.reasons}
            return Outcome("review_completed", words, deltas, reply.summary)


def _intervene(reasons: list[str], summary: str, deltas: Mapping[str, int]) -> Outcome:
    words = {"verdict": ReviewVerdict.INTERVENTION_REQUIRED, "reasons": reasons, "summary": summary}
    return Outcome("review_completed", words, deltas, reasons[0])
