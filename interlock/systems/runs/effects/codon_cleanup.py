"""Fails the codon that a run left running when it ended."""

from __future__ import annotations

from contextlib import suppress

from interlock import CallError, EffectWork, Terminal
from interlock.system.errors import UnknownRecordError
from interlock.system.records import Call, Warrant
from interlock.system.tables import Cause, Record, parent_of, root_of
from interlock.systems.runs.machines.codon.names import SELF

COMPONENT = "codon_cleanup"


def clean_up_codon(work: EffectWork) -> None:
    """Fail the codon that holds the workspace, if its run has ended; else change nothing."""
    codon_id = work.dispatch.views.holds(root_of(work.record.id)).get(SELF)
    if codon_id is None:
        return
    run = _run_of(work, codon_id)
    if run is None or not isinstance(work.dispatch.machines["run"].stage(run.state), Terminal):
        return
    reason = f"its run {run.id} is {run.state}"
    call = Call(Cause(COMPONENT), f"run_ended:{codon_id}", Warrant.component(COMPONENT))
    with suppress(CallError):
        work.dispatch.lifecycle.fire(codon_id, "run_ended", {"reason": reason}, call)


def _run_of(work: EffectWork, codon_id: str) -> Record | None:
    with suppress(UnknownRecordError):
        return work.dispatch.views.record(str(parent_of(codon_id)))
    return None
