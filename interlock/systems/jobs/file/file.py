"""Reads and checks a whole graph of jobs that a person wrote, in YAML or JSON.

Every problem that the file alone can show is reported at once. The store is not read: whether jobs
of other graphs exist is checked when the graph is created.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from interlock.system.files import Document, FilePart
from interlock.system.tables import PRIORITY_DEFAULT
from interlock.system.text import one_line
from interlock.systems.jobs.file.dependencies import StepDependencies
from interlock.systems.jobs.file.fields import (
    INHERITED,
    Fields,
    WrittenDefaults,
    WrittenGraph,
    WrittenStep,
    graph_payload,
    job_payload,
    merged,
    payload_of,
)
from interlock.systems.jobs.machines.job.payloads import PHASE

BYTES_MAX = 8 * 1024 * 1024
STEPS_MAX = 20_000
_KEY_LENGTH_MAX = 60  # of one that is shown
_SPLIT = "split it, steps may name jobs of other graphs"
# What is read by itself, step by step.
_APART = ("defaults", "steps")


@dataclass(frozen=True, slots=True)
class Step:
    """One job of a graph: its name there, and its payload without `host`.

    `depends_on` has full ids; folder and directory are absolute. The payload has no field that
    only repeats a default.
    """

    name: str
    priority: int
    line: int
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph as it was written, without any problem that the file alone can show.

    The payload is that of the graph: description, slots, limits, remind_s, stewards, on_cancel. It
    has no field that only repeats a default.
    """

    path: Path
    name: str
    payload: Mapping[str, Any]
    steps: tuple[Step, ...]


def read_graph(path: Path) -> GraphFile:
    """Read a graph from a file of YAML, or of JSON if its name ends so. Raises FileError."""
    return _graph(Document.read(path, bytes_max=BYTES_MAX, advice=_SPLIT))


def parse_graph(text: str, path: Path) -> GraphFile:
    """Read a graph from the text of a file with this path. Raises FileError."""
    return _graph(Document.parse(text, path))


def _graph(document: Document) -> GraphFile:
    with document as root:
        return _GraphReader(document).graph(root)


class _GraphReader:
    """Reads one file, and refuses everything that is wrong with it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._folder = str(document.path.parent.resolve())

    def graph(self, root: FilePart) -> GraphFile:
        """Return the graph, which is valid only if no problem was found."""
        whole = isinstance(root.value, dict)
        own = {key: part for key, part in root.fields.items() if key not in _APART}
        payload = merged((root.holding(own) if whole else root).given(WrittenGraph))
        if not whole:
            return GraphFile(self._document.path, "", {}, ())
        name = _name(root)
        shared = _shared(payload, root.at("defaults"))
        steps = root.at("steps").items("step", count_max=STEPS_MAX, advice=_SPLIT, parent=name)
        dependencies = StepDependencies(name, steps).ids()
        read = [
            # Without a valid name of the graph no id is complete.
            self._step(*step, shared | {"depends_on": ids if name else []}, payload.get("dir"))
            for step, ids in zip(steps, dependencies, strict=True)
        ]
        own_payload = {k: value for k, value in payload.items() if k not in ("folder", "dir")}
        checked = root.checked(partial(graph_payload, own_payload))
        return GraphFile(self._document.path, name, checked, tuple(read))

    def _step(self, name: str, step: FilePart, shared: Fields, parent: str | None) -> Step:
        """Return a step with the shared values, and with a directory in that of the graph."""
        before = self._document.count
        own = payload_of(step.given(WrittenStep))
        _check_phases(step)
        worker, phases = step.at("worker").value, step.at("phases").value
        if worker is not None and phases is not None:
            step.refuse("it has worker and phases; remove one", at=step.at("phases"))
        elif worker is None and phases is None and isinstance(step.value, dict):
            step.refuse("say who works: `worker: <command>`, or `phases`")
        payload = merged(shared, own)
        priority = payload.pop("priority", PRIORITY_DEFAULT)
        if "folder" in payload:
            payload["folder"] = self._absolute(payload["folder"])
        if "dir" in payload:
            payload["dir"] = self._absolute(payload["dir"])
        elif parent is not None and "dir" not in own:
            payload["dir"] = self._absolute(parent, name)
        if self._document.count > before or not name:
            payload = {}
        else:
            payload = step.checked(partial(job_payload, payload))
        return Step(name, priority, step.line, payload)

    def _absolute(self, path: str, *inside: str) -> str:
        """Return an absolute path; a relative one is relative to the folder of the file."""
        # An absolute path is kept as it is written, so that an exported graph reads the same.
        whole = os.path.join(path, *inside)  # noqa: PTH118 - a Path would normalize it
        if os.path.isabs(whole):  # noqa: PTH117
            return whole
        return os.path.normpath(os.path.join(self._folder, whole))  # noqa: PTH118


def _name(root: FilePart) -> str:
    """Return the name of the graph; '' if it is refused."""
    if root.at("graph").value is None:
        root.refuse("name it: `graph: <name>`", at=root.at("graph"))
        return ""
    return root.at("graph").name()


def _shared(graph: Fields, written: FilePart) -> Fields:
    """Return the values of a step that sets none itself."""
    inherited = {"folder": "."} | {name: graph[name] for name in INHERITED if name in graph}
    if written.value is None:
        return inherited
    defaults = written.called("defaults")
    _check_parameters(defaults.at("review"))
    return merged(inherited, payload_of(defaults.given(WrittenDefaults)))


def _check_phases(step: FilePart) -> None:
    """Refuse two phases of one name, and parameters that JSON cannot hold."""
    for key in ("worker", "review"):
        _check_parameters(step.at(key))
    lines: dict[str, int] = {}
    for phase in step.at("phases").entries:
        _check_parameters(phase.at("worker"))
        written = phase.at("name")
        name = written.value or PHASE
        if not isinstance(name, str) or not isinstance(phase.value, dict):
            continue
        if name in lines:
            problem = f"line {lines[name]} has a phase {name!r} as well; choose another name"
            written.refuse(problem)
        lines.setdefault(name, written.line)


def _check_parameters(executor: FilePart) -> None:
    if isinstance(executor.at("parameters").value, dict):
        _check_json(executor.at("parameters"))


def _check_json(part: FilePart) -> None:
    """Refuse every value that JSON cannot hold."""
    for key, inner in part.fields.items():
        if isinstance(key, str) and _is_text(key):
            _check_json(inner)
        else:
            shown = one_line(repr(key), length_max=_KEY_LENGTH_MAX)
            problem = f"the key {shown} is not text; put it in quotation marks"
            part.refuse(problem, at=inner)
    for entry in part.entries:
        _check_json(entry)
    if isinstance(part.value, str) and not _is_text(part.value):
        part.refuse(f"{part.quoted}: it has a lone surrogate, which is no text")
    elif isinstance(part.value, date):
        part.refuse(f"{part.text}: a date is not JSON; put it in quotation marks")
    elif isinstance(part.value, float) and not isfinite(part.value):
        part.refuse(f"{part.text}: JSON has no such number; put it in quotation marks")


def _is_text(text: str) -> bool:
    # Pydantic accepts a lone surrogate; as a key it would be stored as another text.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
