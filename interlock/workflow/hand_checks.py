"""What the import refuses of rows by hand, and of names of a workflow's parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel

from interlock.kernel.table import PERSON, PRODUCER, Mode, Transition
from interlock.workflow.names import (
    CANCEL,
    OF_EVERY_WORKFLOW,
    after,
    all_in,
    calls_of_waits,
    ends_of,
    families_of,
    one_lost,
    targets,
    triggers_of_choices,
    triggers_of_unclear,
    unclear_states,
)
from interlock.workflow.parts import Declared, HandRows, NamedPart, StepPart
from interlock.workflow.place import SourceLine
from interlock.workflow.value_checks import check_name


def check_named(flow: Declared, part: NamedPart, rows: Sequence[Transition]) -> None:
    """Refuse the name of a part that the workflow has not. Raises WorkflowError.

    A row by hand that names a trigger so does not make it one.
    """
    names = [id(named.member) for named in flow.named]
    triggers = (str(row.trigger) for row in rows if id(row.trigger) not in names)
    known = _states(flow) if part.kind == "state" else [*dict.fromkeys(triggers)]
    if part.member not in known:
        name = str(part.member)
        raise part.place.error(f"{name!r} is no {part.kind} of {flow.name}: {', '.join(known)}")


def check_by_hand(flow: Declared) -> None:
    """Refuse rows by hand that do not fit the workflow. Raises WorkflowError."""
    models: dict[str, type[BaseModel] | None] = {}
    own = _own_triggers(flow)
    for hand in flow.by_hand:
        for row in hand.transitions:
            _row(flow, hand.place, row, own)
        _payloads(flow, hand, models)


def _row(flow: Declared, place: SourceLine, row: Transition, own: Collection[str]) -> None:
    trigger, source, known = str(row.trigger), str(row.source), _states(flow)
    check_name(place, "trigger", trigger)
    for state in (source, str(row.target)):
        if state not in known:
            raise place.error(f"{state!r} is no state of {flow.name}: {', '.join(known)}")
    if source in ends_of(flow):
        raise place.error(f"{source} is an end of {flow.name}, which no row leaves")
    if trigger in own:
        raise place.error(f"{trigger} is fired by the workflow itself: name another trigger")
    if not row.by or set(row.by) - {PERSON, PRODUCER}:
        who = ", ".join(row.by) or "nobody"
        raise place.error(
            f"{trigger} is fired by {who}: a row by hand is for calls, as in by(PERSON, PRODUCER)"
        )
    if row.mode is Mode.CARRY:
        raise place.error(f"{trigger} would carry the work of {source} along: write move(...)")
    step = flow.states.get(source)
    if not isinstance(step, StepPart):
        return
    if row.mode is Mode.INTERNAL and row.update:
        raise place.error(
            f"{trigger} would change the data while {source} is at work: a call does that and is "
            f"merged, as in @{flow.name}.on({trigger!r})"
        )
    if row.mode is not Mode.INTERNAL and step.once:
        raise place.error(f"{source} may be done once: only its own end leads out of it")


def _payloads(flow: Declared, hand: HandRows, models: dict[str, type[BaseModel] | None]) -> None:
    """Refuse models of triggers that have another one, or that no row of these has."""
    if not isinstance(hand.payloads, Mapping):
        raise hand.place.error(f"payloads={hand.payloads!r} is no mapping of triggers to models")
    triggers = {str(row.trigger): None for row in hand.transitions}
    known = {CANCEL, *flow.calls, *triggers_of_choices(flow).values(), *calls_of_waits(flow)}
    for trigger, given in hand.payloads.items():
        if trigger not in triggers:
            found = ", ".join(triggers)
            raise hand.place.error(f"payloads= names {trigger}, which no row here has: {found}")
        if not isinstance(given, type) or not issubclass(given, BaseModel):
            raise hand.place.error(f"the payload of {trigger} is {given!r}: name its model")
    for trigger in triggers:
        model = hand.payloads.get(trigger)
        if model and trigger in known:
            raise hand.place.error(f"{trigger} has its payload already: leave it out of payloads=")
        if models.setdefault(trigger, model) is not model:
            raise hand.place.error(f"{trigger} brings something else in another row by hand")


def _states(flow: Declared) -> list[str]:
    return [*flow.states, *unclear_states(flow), *ends_of(flow)]


def _own_triggers(flow: Declared) -> set[str]:
    """Return the triggers that nobody outside of the workflow fires."""
    families = [name(each) for each in families_of(flow) for name in (all_in, one_lost)]
    unclear = triggers_of_unclear(flow)
    return {*OF_EVERY_WORKFLOW, *map(after, targets(flow)), *families, *unclear} - {CANCEL}
