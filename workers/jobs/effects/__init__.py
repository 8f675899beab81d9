"""The effects of jobs and graphs, one a file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.jobs.effects.approval import approval
from interlock.workers.jobs.effects.graph_upkeep import tending
from interlock.workers.jobs.effects.manifest import manifest
from interlock.workers.jobs.effects.reviewer import reviewer
from interlock.workers.jobs.effects.scheduling import scheduling
from interlock.workers.jobs.effects.slot_release import vacancy
from interlock.workers.jobs.effects.subscription import registration
from interlock.workers.jobs.effects.worker import worker

HANDLERS: Mapping[str, Handler] = {
    "approval": approval,
    "tending": tending,
    "manifest": manifest,
    "reviewer": reviewer,
    "scheduling": scheduling,
    "vacancy": vacancy,
    "registration": registration,
    "worker": worker,
}
