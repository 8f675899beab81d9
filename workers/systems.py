"""The handler of every effect, and the sweeps that beat drives. A new one needs its line here."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.effects.cascade import cascade
from interlock.workers.engine.effects.notification import tell
from interlock.workers.engine.effects.resolution import resolution
from interlock.workers.engine.effects.spawn import spawn
from interlock.workers.engine.sweeper import Sweep
from interlock.workers.engine.sweeps import orphans, prune, stalls
from interlock.workers.engine.work import Run
from interlock.workers.jobs.effects.approval import approval
from interlock.workers.jobs.effects.graph_upkeep import tending
from interlock.workers.jobs.effects.manifest import manifest
from interlock.workers.jobs.effects.reviewer import reviewer
from interlock.workers.jobs.effects.scheduling import scheduling
from interlock.workers.jobs.effects.slot_release import vacancy
from interlock.workers.jobs.effects.subscription import registration
from interlock.workers.jobs.effects.worker import worker
from interlock.workers.loops.effects.agent_cleanup import retirement
from interlock.workers.loops.effects.mail_check import drain
from interlock.workers.loops.effects.prompt import prompt
from interlock.workers.loops.effects.session import session
from interlock.workers.loops.effects.worktree import worktree
from interlock.workers.runs.effects.codon_cleanup import clearance
from interlock.workers.runs.effects.events import events
from interlock.workers.runs.effects.launch import conductor
from interlock.workers.tasks.effects.abort import abort
from interlock.workers.tasks.effects.assignment import assignment
from interlock.workers.tasks.effects.follow_up import aftermath
from interlock.workers.tasks.effects.merge import merge
from interlock.workers.tasks.effects.recovery import recovery
from interlock.workers.tasks.effects.turn_cleanup import reaping
from interlock.workers.tasks.effects.verification import verification
from interlock.workers.tasks.sweeps import assignments
from interlock.workers.threads.effects.cleanup import cleanup
from interlock.workers.threads.effects.execution import execution
from interlock.workers.threads.effects.inference import inference

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
