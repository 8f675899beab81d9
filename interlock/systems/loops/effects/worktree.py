"""Finds the worktree of a long-lived agent on this computer, or creates it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock import EffectWork, Outcome
from interlock.git.errors import RefusedError
from interlock.git.repository import Repository
from interlock.system.agents import Sandbox
from interlock.system.records import NotYetError
from interlock.systems.loops.machines.effects import PROMPT, SESSION, WORKTREE
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.names import Trigger
from interlock.systems.loops.mailbox import Mailbox
from interlock.systems.loops.paths import AgentPaths, prepare_worktree

# While a life still has one of these effects, a process or a git command of it may be running.
USES_WORKTREE = frozenset({SESSION.name, WORKTREE.name, PROMPT.name})


def worktree(work: EffectWork[LoopData]) -> Outcome:
    """Find or create the worktree. A problem with the repository itself stops the agent."""
    data, settings = work.record.data, work.records.settings
    if settings.agents_max == 0:
        raise NotYetError(f"no agents run on {settings.host} (INTERLOCK_AGENTS_MAX is 0)")
    paths = AgentPaths(work.record.id, settings)
    fields = {"host": settings.host, **_inherited(work, paths)}
    try:
        repository = Repository.open(Path(data["repo"]), sandbox=Sandbox.open(paths.settings))
        tree = prepare_worktree(paths, repository, base=data["base"])
    except RefusedError as refusal:
        if data.get("host") != settings.host:
            # The agent is not bound to this computer; another one may have the repository.
            raise NotYetError(f"not on {settings.host}: {refusal}") from refusal
        return Outcome(Trigger.FATAL_ERROR, {"code": "worktree", "detail": str(refusal)})
    fields |= {"worktree": str(tree.folder), "branch": tree.branch}
    return Outcome(Trigger.WORKTREE_READY, fields)


def _inherited(work: EffectWork[LoopData], paths: AgentPaths) -> dict[str, Any]:
    """Return which mail the earlier lives of this name were given.

    Raises NotYetError while a process of an earlier life may still be running.
    """
    lives = Mailbox(work.records).life_records(paths.name)
    earlier = lives[: [life.id for life in lives].index(work.record.id)]
    for life in earlier:
        if any(entry.name in USES_WORKTREE or entry.is_leased for entry in life.entries):
            raise NotYetError(f"{life.id} is still being cleaned up")
    # A life that stopped before it had a worktree never inherited the read position itself.
    prepared = [life.data for life in earlier if life.data.get("worktree")]
    if not prepared:
        return {}
    return {"acknowledged": prepared[-1]["acknowledged"], "ahead": prepared[-1]["ahead"]}
