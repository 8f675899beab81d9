"""Finds the work of a task's current claim, and checks a folder against the task's signals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from interlock import Settings
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree, worktree_and_tip
from interlock.system.agents import (
    Sandbox,
)
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.tasks.claim_names import claim_names
from interlock.systems.tasks.claim_sandbox import check_sandbox
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.tasks.verification.check import check
from interlock.systems.tasks.verification.evidence import task_text
from interlock.systems.tasks.verification.judge_model import InquiryKind
from interlock.systems.tasks.verification.model_inquiries import ModelInquiries
from interlock.systems.tasks.verification.model_verdict import AskModel
from interlock.systems.tasks.verification.signals import (
    MODEL_SIGNALS,
    CompletionVerdict,
    ParsedSignal,
)

RESULTS_MAX = 100


def repository_of(record: Record[TaskData], settings: Settings) -> Repository:
    """Open a task's repository. Raises GitError."""
    return Repository.open(Path(str(record.data["repo"])), sandbox=Sandbox.open(settings))


def worktree_and_commit(
    repository: Repository, record: Record[TaskData]
) -> tuple[Worktree | None, str | None]:
    """Return the worktree of a task's current claim and its commit; None for one that is gone.

    It is looked for by its branch: the setting of its folder may have changed since it was made.
    """
    return worktree_and_tip(repository, claim_names(record).branch)


def signals_of(record: Record[TaskData]) -> list[ParsedSignal]:
    """Return the completion signals of a task."""
    return [ParsedSignal(signal["type"], signal["value"]) for signal in record.data["signals"]]


def signals_without_models(record: Record[TaskData]) -> list[ParsedSignal]:
    """Return the completion signals of a task but those for a model."""
    return [signal for signal in signals_of(record) if signal.type not in MODEL_SIGNALS]


async def check_task(
    inquiries: ModelInquiries, folder: Path, changes: Callable[[], str]
) -> CompletionVerdict:
    """Check a folder against the completion signals of a task.

    `changes` is called only if a model is asked.
    """
    record, records = inquiries.work.record, inquiries.work.records
    signals, reviewer, judge = signals_of(record), None, None
    if inquiries.available and any(signal.type in MODEL_SIGNALS for signal in signals):
        shown = {"task": task_text(record), "changes": await asyncio.to_thread(changes)}
        reviewer = inquiries.question(InquiryKind.REVIEW, **shown)
        judge = inquiries.question(InquiryKind.JUDGEMENT, **shown)
    return await _check_signals(record, signals, folder, records, reviewer, judge)


async def check_task_without_models(
    record: Record[TaskData], folder: Path, records: Records
) -> CompletionVerdict:
    """Check a folder against the completion signals of a task but those for a model."""
    signals = signals_without_models(record)
    return await _check_signals(record, signals, folder, records, None, None)


def rejection(verdict: CompletionVerdict, *, merged_into: str = "") -> dict[str, Any] | None:
    """Return why work is rejected, by the first signal that failed; None if all passed."""
    failed = next((result for result in verdict.results if not result.passed), None)
    if failed is None:
        return None
    when = f"after a merge with what {merged_into} has now, " if merged_into else ""
    said = f"{when}the completion signal {failed.type} {failed.short_value} did not pass"
    return {"reason": failed.not_passed(said), "results": results_of(verdict)}


def results_of(verdict: CompletionVerdict) -> list[dict[str, Any]]:
    """Return the first results of a verdict, as data."""
    return [asdict(result) for result in verdict.results][:RESULTS_MAX]


async def _check_signals(
    record: Record[TaskData],
    signals: Sequence[ParsedSignal],
    folder: Path,
    records: Records,
    reviewer: AskModel | None,
    judge: AskModel | None,
) -> CompletionVerdict:
    settings = records.settings
    sandbox = await asyncio.to_thread(Sandbox.open, settings)
    return await check(
        signals,
        folder=folder,
        reviewer=reviewer,
        judge=judge,
        hide=records.redaction.text,
        # It runs the code of an agent.
        sandbox=check_sandbox(sandbox, str(record.data["repo"]), folder),
        test_s=settings.of(TaskSettings).verify_s,
        answer_s=settings.of(TaskSettings).judge_s,
    )
