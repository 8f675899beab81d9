"""What the import refuses of a workflow, with the line of the user's file and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from interlock.kernel.effect import OF_ANY_MACHINE
from interlock.kernel.errors import MachineDefectError
from interlock.kernel.owing import SLOT_KEY_MAX
from interlock.kernel.table import ACTORS, PERSON, PRODUCER
from interlock.workers.engine.system import Definition
from interlock.workflow.data import Data, as_json, item_type
from interlock.workflow.hand_checks import check_by_hand
from interlock.workflow.idle_checks import check_idle
from interlock.workflow.moments import zone_named
from interlock.workflow.names import (
    AGAIN,
    CANCELLED,
    EXPIRED,
    OF_EVERY_WORKFLOW,
    after,
    answers_of_unclear,
    ends_of,
    targets_from,
    triggers_of_choices,
    unclear_states,
    ways_of,
)
from interlock.workflow.of_data import OfData
from interlock.workflow.parts import (
    Budget,
    CallPart,
    Declared,
    EachPart,
    QuestionPart,
    State,
    StepPart,
    WaitPart,
)
from interlock.workflow.past_checks import check_past
from interlock.workflow.place import SourceLine
from interlock.workflow.signature import uses_once
from interlock.workflow.trials import check_function, check_text
from interlock.workflow.value_checks import check_length, check_name
from interlock.workflow.waiting_checks import check_waiting
from interlock.workflow.work import AFTER_AN_END

EVERY = "a change of every workflow"
QUEUES = frozenset({"intake", "sweeps"})
# The processes of `interlock up`, beside which each pool has one.
PROCESSES = frozenset({"api", "beat", "families", "flower", "intake", "store", "sweeps", "worker"})


def item_model(place: SourceLine, model: type[Data], field: str) -> type[Data]:
    """Return the model of the items of a list field. Raises WorkflowError."""
    if field not in model.model_fields:
        known = ", ".join(model.model_fields)
        raise place.error(f"each({field!r}) is no field of {model.__name__}: {known}")
    found = item_type(model, field)
    if not isinstance(found, type) or not issubclass(found, Data):
        raise place.error(
            f"{model.__name__}.{field} is no list of a model: write {field}: list[Chunk], with "
            "class Chunk(Data)"
        )
    return found


def check(flow: Declared) -> None:
    """Refuse a definition that cannot work. Raises WorkflowError at the first fault."""
    if flow.expires is not None:
        check_length(flow.place, "expires", flow.expires)
    _ends(flow)
    _cleanups(flow)
    for name in unclear_states(flow):
        if place := flow.place_of(name):
            step = name.removesuffix("_unclear")
            raise place.error(f"{name} is the question that {step} may ask: choose another name")
    known = [*flow.states, *unclear_states(flow), *ends_of(flow)]
    for state in flow.states.values():
        for target in targets_from(state):
            if target not in known:
                near = ", ".join(known)
                raise state.place.error(
                    f"{state.name} leads to {target!r}, which is no state of {flow.name}: {near}"
                )
        _state(flow, state)
    check_idle(flow)
    _changes(flow)
    check_by_hand(flow)
    flow.start = _start(flow)
    check_past(flow)
    first = flow.states[flow.start]
    if isinstance(first, EachPart):
        raise first.place.error(f"{first.name} cannot begin: a step makes the list that it reads")
    _reach(flow)
    try:
        zone_named(flow.zone)
    except ValueError as refusal:
        raise flow.place.error(f"zone={refusal}") from None
    if flow.title:
        check_text(flow, flow.place, flow.title, "title")


def as_written(flow: Declared, defect: MachineDefectError) -> Exception:
    """Return the error of a table with the line of the state that it names, or of the ends."""
    text = "; ".join(defect.defects)
    by_hand = (
        hand.place
        for hand in flow.by_hand
        for row in hand.transitions
        if f"{row.source}/{row.trigger}" in text
    )
    if place := next(by_hand, None):
        return place.error(f"{flow.name} cannot work: {text}")
    named = (state.place for name, state in flow.states.items() if re.search(rf"\b{name}\b", text))
    return next(named, flow.close).error(f"{flow.name} cannot work: {text}")


def _ends(flow: Declared) -> None:
    if not flow.ends:
        raise flow.close.error(f"name the ends of {flow.name}: ends(done=True, failed=False)")
    for name, is_success in flow.ends.items():
        check_name(flow.close, "state", name)
        if name in (CANCELLED, EXPIRED):
            raise flow.close.error(f"every workflow has the end {name}: leave it out")
        if name in flow.states:
            place = flow.states[name].place
            raise flow.close.error(f"{name} is an end, and a state already ({place})")
        if not isinstance(is_success, bool):
            raise flow.close.error(f"{name}={is_success!r}: say True for a success, else False")
    if flow.budget:
        _budget(flow, flow.budget)


def _cleanups(flow: Declared) -> None:
    for end, part in flow.cleanups.items():
        if end not in ends_of(flow):
            raise part.place.error(f"{end} is no end of {flow.name}: {', '.join(ends_of(flow))}")
        if part.takes_work and uses_once(part.function):
            raise part.place.error(f"{part.function.__name__} calls work.once {AFTER_AN_END}")


def _budget(flow: Declared, budget: object) -> None:
    if not isinstance(budget, Budget):
        message = f"budget={budget!r} is no budget: write Budget(tokens=10_000)"
        raise flow.place.error(message)
    if not budget.amounts:
        raise flow.place.error("the budget names nothing: write Budget(tokens=10_000)")
    known = [*flow.states, *ends_of(flow)]
    if budget.over and budget.over not in known:
        raise flow.place.error(
            f"over={budget.over!r} is no state of {flow.name}: {', '.join(known)}"
        )
    bounds = OfData(flow).bounds()
    check_function(flow, flow.place, "the budget", lambda data: bounds(as_json(data)))


def _state(flow: Declared, state: State) -> None:
    if isinstance(state, StepPart):
        _step(state)
        check_concurrency(flow, state)
    elif isinstance(state, EachPart):
        _each(flow, state)
    else:
        check_waiting(flow, state)


def _step(step: StepPart) -> None:
    for names, whose in (
        (OF_ANY_MACHINE, "something that Interlock does for every record"),
        (ACTORS, "somebody who acts on records"),
    ):
        if step.name in names:
            raise step.place.error(f"{step.name} is the name of {whose}: rename the step")
    for kind, name in (("pool", step.pool), ("queue", step.queue)):
        if name:
            check_name(step.place, kind, name)
    if step.queue in QUEUES:
        raise step.place.error(f"queue={step.queue!r} is a queue of Interlock's: choose another")
    if step.pool in PROCESSES:
        raise step.place.error(f"pool={step.pool!r} is a process of Interlock's: choose another")
    if step.unclear and AGAIN in step.targets:
        raise step.place.error(
            f"{AGAIN} is a choice of the card of {step.unclear}: rename the state"
        )
    if not isinstance(step.once, bool):
        raise step.place.error(f"once={step.once!r}: say True or False")
    check_length(step.place, "timeout", step.timeout)
    check_length(step.place, "retry_delay", step.retry_delay)
    if type(step.max_attempts) is not int or not 1 <= step.max_attempts <= 100:  # noqa: PLR2004 - more never helps
        raise step.place.error(f"max_attempts={step.max_attempts!r}: give a number from 1 to 100")


def _each(flow: Declared, each: EachPart) -> None:
    found = item_model(each.place, flow.data, each.field)
    if not isinstance(each.child, Definition):
        raise each.place.error(f"{each.name}: workflow={each.child!r} is no workflow")
    if each.child.data is not found:
        raise each.place.error(
            f"{each.name}: the items of {each.field} are {found.__name__}, and {each.child.name} "
            f"works on {each.child.data.__name__}"
        )
    if isinstance(flow.states.get(each.early), EachPart):
        raise each.place.error(f"on_failure={each.early!r} waits for children: name another state")


def check_call(place: SourceLine, call: CallPart) -> None:
    """Refuse a call that nobody can make. Raises WorkflowError."""
    if not isinstance(call.by, tuple) or not call.by or set(call.by) - {PERSON, PRODUCER}:
        raise place.error(f"by={call.by!r} names nobody: write a tuple of PERSON and PRODUCER")


def _changes(flow: Declared) -> None:
    """Refuse a name of a choice or a call that means another change of the record already."""
    taken: dict[str, tuple[str, object]] = dict.fromkeys(OF_EVERY_WORKFLOW, (EVERY, 0))
    for state in flow.states.values():
        if isinstance(state, StepPart):
            own = [after(one) for one in state.targets]
            own += [f"{state.unclear}_{one}" for one in answers_of_unclear(state) if state.unclear]
            taken |= dict.fromkeys(own, ("an outcome of a step", 0))
    for place, name, what, model in _named_changes(flow):
        known, other = taken.setdefault(name, (what, model))
        if known != what:
            kind = what.removeprefix("a ")
            raise place.error(f"{name} is the name of {known} already: rename the {kind}")
        if other is not model:
            raise place.error(f"{name} brings something else in another wait: rename one of them")


def _named_changes(flow: Declared) -> Iterator[tuple[SourceLine, str, str, object]]:
    """Yield each name that the author gives to a change: where, what it is of, what it brings."""
    for state in flow.states.values():
        if isinstance(state, QuestionPart):
            yield from ((state.place, name, "a choice", 0) for name in state.choices)
            yield from (
                (state.place, trigger, "a choice", 0)
                for (question, _), trigger in triggers_of_choices(flow).items()
                if question == state.name
            )
        elif isinstance(state, WaitPart):
            yield from (
                (state.place, name, "a call of a wait", one[1]) for name, one in state.calls.items()
            )
    yield from ((call.place, call.name, "a call", 0) for call in flow.calls.values())


def _start(flow: Declared) -> str:
    if flow.start:
        if flow.start not in flow.states:
            known = ", ".join(flow.states)
            raise flow.place.error(f"start={flow.start!r} is no state of {flow.name}: {known}")
        return flow.start
    if not flow.states:
        raise flow.close.error(f"{flow.name} has no steps: write @{flow.name}.step")
    live = {name: after for name, after in ways_of(flow).items() if name not in flow.past.retired}
    entered = {target for name, after_it in live.items() for target in after_it - {name}}
    entered |= {flow.budget.over} if flow.budget else set()
    first = [name for name in flow.states if name not in entered and name not in flow.past.retired]
    if len(first) == 1:
        return first[0]
    if first:
        message = f"nothing leads to {', '.join(first)}: one of them begins, and start= says which"
        raise flow.states[first[-1]].place.error(message)
    raise flow.close.error(f"every state of {flow.name} follows another: say start=")


def _reach(flow: Declared) -> None:
    """Refuse states that nothing enters, and those from which no end can be reached."""
    ways = ways_of(flow)
    over = flow.budget.over if flow.budget else ""
    reached = {flow.start, *flow.past.retired, *filter(None, [over])}
    while more := {target for name in reached for target in ways.get(name, ())} - reached:
        reached |= more
    for name, state in flow.states.items():
        if name not in reached:
            raise state.place.error(f"nothing leads to {name}: no record would ever be there")
    for end in flow.ends:
        if end not in reached:
            raise flow.close.error(f"nothing leads to the end {end}: leave it out")
    ending = set(ends_of(flow))
    while more := {name for name, after_it in ways.items() if after_it & ending} - ending:
        ending |= more
    for name, state in flow.states.items():
        if name not in ending:
            raise state.place.error(
                f"no end can be reached from {name}: it would go round for ever"
            )


def check_concurrency(flow: Declared, step: StepPart) -> None:
    """Refuse a `concurrency` that is no number, and a `key` that gives no text.

    Raises WorkflowError.
    """
    n, key = step.concurrency, step.key
    if n is not None and (type(n) is not int or n < 1):
        raise step.place.error(
            f"concurrency={n!r}: give how many of {step.name} may be at work at one time, from 1 on"
        )
    if key is None:
        return
    if not callable(key):
        raise step.place.error(
            f"key={key!r} is no function: write one of the data, as in `lambda r: r.tenant`"
        )
    if n is None:
        raise step.place.error(
            f"{step.name} has a key= and no concurrency=: say how many may be at work for each key"
        )
    check_function(flow, step.place, f"key= of {step.name}", lambda data: _text(key(data)))


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"it returns {key!r}, and a key is a text, as str(...) gives")
    if len(key) > SLOT_KEY_MAX:
        raise ValueError(f"it returns a text of {len(key)} characters; {SLOT_KEY_MAX} are allowed")
    return key
