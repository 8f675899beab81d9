"""The handler of every effect, and the sweeps that beat drives. A new one needs its line here."""

from __future__ import annotations

from collections.abc import Mapping

from workers.engine.effects.cascade import cascade
from workers.engine.effects.notification import tell
from workers.engine.effects.resolution import resolution
from workers.engine.effects.spawn import spawn
from workers.engine.sweeper import Sweep
from workers.engine.sweeps import orphans, prune, stalls
from workers.engine.work import Run
from workers.jobs.effects.approval import approval
from workers.jobs.effects.graph_upkeep import tending
from workers.jobs.effects.manifest import manifest
from workers.jobs.effects.reviewer import reviewer
from workers.jobs.effects.scheduling import scheduling
from workers.jobs.effects.slot_release import vacancy
from workers.jobs.effects.subscription import registration
from workers.jobs.effects.worker import worker
from workers.loops.effects.agent_cleanup import retirement
from workers.loops.effects.mail_check import drain
from workers.loops.effects.prompt import prompt
from workers.loops.effects.session import session
from workers.loops.effects.worktree import worktree
from workers.runs.effects.codon_cleanup import clearance
from workers.runs.effects.events import events
from workers.runs.effects.launch import conductor
from workers.tasks.effects.abort import abort
from workers.tasks.effects.assignment import assignment
from workers.tasks.effects.follow_up import aftermath
from workers.tasks.effects.merge import merge
from workers.tasks.effects.recovery import recovery
from workers.tasks.effects.turn_cleanup import reaping
from workers.tasks.effects.verification import verification
from workers.tasks.sweeps import assignments
from workers.threads.effects.cleanup import cleanup
from workers.threads.effects.execution import execution
from workers.threads.effects.inference import inference

HANDLERS: Mapping[str, Run] = {
    "abort": abort,
    "aftermath": aftermath,
    "approval": approval,
    "assignment": assignment,
    "cascade": cascade,
    "cleanup": cleanup,
    "clearance": clearance,
    "conductor": conductor,
    "drain": drain,
    "events": events,
    "execution": execution,
    "inference": inference,
    "manifest": manifest,
    "merge": merge,
    "prompt": prompt,
    "reaping": reaping,
    "recovery": recovery,
    "registration": registration,
    "resolution": resolution,
    "retirement": retirement,
    "reviewer": reviewer,
    "scheduling": scheduling,
    "session": session,
    "spawn": spawn,
    "tell": tell,
    "tending": tending,
    "vacancy": vacancy,
    "verification": verification,
    "worker": worker,
    "worktree": worktree,
}

SWEEPS: tuple[Sweep, ...] = (orphans.SWEEP, stalls.SWEEP, assignments.SWEEP, prune.SWEEP)
