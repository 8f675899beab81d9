"""Lists the checkpoints of a workspace's runs from their records, without reading git."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from interlock import CallError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.history import codons_of, history, numbered_below, record_number
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.values import CheckpointType
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.sequence import Execution
from interlock.systems.runs.start import runs_of

INITIAL = "initial"
RESCUED = "recovery"
LAST_SUCCESS = "last-success"
PREFIX_LENGTH_MIN = 4
FIELDS = {
    CheckpointType.RIG_SETUP: "rig_setup_checkpoint",
    CheckpointType.COMPLETED: "completion_checkpoint",
    CheckpointType.ERROR: "error_checkpoint",
    CheckpointType.SKIPPED: "skip_checkpoint",
}


class CheckpointError(CallError):
    """A name fits no checkpoint, or several. The message lists them, or says what to write."""


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """One checkpoint: its git id, its type, and the run and codon at which it was taken.

    `done` are the executions that count once the workspace is restored to it. `record` is the id of
    the codon's record.
    """

    sha: str
    type: str
    run: str
    codon: str
    done: tuple[Execution, ...]
    record: str = ""

    @property
    def after(self) -> str:
        """Return the runtime id of the last execution that counts; empty where none does."""
        return self.done[-1].runtime_id if self.done else ""

    @property
    def fields(self) -> dict[str, str]:
        """Return the fields that commands and the API list."""
        return {
            "sha": self.sha,
            "type": self.type,
            "run": self.run,
            "codon": self.codon,
            "after": self.after,
        }


def list_checkpoints(records: Records, workspace: str) -> list[RunCheckpoint]:
    """Return every checkpoint of a workspace that it can be restored to, the oldest first."""
    runs = runs_of(records, workspace)
    codons = numbered_below(records, [run.id for run in runs])
    found: list[RunCheckpoint] = []
    left: RunCheckpoint | None = None  # where the latest run with a checkpoint left the workspace
    for run in runs:
        taken = list(_taken(run, codons[run.id]))
        if sha := run.data.get("rescued"):
            # The workspace was like this before the run restored an earlier checkpoint.
            of, done = (left.run, left.done) if left else (run.id, ())
            found.append(RunCheckpoint(sha, RESCUED, of, "", done))
        found += taken
        left = _last_resumable(taken) or left
    return found


def _taken(run: Record[RunData], codons: Sequence[Record[CodonData]]) -> Iterator[RunCheckpoint]:
    """Yield the checkpoints of one run in the order in which they were taken."""
    past, start_index = history(run, codons)
    done = tuple(filter(_counts, past[:start_index]))
    if sha := run.data.get("initial_checkpoint"):
        yield RunCheckpoint(sha, INITIAL, run.id, "", done)
    executions = {execution.record: execution for execution in past}
    for record in codons:
        name, ended = record.data["codon_id"], executions.get(record.id)
        including = (*done, ended) if ended is not None and _counts(ended) else done
        for kind, field in FIELDS.items():
            if found := record.data.get(field):
                counting = including if kind is not CheckpointType.RIG_SETUP else done
                yield RunCheckpoint(str(found), str(kind), run.id, name, counting, record.id)
        done = including


def find_checkpoint(records: Records, workspace: str, name: str) -> RunCheckpoint:
    """Return the checkpoint of a name: the start of an id, CODON:TYPE, last-success or initial.

    Where several fit, it is the newest. Raises CheckpointError.
    """
    known = list_checkpoints(records, workspace)
    if not known:
        raise CheckpointError("no checkpoint was taken here yet")
    if name == LAST_SUCCESS:
        found = [each for each in known if each.type == CheckpointType.COMPLETED]
        return _last(found, "no codon was completed here yet")
    if ":" in name:
        codon, _, kind = name.rpartition(":")
        found = [each for each in known if each.type == kind and each.codon == codon]
        names = sorted({f"{each.codon}:{each.type}" for each in known if each.codon})
        return _last(found, f"there is no checkpoint {name}; there are: {', '.join(names)}")
    if name == INITIAL:
        return known[0]
    if len(name) < PREFIX_LENGTH_MIN:
        raise CheckpointError(f"{name!r} is too short; give {PREFIX_LENGTH_MIN} characters or more")
    found = [each for each in known if each.sha.startswith(name.lower())]
    shas = sorted({each.sha for each in found})
    if len(shas) > 1:
        raise CheckpointError(f"{name} fits {' and '.join(shas[:5])}; give more of the id")
    return _last(found, f"there is no checkpoint {name}; `interlock run checkpoints` lists them")


def resume_checkpoint(records: Records, run: Record[RunData]) -> RunCheckpoint | None:
    """Return the checkpoint from which an ended run is resumed: the last at which a codon is done.

    None where the run ended before its first checkpoint.
    """
    return _last_resumable(_taken(run, codons_of(records, run.id)))


def checkpoint_before(records: Records, run: Record[RunData], codon: str) -> RunCheckpoint:
    """Return the checkpoint before a codon's first execution in a run. Raises CheckpointError.

    The codon before whose start the run ended is accepted too, although it was not executed.
    """
    codons = codons_of(records, run.id)
    executions = [record.id for record in codons if record.data["codon_id"] == codon]
    if not executions and run.data.get("ended", {}).get("codon") != codon:
        problem = f"run {run.id} has not executed {codon}"
        raise CheckpointError(f"{problem}; `interlock run rollback` restores one of an earlier run")
    first = record_number(executions[0]) if executions else sys.maxsize
    found = [
        each
        for each in _taken(run, codons)
        if _is_resumable(each) and (not each.record or record_number(each.record) < first)
    ]
    if not found:
        raise CheckpointError(f"run {run.id} has no checkpoint before {codon}")
    return found[-1]


def _last_resumable(taken: Iterable[RunCheckpoint]) -> RunCheckpoint | None:
    counting = [each for each in taken if _is_resumable(each)]
    return counting[-1] if counting else None


def _is_resumable(checkpoint: RunCheckpoint) -> bool:
    """Return whether a run can be resumed from it: the initial one, or one of a done codon."""
    last = checkpoint.done[-1] if checkpoint.done else None
    return checkpoint.type == INITIAL or (last is not None and last.record == checkpoint.record)


def _counts(execution: Execution) -> bool:
    return execution.status is not CodonEnd.FAILED or execution.ignored


def _last(found: list[RunCheckpoint], problem: str) -> RunCheckpoint:
    if not found:
        raise CheckpointError(problem)
    return found[-1]
