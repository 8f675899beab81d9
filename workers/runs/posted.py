"""Applies one event that was posted to a workspace, or says why not; it reads no inbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import (
    CallError,
    InvalidTransitionError,
    MetadataValidationError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machines.runs.events import CodonStarted, RunEvent, RunStarted, run_event
from interlock.kernel.machines.runs.translation import wanted
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.inboxes import Mail
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.runs.history import codons_of
from interlock.workers.runs.start import begin_again, run_named

PARTY = "events"
# Correct tools never cause these.
DEFECTS = (InvalidTransitionError, MetadataValidationError)


class UnknownCodonError(CallError):
    """An event is about a codon that is not there. Name one that is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an event: the record and its version, or the error and why.

    A `defect` is one of who told it: a state that moved on meanwhile excuses nobody for what no
    table allows.
    """

    applied: bool
    record: str = ""
    version: int = 0
    error: str = ""
    why: str = ""
    defect: bool = False

    def stored(self) -> dict[str, Any]:
        """Return it as a note keeps it."""
        if self.applied:
            return {"record": self.record, "version": self.version}
        return {"error": self.error, "why": self.why, "defect": self.defect}


def apply(dispatch: Dispatch, workspace: Record, mail: Mail) -> Answer:
    """Apply one event. What is wrong with it is answered, and never raised.

    Raises StoreError and ConflictError, after which it may be applied again: it counts once.
    """
    sender = str(mail.said["sender"])
    try:
        record = _applied(dispatch, workspace, run_event(mail.said["event"]), sender, mail.id)
    except CallError as refusal:
        error, defect = type(refusal).__name__, isinstance(refusal, DEFECTS)
        return Answer(applied=False, error=error, why=str(refusal), defect=defect)
    return Answer(applied=True, record=record.id, version=record.version)


def _applied(
    dispatch: Dispatch, workspace: Record, event: RunEvent, sender: str, mail_id: str
) -> Record:
    cause = Cause(PARTY, f"told by {sender}")
    if isinstance(event, RunStarted):
        return begin_again(dispatch, workspace, event.data, cause, op_id=mail_id)
    if isinstance(event, CodonStarted):
        raise UnknownCodonError(
            f"{event.data.codon_id} is not started: a run's conductor starts its codons, in the "
            "order of its plan"
        )
    target = _target(dispatch, workspace, event.data.run_id, getattr(event.data, "codon_id", ""))
    op_id = f"event:{mail_id}"
    if dispatch.op_outcome(target.id, op_id):
        # Applied before, and not answered: where the record stands now says nothing of that.
        return target
    trigger, payload = wanted(event, target.state)
    call = Call(cause, op_id, Warrant.party(PARTY))
    fired = dispatch.fire(target, trigger, payload, call)
    return fired.record or dispatch.views.record(target.id)


def _target(dispatch: Dispatch, workspace: Record, run_id: str, codon_id: str) -> Record:
    run = run_named(dispatch, workspace, run_id)
    if not codon_id:
        return run
    for record in reversed(codons_of(dispatch.views, run.id)):
        if record.data["codon_id"] == codon_id:
            return record
    raise UnknownCodonError(f"there is no codon {codon_id} in run {run.id}")
