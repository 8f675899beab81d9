"""What the import refuses because it would never come true, though it can be written."""

from __future__ import annotations

from interlock.workflow.durations import HOUR, SECOND
from interlock.workflow.parts import Declared, EachPart, QuestionPart, StepPart, WaitPart
from interlock.workflow.place import SourceLine

OF_A_FUNCTION = {
    "once": False,
    "timeout": HOUR,
    "max_attempts": 3,
    "retry_delay": SECOND,
    "pool": "",
    "queue": "",
    "title": "",
    "concurrency": None,
    "key": None,
}


def check_idle(flow: Declared) -> None:
    """Refuse times and budgets of a workflow that nothing would heed. Raises WorkflowError."""
    steps = [state for state in flow.states.values() if isinstance(state, StepPart)]
    if flow.expires and len(steps) == len(flow.states):
        raise flow.place.error(
            f"expires= would never end a {flow.name}, which has steps alone: it ends questions, "
            "waits and children, and timeout= is for steps"
        )
    for state in flow.states.values():
        if not isinstance(state, QuestionPart | WaitPart) or not (flow.expires and state.timeout):
            continue
        if state.timeout >= flow.expires:
            raise state.place.error(
                f"the timeout of {state.name} would never come: it is {state.timeout}, and a "
                f"{flow.name} expires {flow.expires} after its creation"
            )
    families = any(isinstance(state, EachPart) for state in flow.states.values())
    if flow.budget and not families and not any(step.takes_work for step in steps):
        raise flow.place.error(
            f"budget= would limit nothing: no step of {flow.name} takes its Work, by which it "
            "reserves, as in `def pay(r: Refund, work: Work)`"
        )


def check_family(place: SourceLine, name: str, child: object, options: dict[str, object]) -> None:
    """Refuse options of a function beside a workflow, and a family without a name."""
    if not name:
        raise place.error("each() with workflow= makes a state without a name: give it name=")
    given = [option for option, value in options.items() if value != OF_A_FUNCTION[option]]
    if given:
        of = getattr(child, "name", child)
        raise place.error(f"{name}: {given[0]}= is of a function: write it in the steps of {of}")
