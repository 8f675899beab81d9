"""A workspace in a real store, whose runs a test moves from state to state itself."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import redis

from interlock.git.checkpoint_store import CheckpointStore
from interlock.kernel.record import Record
from interlock.kernel.store.scripts import read
from interlock.systems.runs.archive.findings import Validation
from interlock.systems.runs.client import Runs
from interlock.systems.runs.machines.translation import branch_of
from interlock.systems.runs.paths import workspace_id
from interlock.systems.runs.start import RunSetup, open_workspace, start_run
from interlock.workers.engine.records import Records
from tests.kernel.store.kernel_at_a_fixed_time import Text, World
from tests.kernel.store.machines_runs import HOLDER, complete, settle, tell
from tests.systems.threads.threads import client_of

REASON = "as the test has it"
PLAN: dict[str, Any] = {"name": "tidy", "steps": [{"id": "clean", "command": "true"}]}
COST, SENTINEL_COST = 500, 30
# The branches of the runs that a test may start, and the checkpoints of each: the initial one, and
# one for each of two codons.
BRANCHES = ("run-1", "run-2")
CHECKPOINTS = ("initial", "first", "second")


@dataclass(frozen=True)
class CheckpointedFolder:
    """A folder with all checkpoints that the runs of these tests name, by branch."""

    folder: Path
    shas: Mapping[str, Sequence[str]]


def make_checkpointed_folder(folder: Path) -> CheckpointedFolder:
    """Make that folder."""
    folder.mkdir()
    (folder / "rows.csv").write_text("1,2\n")
    checkpoint_store = CheckpointStore.open(folder)
    shas: dict[str, list[str]] = {}
    for branch in BRANCHES:
        parent: str | None = None
        for name in CHECKPOINTS:
            parent = checkpoint_store.take(branch, f"{branch} {name}", parent=parent).sha
            shas.setdefault(branch, []).append(parent)
    return CheckpointedFolder(folder, shas)


class StoredWorkspace:
    """A folder, its records in a store, and what a test does to both."""

    def __init__(
        self,
        client: redis.Redis,
        url: str,
        prefix: str,
        root: Path,
        checkpointed_folder: CheckpointedFolder,
    ) -> None:
        self.folder, self.home = root / "data", root / "home"
        shutil.copytree(checkpointed_folder.folder, self.folder)
        self.world = World(client, prefix, Text(now_us=None))
        self.runs = Runs(client_of(url, prefix, home=self.home))
        self.shas = checkpointed_folder.shas
        self.open()

    @cached_property
    def checkpoint_store(self) -> CheckpointStore:
        return CheckpointStore.open(self.folder)

    @property
    def records(self) -> Records:
        return self.runs.records

    def open(self) -> Record:
        """Open the workspace, and return its record as it is now."""
        return open_workspace(self.records, self.folder, REASON)

    @property
    def id(self) -> str:
        return workspace_id(self.folder, self.records.settings.host)

    def start_run(self) -> str:
        """Start a run, with its initial checkpoint."""
        run_id = start_run(self.records, self.open(), RunSetup(PLAN, {"kind": "fresh"}), REASON).id
        tell(self.world, "InitialCheckpointSet", run_id, sha=self.shas[branch_of(run_id)][0])
        return run_id

    def codon(
        self, run_id: str, number: int = 1, *, cost: int = COST, upto: str = "completed"
    ) -> str:
        """Move a new codon up to a state: running or completed."""
        codon_id = f"{run_id}/{number}"
        self.world.create(codon_id, {"codon_id": "clean"}, machine="codon", initial_lease=HOLDER)
        self.move(codon_id, "preparing", "starting")
        self.move(codon_id, "starting", "initializing", pid=7, log_path="clean.log")
        self.move(codon_id, "initializing", "running", session_id="s")
        tell(self.world, "CostsUpdated", codon_id, cost=cost)
        sentinel = {"id": "w", "model": "m", "loaded_at": 5, "total_cost": SENTINEL_COST}
        tell(self.world, "SentinelStatesUpdated", codon_id, sentinel_states=[sentinel])
        if upto == "completed":
            sha = self.shas[branch_of(run_id)][number]
            self.move(codon_id, "running", upto, checkpoint_sha=sha, result_message_received=True)
        return codon_id

    def move(self, codon_id: str, source: str, target: str, **metadata: Any) -> None:
        """Move a codon from one state to another."""
        transition: dict[str, Any] = {"from": source, "to": target, "metadata": metadata}
        tell(self.world, "CodonTransitioned", codon_id, **transition)

    def completed_run(self, codons: int = 1) -> str:
        """Move a whole run to its end, with no effect left open."""
        run_id = self.start_run()
        for number in range(1, codons + 1):
            self.codon(run_id, number, cost=COST * number)
        complete(self.world, run_id)
        settle(self.world, run_id)
        return run_id

    def validate(self, *, repair: bool = False) -> Validation:
        return self.runs.validate(self.folder, repair=repair)

    def types(self) -> list[str]:
        """Return the types of all findings."""
        found = self.validate()
        return sorted({str(one.type) for one in (*found.errors, *found.warnings)})

    def write_field(self, record_id: str, name: str, value: str) -> None:
        """Write a field of a stored record, as none of our scripts would."""
        read(self.world.client, "HSET", self.world.keys.record(record_id), name, value)

    def write_counter(self, record_id: str, name: str, value: int) -> None:
        """Write a counter of a stored record, as none of our scripts would."""
        read(self.world.client, "HSET", self.world.keys.counters(record_id), name, value)

    def delete_keys(self, *keys: str) -> None:
        """Delete keys, as a store that lost them."""
        read(self.world.client, "DEL", *keys)

    def delete_store(self) -> None:
        """Delete the whole store of this test."""
        self.delete_keys(*(key.decode() for key in self.world.dump()))
