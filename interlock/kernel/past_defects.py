"""Finds what cannot be of a table's past: renamed and retired states, and data of older schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def past_defects(machine: Any) -> Iterator[str]:
    """Name every way in which records of an older table would be led nowhere, or in two ways."""
    renamed, retired = machine.renamed, machine.retired
    states = {str(stage.state) for stage in machine.stages}
    for old, new in renamed.items():
        if old in states:
            yield f"renamed has {old}, which is still a state: leave it out, or rename that state"
        if new in renamed:
            yield f"renamed leads {old} to {new}, and {new} on: write {old!r}: {renamed[new]!r}"
        elif new not in states:
            yield f"renamed leads {old} to {new}, which has no stage"
        if new in retired:
            yield f"renamed leads {old} to {new}, which is retired, so that nothing enters it"
    yield from (f"retired names {name}, which has no stage" for name in sorted({*retired} - states))
    if machine.stages[0].state in retired:
        yield f"{machine.stages[0].state} is retired, and records begin there"
    for row in machine.transitions:
        if row.target in retired and row.source not in retired:
            yield f"{row.source}/{row.trigger} leads to {row.target}, which is retired"
    yield from _of_schema(machine)


def _of_schema(machine: Any) -> Iterator[str]:
    schema = machine.schema
    if type(schema) is not int or schema < 1:
        yield f"schema={schema!r} is no number of a schema: they begin with 1, and grow by 1"
    elif machine.migrate and schema == 1:
        yield "migrate is for data of an older schema: say schema=2 beside it"
