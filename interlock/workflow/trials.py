"""Tries the texts and functions of a definition at import, with samples of its data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from string import Formatter
from typing import Any

from interlock.kernel.blame import PlacedError
from interlock.workflow.parts import Declared
from interlock.workflow.place import SourceLine
from interlock.workflow.sample import full_sample, sample


def check_text(flow: Declared, place: SourceLine, text: object, what: str) -> None:
    """Refuse what is no text, or names a field that the data do not have. Raises WorkflowError."""
    if not isinstance(text, str):
        raise place.error(f"{what} is {text!r}: write a text, with fields of the data in braces")
    if not text.strip():
        raise place.error(f"{what} is empty: write a text, with fields of the data in braces")
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
    check_function(
        flow, place, what, lambda data: text.format(**{name: getattr(data, name) for name in known})
    )


def check_function(
    flow: Declared, place: SourceLine, what: str, function: Callable[[Any], Any]
) -> None:
    """Refuse a function of the data that fails for every sample. Raises WorkflowError.

    One that fails only for defaults, such as a None that a step replaces before, may be right.
    """
    samples = [one for one in (full_sample(flow.data), sample(flow.data)) if one is not None]
    for value in samples:
        try:
            if inspect.iscoroutine(found := function(value)):
                found.close()
                raise TypeError("it is async; write it with def")  # noqa: TRY301 - one sentence
        except Exception as failure:  # noqa: BLE001 - a function of the user may raise anything
            # An error that was placed already has the line of this place at its end.
            why = str(failure).removesuffix(f" ({place})")
            kind = "" if isinstance(failure, PlacedError) else f"{type(failure).__name__}: "
            said = f"{what} fails for {value!r}: {kind}{why}"
        else:
            return
    if samples:
        raise place.error(said)
