"""Applies the events that were delivered to a workspace, in their order, and answers each.

A repetition applies no event twice, because each is fired with the id of its mail as op-id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interlock import CallError, EffectWork, Outcome
from interlock.system.errors import GuardRefusedError
from interlock.system.records import Mail, NotYetError, Records
from interlock.system.tables import Record
from interlock.systems.runs.history import codons_of
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.errors import InvalidTransitionError, MetadataValidationError
from interlock.systems.runs.machines.events import CodonStarted, RunEvent, RunStarted, run_event
from interlock.systems.runs.machines.published_names import published_error
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.translation import wanted
from interlock.systems.runs.machines.workspace.table import State, Trigger, WorkspaceData
from interlock.systems.runs.start import find_run, start_run_from_event

PAGE = 100  # posted events that are read at one time
# Errors that the sender of an event could have avoided, whatever the state of the record.
DEFECTS = (InvalidTransitionError, MetadataValidationError)


class UnknownCodonError(CallError):
    """An event is about a codon that its run does not have. Name one that it has."""


@dataclass(frozen=True, slots=True)
class EventResult:
    """The result of an event: the record and its new version, or the error and its message.

    `defect` marks an error that the sender could have avoided: the tables allow this event in no
    state, so it was not refused because the record changed meanwhile.
    """

    applied: bool
    record: str = ""
    version: int = 0
    error: str = ""
    why: str = ""
    defect: bool = False

    def stored(self) -> dict[str, Any]:
        """Return it as the note of the answer stores it."""
        if self.applied:
            return {"record": self.record, "version": self.version}
        return {"error": self.error, "why": self.why, "defect": self.defect}


def apply_events(work: EffectWork) -> None:
    """Apply the delivered events of a workspace. An event that is refused is answered too."""
    while True:
        workspace: Record[WorkspaceData] = work.records.views.record(work.record.id)
        if workspace.state != State.OPEN:
            return
        _refuse_second_reader(work, workspace)
        cursor = workspace.data["acknowledged"]
        mails = work.records.inboxes.after(workspace.id, cursor, PAGE)
        if not mails:
            return
        for mail in mails:
            work.raise_if_stopped()
            if work.held.left_s <= 0 or not _read(work, workspace, mail):
                return


def _refuse_second_reader(work: EffectWork, workspace: Record[WorkspaceData]) -> None:
    """Raise NotYetError, which tries again later, while an older lease of this effect reads."""
    own_number = _number(work.lease.token)
    for entry in workspace.entries:
        is_reader = entry.name == work.lease.name and entry.is_leased
        is_other = entry.suffix != work.lease.suffix
        if is_reader and is_other and _number(entry.token) < own_number:
            raise NotYetError("another worker reads the delivered events")


def _read(work: EffectWork, workspace: Record[WorkspaceData], mail: Mail) -> bool:
    """Apply one event, answer it, and mark it as read; return False where another worker did."""
    result = apply_event(work.records, workspace, mail)
    about = {"mail": mail.id, "sender": mail.fields["sender"], "type": mail.fields["event"]["type"]}
    kind = "event_applied" if result.applied else "event_refused"
    detail, op_id = {**about, **result.stored()}, f"answer:{mail.id}"
    work.retried(lambda: work.records.note(workspace, kind, detail, op_id=op_id))
    try:
        work.fire(Outcome(Trigger.EVENT_READ, {"upto": mail.id}))
    except GuardRefusedError:
        return False
    return True


def _number(token: str) -> int:
    return int(token.partition("-")[0])


def apply_event(records: Records, workspace: Record[WorkspaceData], mail: Mail) -> EventResult:
    """Apply one event. An error of the event is part of the result, and is not raised.

    Raises StoreError, ConflictError and AnotherVersionError. The call can be repeated: the
    event still counts once.
    """
    sender = str(mail.fields["sender"])
    try:
        record = _applied(records, workspace, run_event(mail.fields["event"]), sender, mail.id)
    except CallError as error_of_event:
        # An event in the page's names is answered in them.
        is_theirs = "names" in mail.fields
        refusal = published_error(error_of_event) if is_theirs else error_of_event
        error, defect = type(refusal).__name__, isinstance(refusal, DEFECTS)
        return EventResult(applied=False, error=error, why=str(refusal), defect=defect)
    return EventResult(applied=True, record=record.id, version=record.version)


def _applied(
    records: Records, workspace: Record[WorkspaceData], event: RunEvent, sender: str, mail_id: str
) -> Record:
    reason = f"sent by {sender}"
    if isinstance(event, RunStarted):
        return start_run_from_event(records, workspace, event.data, f"{reason} ({mail_id})")
    if isinstance(event, CodonStarted):
        raise UnknownCodonError(
            f"{event.data.codon_id} is not started: a run's supervisor starts its codons, in the "
            "order of its plan"
        )
    target = _target(records, workspace, event.data.run_id, getattr(event.data, "codon_id", ""))
    op_id = f"event:{mail_id}"
    if records.was_made(target.id, op_id):
        # It was applied before, but not answered. The record's state may have changed since.
        return target
    trigger, payload = wanted(event, target.state)
    fired = records.fire(target, trigger, payload, op_id=op_id, reason=reason)
    return fired.record or records.views.record(target.id)


def _target(
    records: Records, workspace: Record[WorkspaceData], run_id: str, codon_id: str
) -> Record[RunData] | Record[CodonData]:
    run = find_run(records, workspace, run_id)
    if not codon_id:
        return run
    record: Record[CodonData]
    for record in reversed(codons_of(records, run.id)):
        if record.data["codon_id"] == codon_id:
            return record
    raise UnknownCodonError(f"there is no codon {codon_id} in run {run.id}")
