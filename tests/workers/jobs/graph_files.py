"""Graphs for tests: written, read, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workers.jobs.file.file import GraphFile, GraphFileError, read_graph

HEAD = "graph: g\nsteps:\n"


def read(file: Path, *steps: str, head: str = HEAD) -> GraphFile:
    """Write a graph of these steps, each a flow mapping in a line of its own, and read it."""
    file.write_text(head + "".join(f"  - {step}\n" for step in steps), "utf-8")
    return read_graph(file)


def born(file: Path, fields: str, head: str = HEAD) -> dict[str, Any]:
    """Return what the only step of a graph is born from; it has a worker."""
    return dict(read(file, f"{{name: a, worker: w, {fields}}}", head=head).steps[0].payload)


def told(file: Path, text: str) -> list[str]:
    """Return what the author of a graph is told, as `<line>: <problem>`."""
    file.write_text(text, "utf-8")
    with pytest.raises(GraphFileError) as refusal:
        read_graph(file)
    problems = refusal.value.problems
    lines = [f"{file}:{p.line}: {p.text}" if p.line else f"{file}: {p.text}" for p in problems]
    assert str(refusal.value).split("\n") == lines, "a problem is one line"
    assert refusal.value.path == file
    return [f"{problem.line}: {problem.text}" for problem in problems]


def attempt(file: Path) -> GraphFile | GraphFileError:
    """Return a graph, or its refusal."""
    try:
        return read_graph(file)
    except GraphFileError as refusal:
        return refusal
