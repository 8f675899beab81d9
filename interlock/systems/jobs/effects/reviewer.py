"""Runs the reviewer of a job, and reports its verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from interlock import EffectWork, Outcome
from interlock.systems.jobs.attempt import (
    REVIEWER,
    AttemptResult,
    LimitReachedError,
    book_stopped_time,
    elapsed_ms,
    run_attempt,
    stop_or_halt,
)
from interlock.systems.jobs.brief import make_job_folder
from interlock.systems.jobs.evidence import keep_evidence
from interlock.systems.jobs.machines.job import following
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import Trigger
from interlock.systems.jobs.machines.job.payloads import ReviewVerdict
from interlock.systems.jobs.reply import ReplyAction, ReplyError, ReviewReply


async def reviewer(work: EffectWork[JobData]) -> Outcome:
    """Review a job once. A job without a reviewer goes on to its sign-off."""
    if passed := following.review(work.record.data):
        return Outcome(Trigger.REVIEW_COMPLETED, dict(passed))
    try:
        folder = await asyncio.to_thread(make_job_folder, work)
    except OSError as refusal:
        return _intervention([f"its directory cannot be used: {refusal}"], "", {})
    began = time.monotonic()
    try:
        result = await run_attempt(work, work.record.data["review"], REVIEWER, folder)
    except LimitReachedError as refused:
        return await asyncio.to_thread(stop_or_halt, work, refused)
    except asyncio.CancelledError:
        await asyncio.to_thread(book_stopped_time, work, began)
        raise
    deltas = {**result.deltas, "time_ms": elapsed_ms(began)}
    return await asyncio.to_thread(outcome_of, result, folder, deltas)


def outcome_of(result: AttemptResult, folder: Path, deltas: Mapping[str, int]) -> Outcome:
    """Keep the evidence of a reviewer's reply, and return the outcome to fire.

    If the reviewer is stuck, a person is asked.
    """
    reply = cast(ReviewReply, result.reply)
    try:
        evidence = keep_evidence(folder, reply.evidence_files)
    except ReplyError as refusal:
        return _intervention([f"the reviewer's reply is invalid: {refusal}"], "", deltas)
    payload: dict[str, Any] = {"summary": reply.summary, "evidence": evidence}
    match reply.action:
        case ReplyAction.RETRY:
            after = {"retry_after_s": reply.retry_after_s} if reply.retry_after_s else {}
            return Outcome(Trigger.RETRY, {**payload, **after}, deltas)
        case ReplyAction.STUCK:
            why = result.invalid or reply.summary or "it gave no reason"
            return _intervention([f"the reviewer is stuck: {why}"], reply.summary, deltas)
        case ReplyAction.COMPLETED:
            assert reply.verdict is not None, "a completed review has a verdict"
            payload |= {"verdict": ReviewVerdict[reply.verdict], "reasons": reply.reasons}
            return Outcome(Trigger.REVIEW_COMPLETED, payload, deltas)


def _intervention(reasons: list[str], summary: str, deltas: Mapping[str, int]) -> Outcome:
    payload = {
        "verdict": ReviewVerdict.INTERVENTION_REQUIRED,
        "reasons": reasons,
        "summary": summary,
    }
    return Outcome(Trigger.REVIEW_COMPLETED, payload, deltas)
