"""Merges verified work into its target branch, and pushes that where the task names a remote.

If others have merged since the task began, the merge is verified before the target has it: two
tasks that pass alone can fail together. A conflict is a failure that names the paths. If a remote
refuses the push, the merge remains.
"""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from interlock import EffectWork, KernelError, Outcome
from interlock.git.errors import (
    BusyError,
    GitError,
    LockedError,
    ObstructedError,
    Refusal,
    RefusedError,
)
from interlock.git.merge import (
    AlreadyMerged,
    BranchMerged,
    BranchMoved,
    MergeConflict,
    MergeUnverified,
    TargetMoved,
    TargetRewritten,
)
from interlock.git.merge import merge as merge_branch
from interlock.git.remote import push
from interlock.git.repository import COMMITTER, Repository
from interlock.system.records import NotYetError
from interlock.system.tables import TransitionReason
from interlock.systems.tasks.claim_names import claim_names
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.machines.task.names import Trigger
from interlock.systems.tasks.parent_task import cancelled_parent
from interlock.systems.tasks.verification.review_checkout import review_checkout
from interlock.systems.tasks.verification.task_check import (
    check_task_without_models,
    rejection,
    repository_of,
    signals_without_models,
)

ATTEMPTS_MAX = 20  # at a merge, where the target moves meanwhile
PATHS_MAX = 100  # files in conflict that are named
# What a person has to end or to change: changes or a rebase in the checkout of the target, or
# rights. A card asks for it, and the merge is tried again.
OBSTACLES = (Refusal.DIRTY, Refusal.CHECKOUT_BUSY, Refusal.NOT_WRITABLE)
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
# A person is asked about the lock of another git that is still there at the second attempt: until
# then it is that of a command which has ended by now. A remote may be away for longer.
LOCK_ASKS_FROM, PUSH_ASKS_FROM = 2, 5


async def merge(work: EffectWork[TaskData]) -> Outcome:
    """Merge the branch of a claim, then push. If the target moves meanwhile, it is tried again."""
    record = work.record
    if not record.data.get("repo") or "claim" not in record.data:
        # The work was done outside of Interlock, or its subtasks are merged already.
        return Outcome(Trigger.MERGED, {})
    # An earlier attempt may have merged, and then failed to push.
    commit = record.data.get("merged")
    parent = await asyncio.to_thread(cancelled_parent, work.records, record)
    if parent and not commit:
        reason = f"{parent}, which it is a part of, was cancelled"
        payload = {"reason": reason, "why": TransitionReason.ABORTED, "final": True}
        return Outcome(Trigger.VERIFICATION_REJECTED, payload)
    try:
        repository = await asyncio.to_thread(repository_of, record, work.records.settings)
        done = (
            Outcome(Trigger.MERGED, {"commit": commit})
            if commit
            else await _merge(work, repository)
        )
        if done.trigger != Trigger.MERGED:
            return done
        return await asyncio.to_thread(_push, work, repository) or done
    except (GitError, OSError) as failure:
        if asked := _asked_of_person(failure, work.attempt):
            raise NotYetError(asked, asks_person=True) from failure
        if isinstance(failure, RefusedError):
            return _refused(str(failure))
        raise


def _asked_of_person(failure: GitError | OSError, attempt: int) -> str:
    """Return the sentence that asks a person to remove what failed a merge, or ''."""
    match failure:
        case BusyError():
            asks = False
        case LockedError():
            asks = attempt >= LOCK_ASKS_FROM
        case RefusedError():
            asks = failure.refusal in OBSTACLES
        case OSError():
            asks = failure.errno in DISK_ERRORS
        case _:
            asks = isinstance(failure, (ObstructedError, UnpushedError))
    return str(failure) if asks else ""


async def _merge(work: EffectWork[TaskData], repository: Repository) -> Outcome:
    """Merge while the task holds the target. Others wait for that in line, and for nothing else.

    So the task gives the target back before it waits for another attempt, or for a remote.
    """
    if not work.record.data.get("merging"):
        await asyncio.to_thread(work.fire, Outcome(Trigger.MERGE_BEGUN))
    await asyncio.to_thread(work.note, "activity", {"doing": "merging"})
    freed: dict[str, Any] = {}
    try:
        done = await _merge_branch(work, repository)
        if done.trigger == Trigger.MERGED and work.record.data.get("push"):
            freed = dict(done.payload)
            await asyncio.to_thread(work.fire, Outcome(Trigger.TARGET_FREED, freed))
    except CancelledError:
        raise  # Another worker goes on at once.
    except Exception:
        with suppress(KernelError):
            await asyncio.to_thread(work.fire, Outcome(Trigger.TARGET_FREED, freed))
        raise
    return done


