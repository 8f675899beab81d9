"""What is asked of a call before the store is: who may make it, and whether it can be counted."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.effect import CASCADE
from interlock.kernel.errors import HeldError, InvalidPayloadError
from interlock.kernel.machine import Decision, Machine
from interlock.kernel.store.commands import NO_WARRANT, InitialLease, Warrant
from interlock.kernel.table import ORPHANS, PERSON, PRODUCER, STALLS

OP_ID_LENGTH_MAX = 512
DELTA_MAX = 2**53  # what a script can count exactly


def kept(decision: Decision, initial_lease: InitialLease | None) -> None:
    """Refuse a decision that owes a kept effect without a lease: it has no message."""
    names = [owed.effect.name for owed in decision.owes if owed.effect.kept]
    if names and initial_lease is None:
        why = f"whoever takes it holds its {names[0]} from then on; claim it, do not fire it"
        raise HeldError(decision.after.id, why)


def unauthorised(machine: Machine, decision: Decision, warrant: Warrant) -> str:
    """Say why this warrant does not entitle to this row, or nothing.

    Who fires a row is part of the table: no producer reports an effect's outcome, no effect decides
    for a person.
    """
    match warrant.kind:
        case "token":
            names = {e.name for e in decision.before.entries if e.suffix == warrant.words[0]}
        case "lapsed" | "exhausted":
            names = {ORPHANS}
        case "due":
            names = {STALLS}
        case "component":
            names = {warrant.words[0]}
        case _:
            # A parent's end closes its children: the cascade's lease is one of the parent's.
            closes = decision.trigger == machine.close_trigger
            names = {PRODUCER, PERSON} | ({CASCADE.name} if closes else set())
    if decision.by and names and not names & set(decision.by):
        return f"{' or '.join(decision.by)} fires it, under a warrant of its own"
    if decision.names_proposal and warrant.kind == NO_WARRANT.kind:
        return "a person fires it, naming the proposal that was seen"
    return ""


def countable(deltas: Mapping[str, int]) -> None:
    """Refuse what a script cannot count exactly."""
    bad = [name for name, n in deltas.items() if type(n) is not int or abs(n) > DELTA_MAX]
    if bad:
        raise InvalidPayloadError("the deltas", [f"{name} is no integer to count" for name in bad])


def summed(said: Mapping[str, int], decided: Mapping[str, int]) -> Mapping[str, int]:
    """Return what a commit adds to counters. Raises InvalidPayloadError where both name one."""
    if twice := said.keys() & decided.keys():
        problem = f"{', '.join(sorted(twice))} follows from the record's data and is not told"
        raise InvalidPayloadError("the deltas", [problem])
    return {**said, **{name: n for name, n in decided.items() if n}}


def nameable(op_id: str) -> None:
    """Refuse what is no name for a call."""
    if not 0 < len(op_id) <= OP_ID_LENGTH_MAX:
        raise InvalidPayloadError(
            "the op-id", [f"it has {len(op_id)} characters, not 1 to {OP_ID_LENGTH_MAX}"]
        )
