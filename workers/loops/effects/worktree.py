"""Makes the worktree of a long-lived agent on this machine, also where its own is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.kernel.machines.loops.effects import PROMPT, SESSION, WORKTREE
from interlock.workers.engine.work import NotYetError, Outcome, Work
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.loops.mailbox import Mailbox
from interlock.workers.loops.paths import Home, ready

# Where one of these is owed or draining, its process or its git may be there still.
AT_WORK = frozenset({SESSION.name, WORKTREE.name, PROMPT.name})


def worktree(work: Work) -> Outcome:
    """Make it, or find it; what is wrong with the repository itself is not mended by waiting."""
    data, settings = work.record.data, work.dispatch.settings
    if settings.agents_max == 0:
        raise NotYetError(f"no agents run on {settings.host} (INTERLOCK_AGENTS_MAX is 0)")
    home = Home(work.record.id, settings)
    told = {"host": settings.host, **_inherited(work, home)}
    try:
        repository = Repository.open(Path(str(data["repo"])))
        tree = ready(home, repository, base=str(data["base"]))
    except RefusedError as refusal:
        if data.get("host") != settings.host:
            # It was never promised to this machine: another may have it.
            raise NotYetError(f"not on {settings.host}: {refusal}") from refusal
        return Outcome("fatal_error", {"code": "worktree", "detail": str(refusal)})
    return Outcome("worktree_ready", {**told, "worktree": str(tree.folder), "branch": tree.branch})


def _inherited(work: Work, home: Home) -> dict[str, Any]:
    """Return what mail the life before was given, once nothing of it can be at work any more.

    It has ended, as two never live under one name: what it says of its mail stays as it is.
    """
    lives = Mailbox(work.dispatch).lives(home.name)
    earlier = work.dispatch.views.records(lives[: lives.index(work.record.id)])
    for life in earlier.values():
        if any(entry.name in AT_WORK or entry.state == "leased" for entry in life.entries):
            raise NotYetError(f"{life.id} is still being cleared away")
    # One that ended before it had settled in never learnt what was read.
    settled = [life.data for life in earlier.values() if life.data.get("worktree")]
    if not settled:
        return {}
    return {"acknowledged": settled[-1]["acknowledged"], "ahead": settled[-1]["ahead"]}