async def _merge_branch(work: EffectWork[TaskData], repository: Repository) -> Outcome:
    record, target = work.record, str(work.record.data["target"])
    branch, commit = claim_names(record).branch, str(record.data["commit"])
    # Where the target has not moved since the claim, a merge has exactly the files of this commit.
    verified = {commit} if signals_without_models(record) else None
    for _ in range(ATTEMPTS_MAX):
        work.raise_if_stopped()
        done = await asyncio.to_thread(
            merge_branch,
            repository,
            branch=branch,
            target=target,
            message=f"Merge {record.data['title']}\n\nTask: {record.id}\n",
            identity=COMMITTER,
            verified=verified,
            commit=commit,
        )
        match done:
            case BranchMerged() | AlreadyMerged():
                return Outcome(Trigger.MERGED, {"commit": done.commit})
            case MergeUnverified():
                assert verified is not None, "a merge is unverified only where commits were given"
                if rejected := await _check_merge(work, repository, done.commit):
                    return rejected
                verified.add(done.commit)
            case MergeConflict():
                shown = ", ".join(done.paths[:5])
                reason = f"it conflicts with what {target} has now: {shown}"
                paths = list(done.paths[:PATHS_MAX])
                return _refused(reason, paths=paths)
            case BranchMoved():
                return _refused("its branch has moved since it was verified")
            case TargetRewritten():
                # The verification replays the work, and shows a person what is merged then.
                return Outcome(Trigger.TARGET_REWRITTEN)
            case TargetMoved():
                continue
    raise RuntimeError(f"{target} moved {ATTEMPTS_MAX} times while it was merged into")


async def _check_merge(
    work: EffectWork[TaskData], repository: Repository, commit: str
) -> Outcome | None:
    """Check a merge before the target has it. Return an outcome only if a signal fails.

    No model is asked again: it judged the changes of the task, and these are the same.
    """
    record, records = work.record, work.records
    await asyncio.to_thread(work.note, "activity", {"doing": "verifying the merge"})
    checkout = review_checkout(repository, claim_names(record), commit, records.settings)
    async with checkout as folder:
        verdict = await check_task_without_models(record, folder, records)
    rejected = rejection(verdict, merged_into=str(record.data["target"]))
    return Outcome(Trigger.VERIFICATION_REJECTED, rejected) if rejected else None


class UnpushedError(GitError):
    """The target is merged and the push fails. A person is asked to look at the remote."""


def _push(work: EffectWork[TaskData], repository: Repository) -> Outcome | None:
    """Push the target if the task names a remote. Return an outcome only if the push failed."""
    target, remote = str(work.record.data["target"]), work.record.data.get("push")
    if not remote:
        return None
    work.raise_if_stopped()
    work.note("activity", {"doing": "pushing"})
    try:
        done = push(repository, branch=target, remote=str(remote))
    except GitError as failure:
        unpushed = f"it is merged into {target} here, but {remote} does not have it: {failure}"
        if isinstance(failure, RefusedError) or work.attempt >= work.entry.attempts_max:
            # Final: an agent that tried the task again would find it merged, and change nothing.
            return _refused(unpushed, final=True)
        # The remote may be reachable again at the next attempt.
        is_away = work.attempt >= PUSH_ASKS_FROM and not isinstance(failure, BusyError)
        if is_away or isinstance(failure, ObstructedError):
            raise UnpushedError(unpushed) from failure
        raise
    work.audit("pushed", {"remote": done.remote, "branch": done.branch, "commit": done.commit})
    return None


def _refused(reason: str, **more: Any) -> Outcome:
    """Return the outcome of verified work that cannot be brought to its target."""
    why = TransitionReason.MERGE_FAILED
    return Outcome(
        Trigger.VERIFICATION_REJECTED, {"reason": reason[:REASON_LENGTH_MAX], "why": why, **more}
    )
