"""Writes graph files for tests, and reads them or their refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.systems.jobs.file.file import GraphFile, read_graph
from interlock.workers.specs.problems import FileError

HEAD = "graph: g\nsteps:\n"


def read_steps(file: Path, *steps: str, head: str = HEAD) -> GraphFile:
    """Write a graph of these steps, each a flow mapping on its own line, and read it."""
    file.write_text(head + "".join(f"  - {step}\n" for step in steps), "utf-8")
    return read_graph(file)


def payload_of(file: Path, fields: str, head: str = HEAD) -> dict[str, Any]:
    """Return the payload of a graph's only step, which has a worker and these fields."""
    return dict(read_steps(file, f"{{name: a, worker: w, {fields}}}", head=head).steps[0].payload)


def problems_of(file: Path, text: str) -> list[str]:
    """Return the problems of a graph's file, as `<line>: <problem>`."""
    file.write_text(text, "utf-8")
    with pytest.raises(FileError) as refusal:
        read_graph(file)
    problems = refusal.value.problems
    lines = [
        f"{file}:{p.line}:{p.column}: {p.text}" if p.line else f"{file}: {p.text}" for p in problems
    ]
    assert str(refusal.value).split("\n") == lines, "a problem is one line"
    assert refusal.value.path == file
    return [f"{problem.line}: {problem.text}" for problem in problems]


def read_or_refusal(file: Path) -> GraphFile | FileError:
    """Return the graph in a file, or the error that refuses it."""
    try:
        return read_graph(file)
    except FileError as refusal:
        return refusal
