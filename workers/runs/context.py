"""What the codons of one run share while it is conducted: lease, workspace, plan, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.kernel.event import Cause
from interlock.kernel.machines import MACHINES
from interlock.kernel.machines.runs.effects import STEP
from interlock.kernel.machines.runs.translation import branch_of
from interlock.kernel.store.commands import Call, InitialLease
from interlock.workers.config import PREFIX
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.leases import claim_initial_lease
from interlock.workers.engine.work import Work
from interlock.workers.files.atomic import write_private
from interlock.workers.gateways.git.shadow import Checkpoint, Shadow
from interlock.workers.runs.paths import CodonPlace, RunPlace
from interlock.workers.runs.plan.model import Plan, PlannedLoop, PlannedSentinel
from interlock.workers.runs.sentinels.call import Asks
from interlock.workers.runs.sentinels.host import SentinelHost
from interlock.workers.runs.sentinels.specification import SentinelSpecification
from interlock.workers.runs.sequence import Start


@dataclass(slots=True)
class RunWork:
    """One run in its conductor's hands."""

    work: Work
    dispatch: Dispatch
    heartbeat: Heartbeat
    plan: Plan
    workspace: Path
    place: RunPlace
    shadow: Shadow

    @property
    def branch(self) -> str:
        """The branch of its checkpoints."""
        return branch_of(self.place.id)

    def checkpoint(self, message: str) -> Checkpoint:
        """Take a checkpoint of the workspace. Raises GitError."""
        return self.shadow.take(self.branch, message, parent=self.shadow.tip(self.branch))

    def born(self, start: Start, place: CodonPlace) -> Work:
        """Bear the record of an execution, and return its lease. Raises HeldError, FencedError."""
        birth: dict[str, Any] = {"codon_id": start.runtime_id}
        if start.loop_context is not None:
            birth["loop_context"] = start.loop_context.model_dump()
        lease_ms = self.dispatch.effect("codon", STEP.name).lease_ms
        initial_lease = InitialLease(uuid4().hex[:8], self.dispatch.holder, lease_ms)
        asked_at = time.monotonic()

        def bear() -> None:
            call = Call(Cause("conductor"))
            self.dispatch.create("codon", place.id, birth, call, initial_lease=initial_lease)

        self.work.retried(bear)
        lease = self.work.retried(
            lambda: claim_initial_lease(self.dispatch, place.id, initial_lease)
        )
        place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(place.mark, lease.key)
        return Work(
            self.dispatch,
            self.work.resources,
            MACHINES["codon"],
            lease,
            lease_ms=lease_ms,
            asked_at=asked_at,
        )

    def planned(self, names: Iterable[str]) -> list[PlannedSentinel]:
        """Return sentinels of the plan by their ids."""
        return [self.plan.sentinel(name) for name in names]

    def specifications(self, names: Iterable[str]) -> list[SentinelSpecification]:
        """Return what a host of sentinels is told of them."""
        return [SentinelSpecification.of(one) for one in self.planned(names)]

    def models(self, names: Iterable[str]) -> Asks | None:
        """Return what asks the models of these sentinels; None where none of them has one."""
        if not any(one.model for one in self.planned(names)):
            return None
        # Its libraries take a second to import, and most runs have no use for them.
        found = import_module("interlock.workers.runs.sentinels.models")
        settings = self.dispatch.settings
        asks: Asks = found.SentinelModels(
            base_url=settings.model_base_url,
            api_key=settings.model_api_key,
            attempts_max=settings.model_attempts_max,
        )
        return asks

    def sentinel_host(self, start: Start, environment: Mapping[str, str]) -> SentinelHost:
        """Return what hosts the sentinels of a codon; it has loaded none yet."""
        names = start.codon.sentinels
        return SentinelHost(
            self.specifications(names),
            codon=start.runtime_id,
            folder=self.workspace,
            environment=environment,
            asks=self.models(names),
            clock_ms=lambda: int(time.time() * 1_000),
        )

    def model_settings(self) -> dict[str, str]:
        """Return the settings that the process of a model's codon needs, as variables."""
        settings = self.dispatch.settings
        found = {
            "MODEL_BASE_URL": settings.model_base_url,
            "MODEL_API_KEY": settings.model_api_key,
            "MODEL_ATTEMPTS_MAX": settings.model_attempts_max,
            "MODEL_TIMEOUT_S": settings.model_timeout_s,
        }
        return {f"{PREFIX}{name}": str(value) for name, value in found.items() if value is not None}

    def context_may_end(self, start: Start) -> bool:
        """Whether a full context is how a codon's loop ends."""
        inside = start.loop_context
        if inside is None:
            return False
        loops = {step.id: step for step in self.plan.steps if isinstance(step, PlannedLoop)}
        return loops[inside.loop_id].until.context_exceeded
