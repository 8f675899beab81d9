"""The work of one claim of a task, as its judges find it on this machine; it gives no verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from interlock.kernel.record import Record
from interlock.workers.config import Settings, environment_without_settings
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import Worktree, worktrees
from interlock.workers.tasks.verification.check import check
from interlock.workers.tasks.verification.evidence import task_shown
from interlock.workers.tasks.verification.judge_model import InquiryKind
from interlock.workers.tasks.verification.judges import Judges
from interlock.workers.tasks.verification.signals import Signal, SignalType, Verdict
from interlock.workers.tasks.workplace import workplace_of

ASK_A_MODEL = (SignalType.LLM_REVIEW, SignalType.LLM_JUDGE)


def repository_of(record: Record) -> Repository:
    """Open a task's repository. Raises GitError."""
    return Repository.open(Path(str(record.data["repo"])))


def worktree_of(repository: Repository, record: Record, settings: Settings) -> Worktree | None:
    """Return the worktree of a task's present claim, or None where it is gone."""
    branch = workplace_of(record).branch
    folder = workplace_of(record).folder(settings)
    for tree in worktrees(repository):
        if tree.branch == branch and tree.folder == folder.resolve() and tree.present:
            return tree
    return None


async def judged(judges: Judges, folder: Path, changes: Callable[[], str]) -> Verdict:
    """Ask every completion signal of a task about a folder; tests see no setting of ours.

    What was changed is only looked at where a model is to judge it.
    """
    record, settings = judges.work.record, judges.work.dispatch.settings
    signals = [Signal(one["type"], one["value"]) for one in record.data["signals"]]
    reviewer = judge = None
    if judges.able and any(signal.type in ASK_A_MODEL for signal in signals):
        case = {"task": task_shown(record), "changes": await asyncio.to_thread(changes)}
        reviewer, judge = (
            judges.asked(kind, **case) for kind in (InquiryKind.REVIEW, InquiryKind.JUDGEMENT)
        )
    return await check(
        signals,
        folder=folder,
        reviewer=reviewer,
        judge=judge,
        environment=environment_without_settings(),
        test_s=settings.verify_s,
        answer_s=settings.judge_s,
    )
