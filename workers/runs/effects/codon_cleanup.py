"""Ends what an ended run left open: its codon fails, and says so. A repetition finds nothing."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.machines.runs.codon.names import SELF
from interlock.kernel.record import Record, parent_of, root_of
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.table import Terminal
from interlock.workers.engine.work import Work

PARTY = "clearance"


def clearance(work: Work) -> None:
    """Fail the codon of a run that has ended; one whose run goes on is let be."""
    codon = work.dispatch.views.holds(root_of(work.record.id)).get(SELF)
    if codon is None:
        return
    run = _run_of(work, codon)
    if run is None or not isinstance(work.dispatch.machines["run"].stage(run.state), Terminal):
        return
    why = f"its run {run.id} is {run.state}"
    call = Call(Cause(PARTY, why), f"run_ended:{codon}", Warrant.party(PARTY))
    with suppress(CallError):
        work.dispatch.fire(codon, "run_ended", {"reason": why}, call)


def _run_of(work: Work, codon: str) -> Record | None:
    with suppress(UnknownRecordError):
        return work.dispatch.views.record(str(parent_of(codon)))
    return None
