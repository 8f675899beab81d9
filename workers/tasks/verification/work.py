"""Finds the work of a task's current claim on this machine, and verifies it in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from interlock.kernel.record import Record
from interlock.workers.config import Settings, environment_without_settings
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import Worktree, worktrees
from interlock.workers.tasks.claim_names import claim_names
from interlock.workers.tasks.verification.check import check
from interlock.workers.tasks.verification.evidence import task_text
from interlock.workers.tasks.verification.judge_model import InquiryKind
from interlock.workers.tasks.verification.judges import Judges
from interlock.workers.tasks.verification.signals import (
    CompletionVerdict,
    ParsedSignal,
    SignalType,
)

MODEL_SIGNALS = (SignalType.LLM_REVIEW, SignalType.LLM_JUDGE)


def repository_of(record: Record) -> Repository:
    """Open a task's repository. Raises GitError."""
    return Repository.open(Path(str(record.data["repo"])))


def worktree_of(repository: Repository, record: Record, settings: Settings) -> Worktree | None:
    """Return the worktree of a task's current claim, or None if it is gone."""
    branch = claim_names(record).branch
    folder = claim_names(record).worktree(settings)
    for tree in worktrees(repository):
        if tree.branch == branch and tree.folder == folder.resolve() and tree.present:
            return tree
    return None


async def verify(judges: Judges, folder: Path, changes: Callable[[], str]) -> CompletionVerdict:
    """Check a folder against the completion signals of a task.

    Test commands see no setting of Interlock. `changes` is called only if a model is asked.
    """
    record, settings = judges.work.record, judges.work.dispatch.settings
    signals = [ParsedSignal(signal["type"], signal["value"]) for signal in record.data["signals"]]
    reviewer = judge = None
    if judges.available and any(signal.type in MODEL_SIGNALS for signal in signals):
        shown = {"task": task_text(record), "changes": await asyncio.to_thread(changes)}
        reviewer = judges.question(InquiryKind.REVIEW, **shown)
        judge = judges.question(InquiryKind.JUDGEMENT, **shown)
    return await check(
        signals,
        folder=folder,
        reviewer=reviewer,
        judge=judge,
        environment=environment_without_settings(),
        test_s=settings.verify_s,
        answer_s=settings.judge_s,
    )
