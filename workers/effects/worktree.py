"""Makes the worktree of a long-lived agent on this machine, also where its own is gone."""

from __future__ import annotations

from pathlib import Path

from kernel.errors import UnknownRecordError
from workers.gateways.git.errors import RefusedError
from workers.gateways.git.repository import Repository
from workers.loops.place import Home, ready
from workers.work import NotYetError, Outcome, Work


def worktree(work: Work) -> Outcome:
    """Make it, or find it; what is wrong with the repository itself is not mended by waiting."""
    data, settings = work.record.data, work.dispatch.settings
    if settings.agents_max == 0:
        raise NotYetError(f"no agents run on {settings.host} (INTERLOCK_AGENTS_MAX is 0)")
    if before := data.get("before"):
        _wait_for_the_end(work, str(before))
    home = Home(work.record.id, settings)
    try:
        repository = Repository.open(Path(str(data["repo"])))
        tree = ready(home, repository, base=str(data["base"]))
    except RefusedError as refusal:
        if data.get("host") != settings.host:
            # It was never promised to this machine: another may have it.
            raise NotYetError(f"not on {settings.host}: {refusal}") from refusal
        return Outcome("fatal_error", {"code": "worktree", "detail": str(refusal)})
    told = {"host": settings.host, "worktree": str(tree.folder), "branch": tree.branch}
    return Outcome("worktree_ready", told)


def _wait_for_the_end(work: Work, before: str) -> None:
    """Refuse while the last session of an earlier life may be at work in the worktree."""
    try:
        left = work.dispatch.views.record(before).entries
    except UnknownRecordError:
        return
    if left:
        raise NotYetError(f"{before} is still being cleared away")
