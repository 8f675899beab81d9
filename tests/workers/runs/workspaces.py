"""A workspace on a disk, with a run that was led by hand and has real checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import redis

from interlock.kernel.event import Cause
from interlock.kernel.machines.runs.translation import branch_of
from interlock.kernel.record import Record
from interlock.kernel.store.scripts import read
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.git.shadow import Shadow
from interlock.workers.runs.archive.findings import Validation
from interlock.workers.runs.client import Runs
from interlock.workers.runs.start import Begin, begin, open_workspace, workspace_id
from tests.kernel.store.kernel_at_a_fixed_time import Text, World
from tests.kernel.store.machines_runs import HOLDER, complete, settle, tell
from tests.workers.threads.threads import client_of

CAUSE = Cause("person", "as the test has it")
PLAN: dict[str, Any] = {"name": "tidy", "steps": [{"id": "clean", "command": "true"}]}
COST, WATCHED = 500, 30
# Of each run that a test may lead: its branch, with the checkpoints of a run and two codons.
BRANCHES = ("run-1", "run-2")
CHECKPOINTS = ("initial", "first", "second")


@dataclass(frozen=True)
class Checkpointed:
    """A workspace with all checkpoints that runs here ever name, by their branch."""

    folder: Path
    shas: Mapping[str, Sequence[str]]


def make_checkpointed(folder: Path) -> Checkpointed:
    """Make that workspace."""
    folder.mkdir()
    (folder / "rows.csv").write_text("1,2\n")
    shadow = Shadow.open(folder)
    for branch in BRANCHES:
        parent: str | None = None
        for name in CHECKPOINTS:
            parent = shadow.take(branch, f"{branch} {name}", parent=parent).sha
    return Checkpointed(folder, {run: shadow.history(run)[::-1] for run in BRANCHES})


class Scene:
    """A folder, its records in a store, and what a test does to either."""

    def __init__(
        self, client: redis.Redis, url: str, prefix: str, root: Path, checkpointed: Checkpointed
    ) -> None:
        self.folder, self.home = root / "data", root / "home"
        shutil.copytree(checkpointed.folder, self.folder)
        self.world = World(client, prefix, Text(now_us=None))
        self.runs = Runs(client_of(url, prefix, home=self.home))
        self.shas = checkpointed.shas
        self.open()

    @cached_property
    def shadow(self) -> Shadow:
        return Shadow.open(self.folder)

    @property
    def dispatch(self) -> Dispatch:
        return self.runs.dispatch

    def open(self) -> Record:
        """Open the workspace, and return it as it is."""
        return open_workspace(self.dispatch, self.folder, CAUSE)

    @property
    def id(self) -> str:
        return workspace_id(self.folder, self.dispatch.settings.host)

    def begin(self) -> str:
        """Begin a run, with its initial checkpoint."""
        run = begin(self.dispatch, self.open(), Begin(PLAN, {"kind": "fresh"}), CAUSE).id
        tell(self.world, "InitialCheckpointSet", run, sha=self.shas[branch_of(run)][0])
        return run

    def codon(self, run: str, number: int = 1, *, cost: int = COST, upto: str = "completed") -> str:
        """Execute a codon, up to a state."""
        of = f"{run}/{number}"
        self.world.create(of, {"codon_id": "clean"}, machine="codon", initial_lease=HOLDER)
        self.move(of, "preparing", "starting")
        self.move(of, "starting", "initializing", pid=7, log_path="clean.log")
        self.move(of, "initializing", "running", session_id="s")
        tell(self.world, "CostsUpdated", of, cost=cost)
        watch = {"id": "w", "model": "m", "loaded_at": 5, "total_cost": WATCHED}
        tell(self.world, "SentinelStatesUpdated", of, sentinel_states=[watch])
        if upto == "completed":
            sha = self.shas[branch_of(run)][number]
            self.move(of, "running", upto, checkpoint_sha=sha, result_message_received=True)
        return of

    def move(self, of: str, source: str, to: str, **metadata: Any) -> None:
        moved: dict[str, Any] = {"from": source, "to": to, "metadata": metadata}
        tell(self.world, "CodonTransitioned", of, **moved)

    def ended(self, codons: int = 1) -> str:
        """Lead a whole run to its end, with nothing left of it to do."""
        run = self.begin()
        for number in range(1, codons + 1):
            self.codon(run, number, cost=COST * number)
        complete(self.world, run)
        settle(self.world, run)
        return run

    def validate(self, *, repair: bool = False) -> Validation:
        return self.runs.validate(self.folder, repair=repair)

    def types(self) -> list[str]:
        found = self.validate()
        return sorted({str(one.type) for one in (*found.errors, *found.warnings)})

    def field(self, of: str, name: str, value: str) -> None:
        """Write into a stored record, as no script of ours would."""
        read(self.world.client, "HSET", self.world.keys.record(of), name, value)

    def counter(self, of: str, name: str, value: int) -> None:
        read(self.world.client, "HSET", self.world.keys.counters(of), name, value)

    def forget(self, *keys: str) -> None:
        """Delete keys, as a store does that lost them."""
        read(self.world.client, "DEL", *keys)

    def lose(self) -> None:
        """Lose the whole store of this test."""
        self.forget(*(key.decode() for key in self.world.dump()))
