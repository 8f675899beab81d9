"""The handler of every effect. A new one needs its module here, or no worker starts."""

from __future__ import annotations

from collections.abc import Mapping

from workers.effects.abort import abort
from workers.effects.aftermath import aftermath
from workers.effects.approval import approval
from workers.effects.assignment import assignment
from workers.effects.cascade import cascade
from workers.effects.cleanup import cleanup
from workers.effects.clearance import clearance
from workers.effects.conductor import conductor
from workers.effects.drain import drain
from workers.effects.events import events
from workers.effects.execution import execution
from workers.effects.inference import inference
from workers.effects.manifest import manifest
from workers.effects.merge import merge
from workers.effects.prompt import prompt
from workers.effects.reaping import reaping
from workers.effects.recovery import recovery
from workers.effects.registration import registration
from workers.effects.resolution import resolution
from workers.effects.retirement import retirement
from workers.effects.reviewer import reviewer
from workers.effects.scheduling import scheduling
from workers.effects.session import session
from workers.effects.spawn import spawn
from workers.effects.tell import tell
from workers.effects.tending import tending
from workers.effects.vacancy import vacancy
from workers.effects.verification import verification
from workers.effects.worker import worker
from workers.effects.worktree import worktree
from workers.work import Run

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
