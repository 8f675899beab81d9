"""What the import refuses of a workflow, with the line of the user's file and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from string import Formatter
from typing import Any

from pydantic import BaseModel

from interlock.kernel.errors import MachineDefectError
from interlock.kernel.payload import CardAnswer
from interlock.workflow.data import Data, lost_in_json
from interlock.workflow.moments import epoch_ms, zone_named
from interlock.workflow.names import (
    CANCELLED,
    EXPIRED,
    OF_EVERY_WORKFLOW,
    after,
    ends_of,
    targets,
    targets_from,
    unclear_states,
)
from interlock.workflow.parts import Declared, QuestionPart, State, StepPart, WaitPart
from interlock.workflow.place import SourceLine
from interlock.workflow.sample import sample

_NAME = re.compile(r"[a-z][a-z0-9_]*")
LENGTH_MAX = timedelta(days=3650)


def check_name(place: SourceLine, kind: str, name: object) -> None:
    """Refuse a name that is none. Raises WorkflowError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise place.error(f"{name!r} is no name of a {kind}: use small letters, digits and _")


def check_model(place: SourceLine, model: object) -> None:
    """Refuse what is no model of data, or loses a value in JSON. Raises WorkflowError."""
    if not isinstance(model, type) or not issubclass(model, Data):
        raise place.error(f"{model!r} is no model of data: write class Refund(Data)")
    reserved = [name for name in model.model_fields if name.startswith("_")]
    computed = list(model.model_computed_fields)
    aliased = [name for name, field in model.model_fields.items() if field.alias is not None]
    for names, why in (
        (reserved, "begins with _"),
        (computed, "is computed: it would be stored, and refused when it is read again"),
        (aliased, "has an alias: the data are stored and read by the names of the fields"),
    ):
        if names:
            raise place.error(f"{model.__name__}.{names[0]} {why}")
    value = sample(model)
    if value is None:
        return  # a validator refuses what fits its types: the first submission shows it
    if lost := next(lost_in_json(value), ""):
        raise place.error(f"{model.__name__} is not kept by JSON: {lost}")


def check(flow: Declared) -> None:
    """Refuse a definition that cannot work. Raises WorkflowError at the first fault."""
    _ends(flow)
    known = [*flow.states, *unclear_states(flow), *ends_of(flow)]
    for state in flow.states.values():
        for target in targets_from(state):
            if target not in known:
                near = ", ".join(known)
                raise state.place.error(
                    f"{state.name} leads to {target!r}, which is no state of {flow.name}: {near}"
                )
        _state(flow, state)
    _calls(flow)
    flow.start = _start(flow)
    _reach(flow)
    try:
        zone_named(flow.zone)
    except ValueError as refusal:
        raise flow.place.error(f"zone={refusal}") from None
    if flow.title:
        _template(flow, flow.place, flow.title, "title")


def as_written(flow: Declared, defect: MachineDefectError) -> Exception:
    """Return the error of a table with the line of the state that it names, or of the ends."""
    text = "; ".join(defect.defects)
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
    for end, part in flow.cleanups.items():
        if end not in ends_of(flow):
            raise part.place.error(f"{end} is no end of {flow.name}: {', '.join(ends_of(flow))}")
    if flow.expires is not None:
        _length(flow.place, "expires", flow.expires)


def _state(flow: Declared, state: State) -> None:
    if isinstance(state, StepPart):
        _step(state)
        return
    choices = state.choices if isinstance(state, QuestionPart) else state.calls
    for name, (_, model) in choices.items():
        check_name(state.place, "choice", name)
        if model is not None:
            _answer(flow, state, name, model)
    if isinstance(state, QuestionPart):
        _question(flow, state)
    else:
        _wait(flow, state)
    if (state.timeout is None) != (not state.on_timeout):
        message = f"{state.name}: timeout= says when and on_timeout= says what follows; give both"
        raise state.place.error(message)
    if state.timeout is not None:
        _length(state.place, "timeout", state.timeout)


def _step(step: StepPart) -> None:
    _length(step.place, "timeout", step.timeout)
    if step.retry_delay is not None:
        _length(step.place, "retry_delay", step.retry_delay)
    if type(step.max_attempts) is not int or not 1 <= step.max_attempts <= 100:  # noqa: PLR2004 - more never helps
        raise step.place.error(f"max_attempts={step.max_attempts!r}: give a number from 1 to 100")


