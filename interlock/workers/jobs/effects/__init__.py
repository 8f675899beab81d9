"""The effects of jobs and graphs, one a file. Each has its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.jobs.effects.approval import approval
from interlock.workers.jobs.effects.graph_upkeep import graph_upkeep
from interlock.workers.jobs.effects.manifest import manifest
from interlock.workers.jobs.effects.reviewer import reviewer
from interlock.workers.jobs.effects.scheduling import scheduling
from interlock.workers.jobs.effects.slot_release import slot_release
from interlock.workers.jobs.effects.subscription import subscription
from interlock.workers.jobs.effects.worker import worker

HANDLERS: Mapping[str, Handler] = {
    "approval": approval,
    "graph_upkeep": graph_upkeep,
    "manifest": manifest,
    "reviewer": reviewer,
    "scheduling": scheduling,
    "slot_release": slot_release,
    "subscription": subscription,
    "worker": worker,
}
