"""What the import refuses of the states that wait: for a person, a call, a time, another record."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from interlock.kernel.payload import CardAnswer
from interlock.workflow.model_checks import check_answer, check_model
from interlock.workflow.moments import epoch_ms, zone_named
from interlock.workflow.of_data import as_id
from interlock.workflow.parts import Declared, QuestionPart, WaitPart
from interlock.workflow.result import PLAIN_TYPES
from interlock.workflow.trials import check_function, check_text
from interlock.workflow.value_checks import check_length, check_name


def check_waiting(flow: Declared, state: QuestionPart | WaitPart) -> None:
    """Refuse a state that cannot wait so. Raises WorkflowError."""
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
        check_length(state.place, "timeout", state.timeout)


def _question(flow: Declared, question: QuestionPart) -> None:
    if not question.choices:
        message = f"{question.name} has no choices: name them, as approve='pay', reject='failed'"
        raise question.place.error(message)
    for option, given in (("timeout", question.timeout), ("remind", question.remind)):
        if isinstance(given, str):
            raise question.place.error(
                f"{option}={given!r} is no length of time; a choice cannot be called {option}"
            )
    if not isinstance(question.offered, Mapping):
        raise question.place.error(
            f"offered={question.offered!r} is no mapping of choices to functions; a choice cannot "
            "be called offered"
        )
    if strange := [name for name in question.offered if name not in question.choices]:
        known = ", ".join(question.choices)
        message = f"offered= names {strange[0]}, which is no choice of {question.name}: {known}"
        raise question.place.error(message)
    check_length(question.place, "remind", question.remind)
    check_text(flow, question.place, question.text, f"the question of {question.name}")
    for name, agrees in question.offered.items():
        if not callable(agrees):
            raise question.place.error(
                f"offered= gives {name} {agrees!r}: write a function of the data, as in "
                "`lambda r: r.cents < 100`"
            )
        check_function(flow, question.place, f"offered= of {name}", agrees)


def _wait(flow: Declared, wait: WaitPart) -> None:
    if wait.record is not None or wait.on_failure:
        _record_wait(flow, wait)
    elif (wait.until is None) != (not wait.then):
        raise wait.place.error(f"{wait.name}: until= says when and then= what follows; give both")
    if until := wait.until:
        zone = zone_named(flow.zone)
        check_function(flow, wait.place, "until=", lambda data: epoch_ms(until(data), zone))
    waits = wait.until or wait.record or wait.timeout is not None
    if not wait.calls and not waits:
        raise wait.place.error(
            f"{wait.name} waits for nothing: name a call, until=, record= or timeout="
        )
    if wait.until is None and wait.timeout is None and not flow.expires:
        raise wait.place.error(
            f"{wait.name} may wait for ever, unseen: give it timeout= and on_timeout="
        )


def _record_wait(flow: Declared, wait: WaitPart) -> None:
    """Refuse a wait for another record's end that is not whole."""
    if wait.until is not None:
        raise wait.place.error(
            f"{wait.name}: then= follows the time of until= or the end of record=; give one of the "
            "two, timeout= limits a wait for a record"
        )
    if wait.record is None or not wait.then or not wait.on_failure:
        raise wait.place.error(
            f"{wait.name}: record= says whose end, then= what follows a success, and on_failure= "
            "what follows any other end; give all three"
        )
    if not callable(wait.record):
        raise wait.place.error(
            f"record={wait.record!r} is no function: write one that gives the id, as in "
            "`lambda o: o.parcel`"
        )
    awaited = wait.record
    check_function(flow, wait.place, "record=", lambda data: as_id(awaited(data)))


def _answer(
    flow: Declared, state: QuestionPart | WaitPart, name: str, model: type[BaseModel]
) -> None:
    asks = isinstance(state, QuestionPart)
    if asks and not issubclass(model, CardAnswer):
        raise state.place.error(
            f"the answer of {name} is a {model.__name__}: derive that from CardAnswer, so that "
            "the form of the card takes what the model takes"
        )
    if not issubclass(model, CardAnswer):
        check_model(state.place, model, name.title().replace("_", ""))
    check_answer(state.place, name, model)
    known = flow.data.model_fields
    for field, info in model.model_fields.items():
        if field not in known:
            raise state.place.error(
                f"{name} brings {field}, which is no field of {flow.data.__name__}: add the field"
            )
        kinds = info.annotation, known[field].annotation
        if kinds[0] is not kinds[1] and kinds != (int, float) and set(kinds) <= PLAIN_TYPES:
            brought, wanted = (kind.__name__ for kind in kinds if kind)
            raise state.place.error(
                f"{name} brings {field} as {brought}, and it is {wanted} in {flow.data.__name__}"
            )
