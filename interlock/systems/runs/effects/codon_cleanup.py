"""Fails the codon that a run left running when it ended."""

from __future__ import annotations

from contextlib import suppress

from interlock import CallError, EffectWork, Terminal
from interlock.system.errors import UnknownRecordError
from interlock.system.tables import Record
from interlock.systems.runs.machines.codon.names import SELF, Trigger


def clean_up_codon(work: EffectWork) -> None:
    """Fail the codon that holds the workspace, if its run has ended; else change nothing."""
    codon_id = work.records.views.holds(work.record.root).get(SELF)
    if codon_id is None:
        return
    run = _run_of(work, codon_id)
    if run is None or not isinstance(work.records.machines["run"].stage(run.state), Terminal):
        return
    reason = f"its run {run.id} is {run.state}"
    payload, op_id = {"reason": reason}, f"run_ended:{codon_id}"
    with suppress(CallError):
        work.records.fire(codon_id, Trigger.RUN_ENDED, payload, op_id=op_id)


def _run_of(work: EffectWork, codon_id: str) -> Record | None:
    with suppress(UnknownRecordError):
        return work.records.views.record(codon_id.rpartition("/")[0])
    return None
