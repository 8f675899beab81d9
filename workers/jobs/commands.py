"""What a person or producer may tell a job: each verb, its trigger, and when it is legal. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.kernel.machine import Machine
from interlock.kernel.machines.jobs.job.names import State, Trigger
from interlock.kernel.record import Record

PEOPLE = ("person", "producer")


@dataclass(frozen=True, slots=True)
class Verb:
    """One command. `decides`: it is about the job as it was seen."""

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
# Where a job stands until somebody decides, whatever its data say.
STOPS = (
    State.DRAFT,
    State.SUSPENDED,
    State.INTERVENTION_REQUIRED,
    State.SUCCESS,
    State.CANCELED,
    State.FAILED,
)
OF_STEWARDS = frozenset(
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
    """Say what would be legal now, and who may do it."""
    found = [
        f"{verb.name} ({who})" for verb in VERBS.values() if (who := _who(machine, record, verb))
    ]
    if not found:
        return "nothing is legal here: it has ended"
    return f"legal now: {', '.join(found)}"


def legal(machine: Machine, record: Record) -> list[str]:
    """Return the verbs that have a row in a job's state."""
    return [verb.name for verb in VERBS.values() if _who(machine, record, verb)]


def _who(machine: Machine, record: Record, verb: Verb) -> str:
    """Return who may tell a job this now, or ''."""
    rows = machine.rows(record.state, str(verb.trigger))
    people = [one for one in PEOPLE if any(one in row.by for row in rows)]
    if not people or (verb.trigger == Trigger.DEPENDENCY_WAIVED and not record.data["lost"]):
        return ""
    stewards = record.data["stewards"]
    if verb.trigger in OF_STEWARDS and stewards:
        return " or ".join(stewards)
    return " or ".join(people)


def gate(record: Record) -> bool:
    """Whether nothing more happens to a job before somebody decides."""
    match record.state:
        case State.PENDING:
            return bool(record.data["lost"])
        case State.PAUSED:
            return not record.data.get("paused_s")
        case State.APPROVAL_REQUIRED:
            return not record.data["auto_approve"]
        case _:
            return record.state in STOPS
