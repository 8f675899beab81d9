"""The commands of a job: each verb, its trigger, and when and to whom it is allowed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.kernel.machine import Machine
from interlock.kernel.machines.jobs.job.names import State, Trigger
from interlock.kernel.record import Record

ACTORS = ("person", "producer")


@dataclass(frozen=True, slots=True)
class Verb:
    """One command. A verb that `decides` applies only to the job as the person has seen it."""

    name: str
    trigger: str
    decides: bool = False


VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("config", Trigger.CONFIGURE),
        Verb("activate", Trigger.ACTIVATE, decides=True),
        Verb("step", Trigger.RUN),
        Verb("run", Trigger.RUN),
        Verb("suspend", Trigger.SUSPEND),
        Verb("resume", Trigger.RESUME),
        Verb("pause", Trigger.PAUSE),
        Verb("unpause", Trigger.UNPAUSE),
        Verb("cancel", Trigger.CANCEL),
        Verb("approve", Trigger.APPROVE, decides=True),
        Verb("reject", Trigger.REJECT, decides=True),
        Verb("resubmit", Trigger.RESUBMIT, decides=True),
        Verb("resubmit --to review", Trigger.RESUBMIT_TO_REVIEW, decides=True),
        Verb("terminate", Trigger.TERMINATE, decides=True),
        Verb("force-success", Trigger.FORCE_SUCCESS, decides=True),
        Verb("restep", Trigger.RESTEP, decides=True),
        Verb("waive", Trigger.DEPENDENCY_WAIVED, decides=True),
    )
}
# States that a job leaves only when somebody decides.
GATE_STATES = (
    State.DRAFT,
    State.SUSPENDED,
    State.INTERVENTION_REQUIRED,
    State.SUCCESS,
    State.CANCELED,
    State.FAILED,
)
STEWARD_TRIGGERS = frozenset(
    {
        Trigger.APPROVE,
        Trigger.REJECT,
        Trigger.RESUBMIT,
        Trigger.RESUBMIT_TO_REVIEW,
        Trigger.TERMINATE,
        Trigger.FORCE_SUCCESS,
        Trigger.RESTEP,
        Trigger.DEPENDENCY_WAIVED,
    }
)


def next_steps(machine: Machine, record: Record) -> str:
    """Return a sentence with the verbs that are legal now, each with who may use it."""
    found = [
        f"{verb.name} ({who})"
        for verb in VERBS.values()
        if (who := _who_may(machine, record, verb))
    ]
    if not found:
        return "nothing is legal here: it has ended"
    return f"legal now: {', '.join(found)}"


def legal_verbs(machine: Machine, record: Record) -> list[str]:
    """Return the verbs that are legal in a job's present state."""
    return [verb.name for verb in VERBS.values() if _who_may(machine, record, verb)]


def _who_may(machine: Machine, record: Record, verb: Verb) -> str:
    """Return who may use a verb on a job now, or '' if nobody may."""
    rows = machine.rows(record.state, str(verb.trigger))
    actors = [actor for actor in ACTORS if any(actor in row.by for row in rows)]
    if not actors or (verb.trigger == Trigger.DEPENDENCY_WAIVED and not record.data["lost"]):
        return ""
    stewards = record.data["stewards"]
    if verb.trigger in STEWARD_TRIGGERS and stewards:
        return " or ".join(stewards)
    return " or ".join(actors)


def at_gate(record: Record) -> bool:
    """Whether a job stays as it is until somebody decides."""
    match record.state:
        case State.PENDING:
            return bool(record.data["lost"])
        case State.PAUSED:
            return not record.data.get("paused_s")
        case State.APPROVAL_REQUIRED:
            return not record.data["auto_approve"]
        case _:
            return record.state in GATE_STATES
