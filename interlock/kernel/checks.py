"""Checks a call: its warrant, its op-id and its deltas, and what the store answered to a create."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.decision import Decision
from interlock.kernel.effect import CASCADE, Kind
from interlock.kernel.errors import (
    AnotherChildError,
    ClosedParentError,
    HeldError,
    IdTakenError,
    InvalidIdError,
    InvalidPayloadError,
)
from interlock.kernel.machine import Machine
from interlock.kernel.store.commands import NO_WARRANT, Answer, InitialLease, Offer, Warrant
from interlock.kernel.table import ORPHANS, PERSON, PRODUCER, STALLS

IN_THE_WAY = {
    "held": "{} holds what it needs",
    "paused": "it is paused",
    "over": "its family has no run left",
    "busy": "what its effects share may not be free before {} ms of the store's clock",
}
OP_ID_LENGTH_MAX = 512


def lease_wanted(
    decision: Decision, initial_lease: InitialLease | Offer | None
) -> InitialLease | None:
    """Return the initial lease that a caller wants of what a decision owes; a function is asked.

    Refuses a decision by which a kept effect would be owed that nobody holds: it is never
    published, so the caller must hold its lease from the start.
    """
    if callable(initial_lease):
        of_state = (owed for owed in decision.owes if owed.kind is Kind.STATE)
        initial_lease = next((initial_lease(decision.after, owed) for owed in of_state), None)
    names = [owed.effect.name for owed in decision.owes if owed.effect.kept]
    if names and initial_lease is None:
        why = f"its {names[0]} needs a holder from the start; claim it, do not fire it"
        raise HeldError(decision.after.id, why)
    return initial_lease


def unauthorised(machine: Machine, decision: Decision, warrant: Warrant) -> str:
    """Return why this warrant does not entitle its holder to fire this row, or ''.

    The table names who may fire a row: no producer reports an effect's outcome, and no effect
    decides for a person. A call without a lease may come from a person or from a producer: only a
    row that requires the proposal tells them apart.
    """
    match warrant.kind:
        case "token":
            names = {e.name for e in decision.before.entries if e.suffix == warrant.proof[0]}
        case "lapsed" | "exhausted":
            names = {ORPHANS}
        case "due":
            names = {STALLS}
        case "component":
            names = {warrant.proof[0]}
        case _:
            # A cascade that closes children holds a lease of their parent, and none of theirs.
            closes = decision.trigger == machine.close_trigger
            names = {PRODUCER, PERSON} | ({CASCADE.name} if closes else set())
    if decision.by and names and not names & set(decision.by):
        return f"only {' or '.join(decision.by)} may fire it"
    if decision.names_proposal and warrant.kind == NO_WARRANT.kind:
        return "a person fires it, and must say what was seen: the card's proposal, or the version"
    return ""


def check_created(new_id: str, answer: Answer) -> None:
    """Raise the error for a record that the store did not create, unless it did so before."""
    match answer.status:
        case "taken":
            raise IdTakenError(new_id)
        case "another":
            raise AnotherChildError(new_id)
        case "held":
            raise HeldError(new_id, f"{answer.detail} holds what it needs")
        case "below":
            why = f"only the {answer.detail} creates records below its id"
            raise InvalidIdError(new_id, f"{why}; choose another name before the /")
        case "closed":
            raise ClosedParentError(new_id.rpartition("/")[0])


def obstacle(decision: Decision, answer: Answer) -> HeldError:
    """Return the error for a decision that something stands in the way of."""
    why, shares = IN_THE_WAY[answer.status], decision.shares
    needs = shares.takes if shares and answer.status == "held" else ()
    return HeldError(decision.before.id, why.format(answer.detail), needs)


def check_op_id(op_id: str) -> None:
    """Refuse an op-id that is empty, too long, or no text."""
    if not 0 < len(op_id) <= OP_ID_LENGTH_MAX:
        raise InvalidPayloadError(
            "the op-id", [f"it has {len(op_id)} characters, not 1 to {OP_ID_LENGTH_MAX}"]
        )
    try:
        op_id.encode()
    except UnicodeEncodeError:
        why = "it has a lone surrogate, which is no text"
        raise InvalidPayloadError("the op-id", [why]) from None


def merged_deltas(given: Mapping[str, int], decided: Mapping[str, int]) -> Mapping[str, int]:
    """Return the deltas of a caller together with those that follow from the record's data.

    Raises InvalidPayloadError where both have the same name.
    """
    if twice := given.keys() & decided.keys():
        problem = f"{', '.join(sorted(twice))} follows from the record's data; leave it out"
        raise InvalidPayloadError("the deltas", [problem])
    return {**given, **{name: n for name, n in decided.items() if n}}


def deltas_of(given: Mapping[str, int], decision: Decision) -> list[Mapping[str, int]]:
    """Return the deltas of each transition of a decision; those of a caller go with the first.

    Raises InvalidPayloadError where the caller counts under a name that follows from the data.
    """
    merged_deltas(given, decision.deltas)
    return [
        merged_deltas(given if hop is decision.hops[0] else {}, hop.deltas) for hop in decision.hops
    ]
