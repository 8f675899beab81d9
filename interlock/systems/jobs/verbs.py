"""The table of the commands of a job, and which of them are legal now, for whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock import CallError, Machine
from interlock.system.tables import Record
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger

ACTORS = ("person", "producer")
# A verb with a trigger of its own; on the command line it is an option of `resubmit`.
REVIEW_AGAIN = "resubmit --to review"


@dataclass(frozen=True, slots=True)
class Verb:
    """One command of a job.

    - `options` are the keys of `cli.OPTIONS` that its command line takes, in the order of its help.
    - `for_graph`: the command line also gives it to all jobs of a graph.
    - `decides`: it applies only to the job as the person has seen it.
    - `confirmed`: without a proposal, the command line shows the job and asks the person first.
    - `steward`: where the job has stewards, only they may use it.
    """

    name: str
    trigger: str
    help: str
    options: tuple[str, ...] = ()
    for_graph: bool = False
    decides: bool = False
    confirmed: bool = False
    steward: bool = False


VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "config",
            Trigger.CONFIGURE,
            "Change a draft, or the slots and limits of a graph. A raised limit ends a halt.",
        ),
        Verb(
            "activate",
            Trigger.ACTIVATE,
            "Let a draft, or all drafts of a graph, run as soon as their dependencies have"
            " succeeded.",
            for_graph=True,
            decides=True,
        ),
        Verb(
            "step",
            Trigger.RUN,
            "Run the worker once, or the reviewer if that is next, and wait for it.",
        ),
        Verb(
            "run",
            Trigger.RUN,
            "Let a job go on until somebody has to decide, or until it has ended.",
        ),
        Verb(
            "suspend",
            Trigger.SUSPEND,
            "Suspend a job; its running worker is stopped, and its results are kept.",
            ("reason",),
            for_graph=True,
        ),
        Verb(
            "resume",
            Trigger.RESUME,
            "Continue a suspended job where it was.",
            ("reason",),
            for_graph=True,
        ),
        Verb(
            "pause",
            Trigger.PAUSE,
            "Stop the worker of a running job, for some time or until unpause.",
            ("for_s", "reason"),
            for_graph=True,
        ),
        Verb(
            "unpause",
            Trigger.UNPAUSE,
            "End a pause.",
            ("reason",),
            for_graph=True,
        ),
        Verb(
            "cancel",
            Trigger.CANCEL,
            "Cancel a job, or all jobs of a graph; running workers are stopped.",
            ("reason",),
            for_graph=True,
        ),
        Verb(
            "approve",
            Trigger.APPROVE,
            "Sign a job off: it has succeeded, and the jobs that depend on it go on.",
            ("proposal", "reason"),
            decides=True,
            confirmed=True,
            steward=True,
        ),
        Verb(
            "reject",
            Trigger.REJECT,
            "Send a job back for more work; its worker gets the reason as guidance.",
            ("required reason", "proposal", "phase"),
            decides=True,
            confirmed=True,
            steward=True,
        ),
        Verb(
            "resubmit",
            Trigger.RESUBMIT,
            "After an intervention, work on a job again or review it again. Its worker, reviewer,"
            " objective, acceptance criteria and limits may be changed with that.",
            (
                *("to", "guidance", "phase", "worker", "objective", "repairs"),
                *("cost", "time", "iterations", "proposal"),
            ),
            decides=True,
            steward=True,
        ),
        Verb(
            REVIEW_AGAIN,
            Trigger.RESUBMIT_TO_REVIEW,
            "After an intervention, review a job again.",
            decides=True,
            steward=True,
        ),
        Verb(
            "terminate",
            Trigger.TERMINATE,
            "Cancel a job that needs an intervention.",
            ("reason", "proposal"),
            decides=True,
            steward=True,
        ),
        Verb(
            "force-success",
            Trigger.FORCE_SUCCESS,
            "Make a job a success whatever its state is, as a steward; the reason is logged.",
            ("required reason", "proposal"),
            decides=True,
            steward=True,
        ),
        Verb(
            "restep",
            Trigger.RESTEP,
            "Go back to an earlier phase of a job that is not running.",
            ("required phase", "guidance", "proposal"),
            decides=True,
            steward=True,
        ),
        Verb(
            "waive",
            Trigger.DEPENDENCY_WAIVED,
            "Let a starved job go on without a lost dependency, or without all that it lost.",
            ("dependency", "reason", "proposal"),
            decides=True,
            steward=True,
        ),
    )
}
# The command for each trigger; of two verbs with one trigger, the one that goes on by itself.
BY_HAND = {f"job.{verb.trigger}": f"job {verb.name} {{id}}" for verb in VERBS.values()}
# States that a job leaves only when somebody decides.
GATE_STATES = (
    State.DRAFT,
    State.INTERVENTION_REQUIRED,
    State.SUCCESS,
    State.CANCELED,
    State.FAILED,
)


def verb_named(name: str) -> Verb:
    """Return a verb. Raises CallError if there is none of this name."""
    if name not in VERBS:
        raise CallError(f"{name!r} is no command of a job; there are: {', '.join(VERBS)}")
    return VERBS[name]


def next_steps(machine: Machine, record: Record[JobData]) -> str:
    """Return a sentence with the verbs that are legal now, each with who may use it."""
    found = [
        f"{verb.name} ({who})"
        for verb in VERBS.values()
        if (who := _who_may(machine, record, verb))
    ]
    if not found:
        return "nothing is legal here: it has ended"
    return f"legal now: {', '.join(found)}"


def legal_verbs(machine: Machine, record: Record[JobData]) -> list[str]:
    """Return the verbs that are legal in a job's present state."""
    return [verb.name for verb in VERBS.values() if _who_may(machine, record, verb)]


def _who_may(machine: Machine, record: Record[JobData], verb: Verb) -> str:
    """Return who may use a verb on a job now, or '' if nobody may."""
    rows = machine.rows(record.state, str(verb.trigger))
    actors = [actor for actor in ACTORS if any(actor in row.by for row in rows)]
    data, is_suspended = record.data, record.state == State.SUSPENDED
    pointless: dict[str, bool] = {
        Trigger.DEPENDENCY_WAIVED: not data["lost"],
        Trigger.SUSPEND: is_suspended and not data.get("suspended_s"),
    }
    if not actors or pointless.get(verb.trigger):
        return ""
    return " or ".join((verb.steward and record.data["stewards"]) or actors)


def at_gate(record: Record[JobData]) -> bool:
    """Whether a job stays as it is until somebody decides."""
    match record.state:
        case State.PENDING:
            return bool(record.data["lost"])
        case State.PAUSED:
            return not record.data.get("paused_s")
        case State.SUSPENDED:
            return not record.data.get("suspended_s")
        case State.APPROVAL_REQUIRED:
            return not record.data["auto_approve"]
        case _:
            return record.state in GATE_STATES
