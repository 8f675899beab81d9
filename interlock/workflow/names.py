"""The names of a workflow's states and triggers, as its table has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from interlock.workflow.parts import Declared, EachPart, QuestionPart, State, StepPart, WaitPart

CANCELLED, EXPIRED = "cancelled", "expired"
CANCEL, EXPIRE, TIMEOUT, UNTIL = "cancel", "expire", "timeout", "until"
LOST, BEGIN, GIVE_UP, OVER = "lost", "begin_once", "give_up", "over_budget"
RECORD_ENDED = "record_ended"
AGAIN = "again"  # the choice of who says that a step is to be done again
# What triggers of every workflow say in the log, before what was said with them.
SAYS = {
    CANCEL: "it was cancelled",
    EXPIRE: "it has lived as long as it may",
    UNTIL: "the time has come for which it waited",
    GIVE_UP: "it could not be done",
    OVER: "its budget is used up",
    LOST: "it was begun, and whether it was done is not known",
    BEGIN: "{name} begins, which is done once",
}
OF_EVERY_WORKFLOW = (CANCEL, EXPIRE, TIMEOUT, UNTIL, LOST, BEGIN, GIVE_UP, OVER, RECORD_ENDED)


def after(target: str) -> str:
    """Return the trigger by which a step leads to a state."""
    return f"to_{target}"


def after_end(end: str) -> str:
    """Return the name of the effect that cleans up after an end."""
    return f"after_{end}"


def all_in(family: str) -> str:
    """Return the trigger by which the last child of a family has ended."""
    return f"{family}_all_in"


def one_lost(family: str) -> str:
    """Return the trigger by which a child of a family has ended without success."""
    return f"{family}_one_lost"


def families_of(flow: Declared) -> dict[str, EachPart]:
    """Return the states that wait for children."""
    return {name: state for name, state in flow.states.items() if isinstance(state, EachPart)}


def ends_of(flow: Declared) -> dict[str, bool]:
    """Return every end with whether it is a success: the author's, and those of every workflow."""
    ends = dict(flow.ends) | {CANCELLED: False}
    if flow.expires or EXPIRED in {*targets(flow), *flow.past.retired}:
        ends[EXPIRED] = False
    return ends


def targets(flow: Declared) -> Iterator[str]:
    """Yield the states that steps, choices, calls and times lead to."""
    for state in flow.states.values():
        yield from targets_from(state)
    if flow.budget and flow.budget.over:
        yield flow.budget.over
    yield from (str(row.target) for hand in flow.by_hand for row in hand.transitions)


def ways_of(flow: Declared) -> dict[str, set[str]]:
    """Return for each state the states that follow it, also by rows by hand."""
    ways = {name: set(targets_from(state)) for name, state in flow.states.items()}
    for row in (row for hand in flow.by_hand for row in hand.transitions):
        ways.setdefault(str(row.source), set()).add(str(row.target))
    return ways


def calls_of_waits(flow: Declared) -> Iterator[str]:
    """Yield the calls for which states wait."""
    waits = (state for state in flow.states.values() if isinstance(state, WaitPart))
    yield from (call for wait in waits for call in wait.calls)


def triggers_of_unclear(flow: Declared) -> Iterator[str]:
    """Yield the triggers by which a person says what is so of a step that may be done."""
    steps = (state for state in flow.states.values() if isinstance(state, StepPart))
    for step in steps:
        if step.unclear:
            yield from (f"{step.unclear}_{one}" for one in answers_of_unclear(step))


def answers_of_unclear(step: StepPart) -> tuple[str, ...]:
    """Return what a person may say of a step that may be done: its targets, again, or no more."""
    return tuple(dict.fromkeys((*step.targets, AGAIN, CANCELLED)))


def targets_from(state: State) -> Iterator[str]:
    """Yield the states that follow a state."""
    if isinstance(state, StepPart):
        yield from state.targets
        yield from filter(None, [state.on_failure])
        return
    if isinstance(state, EachPart):
        yield from filter(None, [state.then, state.early])
        return
    choices = state.choices if isinstance(state, QuestionPart) else state.calls
    yield from (target for target, _ in choices.values())
    if state.on_timeout:
        yield state.on_timeout
    if isinstance(state, WaitPart):
        yield from filter(None, [state.then, state.on_failure])


def unclear_states(flow: Declared) -> list[str]:
    """Return the questions that are asked when nobody knows whether a step was done."""
    steps = (state for state in flow.states.values() if isinstance(state, StepPart))
    return [step.unclear for step in steps if step.unclear]


def renamed_states(flow: Declared) -> dict[str, str]:
    """Return the present name of each state that had another one, also of questions of steps."""
    unclear = {
        f"{old}_unclear": step.unclear
        for old, new in flow.past.renamed.items()
        if isinstance(step := flow.states.get(new), StepPart) and step.unclear
    }
    return unclear | dict(flow.past.renamed)


def retired_states(flow: Declared) -> tuple[str, ...]:
    """Return the states that nothing enters any more, also the questions of such steps."""
    steps = (state for state in map(flow.states.get, flow.past.retired) if state)
    unclear = [step.unclear for step in steps if isinstance(step, StepPart) and step.unclear]
    return (*flow.past.retired, *unclear)


def triggers_of_choices(flow: Declared) -> dict[tuple[str, str], str]:
    """Return the trigger of each choice of each question, by the names of both.

    It is the choice's own name, unless choices of that name take different answers.
    """
    models: dict[str, set[type[BaseModel] | None]] = defaultdict(set)
    questions = [state for state in flow.states.values() if isinstance(state, QuestionPart)]
    for question in questions:
        for name, (_, model) in question.choices.items():
            models[name].add(model)
    return {
        (question.name, name): name if len(models[name]) == 1 else f"{question.name}_{name}"
        for question in questions
        for name in question.choices
    }


def enum_of(name: str, values: Iterable[str]) -> Mapping[str, StrEnum]:
    """Return a member for each name, as tables have them."""
    make: Any = StrEnum
    members = make(name, {value.upper(): value for value in dict.fromkeys(values)})
    return {str(member): member for member in members}
