"""What the import refuses of how many attempts of a step may be at work at one time."""

from __future__ import annotations

from typing import Any

from interlock.kernel.owing import SLOT_KEY_MAX
from interlock.workflow.parts import Declared, StepPart
from interlock.workflow.trials import check_function


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
