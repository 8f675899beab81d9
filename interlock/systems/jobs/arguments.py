"""Reads the options of `interlock job` into fields of a job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from interlock import CallError
from interlock.system.files import DURATION, MONEY
from interlock.system.tables import root_of

FieldsOption = Annotated[
    str, typer.Option("--fields", help="More fields of the job, as a JSON object; docs/jobs.md.")
]
# The options of fields that have other names on the command line.
OPTIONS = {
    "phases": "--command",
    "worker": "--command",
    "depends_on": "--after",
    "tags": "--tag",
    "limits": "--cost, --time or --iterations",
}


class ArgumentError(CallError):
    """An option cannot be read. Correct it."""


def job_fields(
    fields: str,
    *,
    command: str | None,
    description: str,
    after: Sequence[str] | None,
    tags: Sequence[str] | None,
    job: str,
) -> dict[str, Any]:
    """Return the payload of a new job; a dependency without a graph is of the job's own graph."""
    changed = changed_fields(fields, command=command, description=description or None)
    if "phases" not in changed:
        raise ArgumentError("name the worker: --command, or `phases` in --fields")
    graph = root_of(job)
    dependencies = [name if "/" in name else f"{graph}/{name}" for name in after or ()]
    options = {"depends_on": dependencies} if after else {}
    changed = joined(changed, options | ({"tags": tags} if tags else {}))
    return {"depends_on": [], "description": "", **changed}


def changed_fields(fields: str, *, command: str | None, description: str | None) -> dict[str, Any]:
    """Return the fields of a draft that these options change."""
    options: dict[str, Any] = {"phases": [{"worker": {"command": command}}]} if command else {}
    options |= {"description": description} if description is not None else {}
    return joined(fields_from(fields), options)


def joined(fields: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of --fields and those of other options, of which none is given twice."""
    if both := [name for name in options if name in fields]:
        option = OPTIONS.get(both[0], f"--{both[0]}")
        raise ArgumentError(
            f"{both[0]} is given by {option} and in --fields: leave one of them out"
        )
    return {**fields, **options}


def fields_from(text: str) -> dict[str, Any]:
    """Return the fields that a JSON object names."""
    try:
        found = json.loads(text)
    except ValueError as refusal:
        raise ArgumentError(f"--fields is not JSON: {refusal}") from None
    if not isinstance(found, Mapping):
        raise ArgumentError("--fields must be a JSON object")
    return dict(found)


def limits_from(cost: str | None, time: str | None, iterations: int | None) -> dict[str, int]:
    """Return limits as a record has them: micro-dollars, seconds, runs."""
    found: dict[str, int] = {} if iterations is None else {"iterations": iterations}
    for option, text, name, kind in (
        ("--cost", cost, "cost_micro", MONEY),
        ("--time", time, "time_s", DURATION),
    ):
        if text is not None:
            try:
                is_seconds = kind is DURATION and text.isdecimal()
                found[name] = kind.read(int(text) if is_seconds else text)
            except ValueError as refusal:
                raise ArgumentError(f"{option} {text!r}: {refusal}") from None
    return found
