"""The context that the codons of one run share: its lease, workspace, plan and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interlock import EffectWork, Settings
from interlock.git.checkpoint_store import (
    FOLDER,
    STORE,
    Checkpoint,
    CheckpointStore,
)
from interlock.git.worktree import own_sandbox
from interlock.system.agents import Command, Sandbox, Supervisor
from interlock.system.models import open_model
from interlock.systems.runs.machines.translation import branch_of
from interlock.systems.runs.paths import CodonPaths, RunPaths
from interlock.systems.runs.plan.model import PlannedCodon, PlannedLoop, PlannedSentinel, RunPlan
from interlock.systems.runs.sentinels.call import ModelAccess
from interlock.systems.runs.sentinels.host import SentinelHost
from interlock.systems.runs.sentinels.models import SentinelModels
from interlock.systems.runs.sentinels.specification import SentinelSpecification
from interlock.systems.runs.sequence import NextCodon


@dataclass(slots=True)
class RunContext:
    """One run while its supervisor executes it. `work` holds the run's lease."""

    work: EffectWork
    supervisor: Supervisor
    plan: RunPlan
    workspace: Path
    paths: RunPaths
    checkpoint_store: CheckpointStore
    # The newest checkpoint of this run, at which its branch must still be at the next one.
    tip: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the supervisor's process."""
        return self.work.records.settings

    @property
    def branch(self) -> str:
        """The git branch of its checkpoints."""
        return branch_of(self.paths.id)

    def checkpoint(self, message: str, *, start: str | None = None) -> Checkpoint:
        """Take a checkpoint of the workspace; the first one follows `start`. Raises GitError."""
        taken = self.checkpoint_store.take(self.branch, message, parent=self.tip, start=start)
        self.tip = taken.sha
        return taken

    def create_codon(self, start: NextCodon, paths: CodonPaths) -> EffectWork:
        """Create the record of an execution, and return the work that holds its lease.

        Raises HeldError while another codon of the workspace is executed, and FencedError.
        """
        initial: dict[str, Any] = {"codon_id": start.runtime_id}
        if start.loop_context is not None:
            initial["loop_context"] = start.loop_context.model_dump()
        records = self.work.records
        create = partial(records.create, "codon", paths.id, initial, leased_by=records.holder)
        work = self.supervisor.taken(lambda: self.work.retried(create).granted)
        assert work is not None, "a lease that is not granted is an error"
        return work

    def planned_sentinels(self, names: Iterable[str]) -> list[PlannedSentinel]:
        """Return sentinels of the plan by their ids."""
        return [self.plan.sentinel(name) for name in names]

    def sandbox(self) -> Sandbox | None:
        """Return the sandbox of commands in the workspace. Raises SandboxError.

        They can only read the checkpoints: by its settings that store could name programs for git.
        If the folder is a repository, they can only read what git keeps: by many of those files the
        user's git runs programs or, where they are links, writes to other files.
        """
        sandbox, folder = Sandbox.open(self.settings), self.workspace
        kept = [folder / FOLDER, folder / FOLDER / STORE]
        return sandbox and own_sandbox(sandbox, folder.resolve()).with_more(read_only=kept)

    def sentinel_host(self, start: NextCodon, command: Command) -> SentinelHost:
        """Return a host for the sentinels of a codon; it has loaded none of them yet.

        `command` is run with the arguments of each sentinel.
        """
        planned = self.planned_sentinels(start.codon.sentinels)
        return SentinelHost(
            [SentinelSpecification.of(sentinel) for sentinel in planned],
            codon=start.runtime_id,
            command=command,
            models=self._sentinel_models(planned, start.codon),
            clock_ms=lambda: int(time.time() * 1_000),
        )

    def _sentinel_models(
        self, sentinels: Iterable[PlannedSentinel], codon: PlannedCodon
    ) -> ModelAccess | None:
        """Return the access to the models of these sentinels; None where none has a model."""
        if not any(sentinel.model for sentinel in sentinels):
            return None
        open_named = partial(open_model, self.settings, variable="model")
        return SentinelModels(open_named, capped=self.limits_costs(codon))

    def limits_costs(self, codon: PlannedCodon) -> bool:
        """Return whether the plan limits the costs of a codon, or those of the whole run."""
        budgets = (self.plan.budget, codon.budget)
        return any(budget is not None and budget.cost_micro is not None for budget in budgets)

    def context_may_end(self, start: NextCodon) -> bool:
        """Return whether the loop of a codon ends when the model's context is full."""
        loop_context = start.loop_context
        if loop_context is None:
            return False
        loops = {step.id: step for step in self.plan.steps if isinstance(step, PlannedLoop)}
        return loops[loop_context.loop_id].until.context_exceeded
