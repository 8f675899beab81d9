"""What is typed about a job, as what a job is born from or changed by; it checks no more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from interlock.kernel.errors import CallError
from interlock.kernel.record import root_of
from interlock.workers.specs.values import span_of

MICRO = 1_000_000
Described = Annotated[
    str, typer.Option("--fields", help="More of its fields, as a JSON object; docs/jobs.md.")
]


class WordError(CallError):
    """What was typed cannot be read. Correct it."""


def creation(
    words: str,
    *,
    command: str | None,
    description: str,
    after: Sequence[str] | None,
    job: str,
) -> dict[str, Any]:
    """Return what one job is born from; what it is after without a graph is one of its own."""
    given = {"description": description, **configuration(words, command=command, description=None)}
    if "phases" not in given:
        raise WordError("name the worker: --command, or `phases` in --fields")
    graph = root_of(job)
    named = [one if "/" in one else f"{graph}/{one}" for one in after or ()]
    return {"depends_on": named, **given}


def configuration(words: str, *, command: str | None, description: str | None) -> dict[str, Any]:
    """Return what is changed of a draft."""
    try:
        fields = json.loads(words)
    except ValueError as refusal:
        raise WordError(f"--fields is not JSON: {refusal}") from None
    if not isinstance(fields, Mapping):
        raise WordError("--fields must be a JSON object")
    found = dict(fields)
    found |= {"phases": [{"worker": {"command": command}}]} if command else {}
    return found | ({"description": description} if description is not None else {})


def limits_of(cost: str | None, time: str | None, iterations: int | None) -> dict[str, int]:
    """Return limits as records have them: micro-dollars, seconds, runs."""
    found: dict[str, int] = {}
    if cost is not None:
        found["cost_micro"] = micro(cost)
    if time is not None:
        try:
            found["time_s"] = span_of(time)
        except ValueError as refusal:
            raise WordError(f"--time {time!r}: {refusal}") from None
    return found | ({"iterations": iterations} if iterations is not None else {})


def micro(dollars: str) -> int:
    """Return US dollars as whole micro-dollars. Raises WordError."""
    try:
        amount = Decimal(dollars) * MICRO
        whole = int(amount)
    except (InvalidOperation, OverflowError, ValueError):
        raise WordError(f"--cost {dollars!r} is no amount of US dollars") from None
    if amount < 0 or amount != whole:
        raise WordError(f"--cost {dollars!r}: give 0 or more, with at most 6 decimals")
    return whole
