"""The names of a workflow's states and triggers, as its table has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from interlock.workflow.parts import Declared, QuestionPart, StepPart, WaitPart

CANCELLED, EXPIRED = "cancelled", "expired"
CANCEL, EXPIRE, TIMEOUT, UNTIL = "cancel", "expire", "timeout", "until"
LOST, BEGIN = "lost", "begin_once"
OF_EVERY_WORKFLOW = (CANCEL, EXPIRE, TIMEOUT, UNTIL, LOST, BEGIN)


def after(target: str) -> str:
    """Return the trigger by which a step leads to a state."""
    return f"to_{target}"


def ends_of(flow: Declared) -> dict[str, bool]:
    """Return every end with whether it is a success: the author's, and those of every workflow."""
    ends = dict(flow.ends) | {CANCELLED: False}
    if flow.expires or EXPIRED in set(targets(flow)):
        ends[EXPIRED] = False
    return ends


def targets(flow: Declared) -> Iterator[str]:
    """Yield the states that steps, choices, calls and times lead to."""
    for state in flow.states.values():
        yield from targets_from(state)


def targets_from(state: StepPart | QuestionPart | WaitPart) -> Iterator[str]:
    """Yield the states that follow a state."""
    if isinstance(state, StepPart):
        yield from state.targets
        return
    choices = state.choices if isinstance(state, QuestionPart) else state.calls
    yield from (target for target, _ in choices.values())
    if state.on_timeout:
        yield state.on_timeout
    if isinstance(state, WaitPart) and state.then:
        yield state.then


def unclear_states(flow: Declared) -> list[str]:
    """Return the questions that are asked when nobody knows whether a step was done."""
    steps = (state for state in flow.states.values() if isinstance(state, StepPart))
    return [step.unclear for step in steps if step.unclear]


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