def _question(flow: Declared, question: QuestionPart) -> None:
    if not question.choices:
        message = f"{question.name} has no choices: name them, as approve='pay', reject='failed'"
        raise question.place.error(message)
    if strange := [name for name in question.offered if name not in question.choices]:
        raise question.place.error(f"offered= names {strange[0]}, which is no choice")
    _length(question.place, "remind", question.remind)
    _template(flow, question.place, question.text, f"the question of {question.name}")
    value = sample(flow.data)
    for name, agrees in question.offered.items():
        _called(question.place, f"offered={name}", agrees, value)


def _wait(flow: Declared, wait: WaitPart) -> None:
    if (wait.until is None) != (not wait.then):
        raise wait.place.error(f"{wait.name}: until= says when and then= what follows; give both")
    if until := wait.until:
        zone = zone_named(flow.zone)
        _called(wait.place, "until=", lambda data: epoch_ms(until(data), zone), sample(flow.data))
    if not wait.calls and wait.until is None:
        raise wait.place.error(f"{wait.name} waits for nothing: name a call, or until=")
    if wait.until is None and wait.timeout is None:
        raise wait.place.error(
            f"{wait.name} may wait for ever, unseen: give it timeout= and on_timeout="
        )


def _answer(flow: Declared, state: State, name: str, model: type[BaseModel]) -> None:
    if isinstance(state, QuestionPart) and not issubclass(model, CardAnswer):
        raise state.place.error(
            f"the answer of {name} is a {model.__name__}: derive that from CardAnswer, so that "
            "the form of the card takes what the model takes"
        )
    known = flow.data.model_fields
    if strange := [field for field in model.model_fields if field not in known]:
        raise state.place.error(
            f"{name} brings {strange[0]}, which is no field of {flow.data.__name__}: add the field"
        )


def _calls(flow: Declared) -> None:
    taken = {*OF_EVERY_WORKFLOW, *map(after, targets(flow))}
    for state in flow.states.values():
        if isinstance(state, QuestionPart):
            taken |= set(state.choices)
    for call in flow.calls.values():
        if call.name in taken:
            raise call.place.error(f"{call.name} is what another change of {flow.name} is called")


def _start(flow: Declared) -> str:
    if flow.start:
        if flow.start not in flow.states:
            known = ", ".join(flow.states)
            raise flow.place.error(f"start={flow.start!r} is no state of {flow.name}: {known}")
        return flow.start
    if not flow.states:
        raise flow.close.error(f"{flow.name} has no steps: write @{flow.name}.step")
    entered = {target for state in flow.states.values() for target in targets_from(state)}
    first = [name for name in flow.states if name not in entered]
    if len(first) == 1:
        return first[0]
    if first:
        message = f"nothing leads to {', '.join(first)}: one of them begins, and start= says which"
        raise flow.states[first[-1]].place.error(message)
    raise flow.close.error(f"every state of {flow.name} follows another: say start=")


def _reach(flow: Declared) -> None:
    """Refuse states that nothing enters, and those from which no end can be reached."""
    ways = {name: set(targets_from(state)) for name, state in flow.states.items()}
    reached = {flow.start}
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


def _template(flow: Declared, place: SourceLine, text: object, what: str) -> None:
    if not isinstance(text, str):
        raise place.error(f"{what} is {text!r}: write a text, with fields of the data in braces")
    try:
        named = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError as problem:
        raise place.error(f"{what} cannot be filled in: {problem}: {text!r}") from None
    known = flow.data.model_fields
    for field in named:
        if re.split(r"[.\[]", field, maxsplit=1)[0] not in known:
            fields = ", ".join(known)
            message = (
                f"{what} names {{{field}}}, which is no field of {flow.data.__name__}: {fields}"
            )
            raise place.error(message)
    value = sample(flow.data)
    if value is not None:
        shown = {name: getattr(value, name) for name in known}
        _called(place, what, lambda _: text.format(**shown), value)


def _called(place: SourceLine, what: str, function: Callable[[Any], Any], value: Any) -> None:
    """Call a function of the data once with a sample, so that its author sees it fail."""
    if value is None:
        return
    try:
        function(value)
    except Exception as failure:
        message = f"{what} fails for {value!r}: {type(failure).__name__}: {failure}"
        raise place.error(message) from failure


def _length(place: SourceLine, what: str, length: object) -> None:
    if not isinstance(length, timedelta):
        raise place.error(f"{what}={length!r} is no length of time: write {what}=days(3)")
    if not timedelta(0) < length <= LENGTH_MAX:
        raise place.error(f"{what} is {length}: give more than nothing, and at most ten years")
