"""The checkpoints of a workspace's runs, as their records know them; it opens no git store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.kernel.errors import CallError
from interlock.kernel.machines.runs.values import CheckpointType
from interlock.kernel.record import Record, root_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.runs.history import codons_of, history, number_of
from interlock.workers.runs.outcome import Ended
from interlock.workers.runs.sequence import Execution
from interlock.workers.runs.start import runs_of

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
    """No one checkpoint is meant. The message says which there are, or what to write."""


@dataclass(frozen=True, slots=True)
class Known:
    """One checkpoint: its id, when it was taken, of which codon of which run.

    `done` are the executions that count once the workspace is back there.
    """

    sha: str
    type: str
    run: str
    codon: str
    done: tuple[Execution, ...]
    record: str = ""  # that of its codon

    @property
    def after(self) -> str:
        """Return the last codon that counts there; '' is before all."""
        return self.done[-1].runtime_id if self.done else ""


def checkpoints(dispatch: Dispatch, workspace: str) -> list[Known]:
    """Return every checkpoint of a workspace that can be gone back to, the oldest first."""
    return [one for run in runs_of(dispatch, workspace) for one in of_run(dispatch, run)]


def of_run(dispatch: Dispatch, run: Record) -> Iterator[Known]:
    """Yield the checkpoints of one run, in the order in which they were taken."""
    if sha := run.data.get("rescued"):
        yield _rescued(dispatch, run, str(sha))
    yield from _taken(dispatch, run)


def _rescued(dispatch: Dispatch, run: Record, sha: str) -> Known:
    """Return what the workspace was before a run went back: what the last one to begin left."""
    for number in range(number_of(run.id) - 1, 0, -1):
        before = dispatch.views.record(f"{root_of(run.id)}/{number}")
        if found := going_on(dispatch, before):
            return Known(sha, RESCUED, before.id, "", found.done)
    return Known(sha, RESCUED, run.id, "", ())


def _taken(dispatch: Dispatch, run: Record) -> Iterator[Known]:
    codons = codons_of(dispatch.views, run.id)
    past, begins = history(run, codons)
    done = tuple(filter(_counts, past[:begins]))
    if sha := run.data.get("initial_checkpoint"):
        yield Known(str(sha), INITIAL, run.id, "", done)
    executions = {one.record: one for one in past}
    for record in codons:
        name, ended = str(record.data["codon_id"]), executions.get(record.id)
        upto = (*done, ended) if ended is not None and _counts(ended) else done
        for kind, field in FIELDS.items():
            if sha := record.data.get(field):
                at_end = upto if kind is not CheckpointType.RIG_SETUP else done
                yield Known(str(sha), str(kind), run.id, name, at_end, record.id)
        done = upto


def named(dispatch: Dispatch, workspace: str, name: str) -> Known:
    """Return the checkpoint that somebody means: an id's beginning, CODON:TYPE or last-success.

    Of several of a codon the newest is meant. Raises CheckpointError.
    """
    known = checkpoints(dispatch, workspace)
    if not known:
        raise CheckpointError("no checkpoint was taken here yet")
    if name == LAST_SUCCESS:
        found = [one for one in known if one.type == CheckpointType.COMPLETED]
        return _last(found, "no codon was completed here yet")
    if ":" in name:
        codon, _, kind = name.rpartition(":")
        found = [one for one in known if one.type == kind and one.codon == codon]
        names = sorted({f"{one.codon}:{one.type}" for one in known if one.codon})
        return _last(found, f"there is no checkpoint {name}; there are: {', '.join(names)}")
    if name == INITIAL:
        return known[0]
    if len(name) < PREFIX_LENGTH_MIN:
        raise CheckpointError(f"{name!r} is too short; give {PREFIX_LENGTH_MIN} characters or more")
    found = [one for one in known if one.sha.startswith(name.lower())]
    shas = sorted({one.sha for one in found})
    if len(shas) > 1:
        raise CheckpointError(f"{name} may be {' or '.join(shas[:5])}; give more of the id")
    return _last(found, f"there is no checkpoint {name}; `interlock run checkpoints` lists them")


def going_on(dispatch: Dispatch, run: Record) -> Known | None:
    """Return where a run that has ended is gone on with: its last checkpoint that counts."""
    counting = [one for one in _taken(dispatch, run) if _is_end(one)]
    return counting[-1] if counting else None


def before(dispatch: Dispatch, run: Record, codon: str) -> Known:
    """Return the checkpoint before a codon's first execution in a run. Raises CheckpointError.

    One at which the run has ended, without beginning it, is as good as one that failed.
    """
    executions = [one.id for one in codons_of(dispatch.views, run.id) if _is(one, codon)]
    if not executions and run.data.get("ended", {}).get("codon") != codon:
        problem = f"run {run.id} has not executed {codon}"
        raise CheckpointError(f"{problem}; `interlock run rollback` goes back to an earlier run")
    first = number_of(executions[0]) if executions else sys.maxsize
    found = [
        one
        for one in _taken(dispatch, run)
        if _is_end(one) and (not one.record or number_of(one.record) < first)
    ]
    if not found:
        raise CheckpointError(f"run {run.id} has no checkpoint before {codon}")
    return found[-1]


def _is(record: Record, codon: str) -> bool:
    return bool(record.data["codon_id"] == codon)


def _is_end(one: Known) -> bool:
    """Whether a run can go on from there: from its beginning, or from after a codon that counts."""
    return one.type == INITIAL or bool(one.done and one.done[-1].record == one.record)


def _counts(one: Execution) -> bool:
    return one.status is not Ended.FAILED or one.ignored


def _last(found: list[Known], problem: str) -> Known:
    if not found:
        raise CheckpointError(problem)
    return found[-1]
