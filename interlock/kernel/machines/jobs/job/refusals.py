"""Why the guards of a job's rows refuse, in sentences for people."""

from __future__ import annotations

from interlock.kernel.machines.jobs.job import changes, repairs
from interlock.kernel.machines.jobs.stewards import only_stewards, steward
from interlock.kernel.table import Ask

NOT_YET = (
    "a dependency is missing or lost, or it waits for a person or before a retry: "
    "`interlock job show` says which"
)
ALREADY_MET = "its dependencies are met already, or one of them is lost"
ALREADY_LOST = "it is known already that this dependency is lost"
LAST_PHASE = "it is in its last phase, which ends with agent_completed"
HELD_ALREADY = "it is suspended already, until a person resumes it"


def not_waivable(ask: Ask) -> str:
    """Return why a dependency is not waived."""
    if not steward(ask):
        return only_stewards(ask)
    if not ask.data["lost"]:
        return "it has lost no dependency"
    return f"{ask.payload['dependency']} is not among the dependencies that it has lost"


def no_phase(ask: Ask) -> str:
    """Return why the job does not go back to a phase."""
    if not steward(ask):
        return only_stewards(ask)
    reached = ", ".join(changes.phases_reached(ask.data)["phase"])
    return f"{ask.payload['phase']!r} is none of the phases that it has come to: {reached}"


def not_resubmitted(ask: Ask) -> str:
    """Return why the job is not worked on again."""
    return no_phase(ask) if not changes.knows_phase(ask) else _no_place(ask)


def not_reviewed_again(ask: Ask) -> str:
    """Return why the job is not reviewed again."""
    return only_stewards(ask) if not steward(ask) else _no_place(ask)


def _no_place(ask: Ask) -> str:
    return (
        f"its {repairs.placeless(ask)} can only be a capability: the job has only capabilities, "
        "and no host on which a command or a model would run; create a new job for that"
    )
