"""Writes a graph of jobs as the text of a file that would create the graph again."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from interlock import CallError
from interlock.system.files import FileError
from interlock.system.tables import PRIORITY_DEFAULT, problem_of
from interlock.system.text import visible
from interlock.systems.jobs.file.fields import (
    INHERITED,
    Fields,
    WrittenGraph,
    graph_payload,
    job_payload,
    written,
    written_step,
)
from interlock.systems.jobs.file.file import Step, parse_graph

# A long line stays one line: spaces at a line break would be hard to see.
_WIDTH = 1_000_000
_SEVERAL_LINES = re.compile(r"\S.*\n(?:.*\n)*.*\S\n?")
_BASE: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class UnwritableGraphError(CallError):
    """No file could create this graph. Change what the message names, or keep the graph."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the graph {name!r} cannot be written as a file: {problem}")
        self.name, self.problem = name, problem


def graph_text(name: str, payload: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """Return the YAML that `read_graph` reads as this graph. Raises UnwritableGraphError.

    Paths are written as they are. If the directory of each step is `<dir>/<step>`, only `dir` is
    written, otherwise the directory of each step. The host is left out.
    """
    try:
        shared = graph_payload(dict(payload))
        payloads = [_payload_of_step(step) for step in steps]
    except ValidationError as refusal:
        first = refusal.errors(include_url=False)[0]
        raise UnwritableGraphError(name, problem_of(first)) from refusal
    parent = _common_parent(steps, payloads)
    folder = next((job["folder"] for job in payloads if "folder" in job), None)
    inherited = shared | {"folder": folder, "dir": parent}
    set_here = {k: v for k, v in inherited.items() if v is not None}
    top: dict[str, Any] = {"graph": name} | written(set_here, WrittenGraph)
    if folder is None:
        # Without a value, the folder would be that of the file.
        top["defaults"] = {"folder": None}
    listed = [
        _written_step(step, job, name, inherited) for step, job in zip(steps, payloads, strict=True)
    ]
    # Each step is dumped on its own, because a dumper keeps everything that it has written.
    text = "".join([_dumped(top), "steps:\n", *(_dumped([step]) for step in listed)])
    _check_round_trip(text, name, shared, steps, payloads)
    return text


def _payload_of_step(step: Step) -> Fields:
    return job_payload({k: v for k, v in step.payload.items() if k != "host"})


def _common_parent(steps: Sequence[Step], payloads: Sequence[Fields]) -> str | None:
    """Return the directory in which each step has one of its own name; None if there is none."""
    found = set()
    for step, payload in zip(steps, payloads, strict=True):
        parent, name = os.path.split(payload.get("dir", ""))
        found.add(parent if name == step.name else "")
    only = found.pop() if len(found) == 1 else ""
    return only or None


def _written_step(step: Step, payload: Fields, graph: str, inherited: Fields) -> dict[str, Any]:
    """Return a step of the file, without the values that it inherits."""
    own = {k: value for k, value in payload.items() if k not in ("dir", *INHERITED)}
    for name in INHERITED:
        if payload.get(name) != inherited.get(name):
            # A None is written as null, which removes the value of the graph.
            own[name] = payload.get(name)
    if "dir" in payload and inherited["dir"] is None:
        own["dir"] = payload["dir"]
    if step.priority != PRIORITY_DEFAULT:
        own["priority"] = step.priority
    after = [job.removeprefix(f"{graph}/") for job in payload.get("depends_on", ())]
    return {"name": step.name} | ({"depends_on": after} if after else {}) | written_step(own)


def _dumped(value: Any) -> str:
    options: dict[str, Any] = {"Dumper": _Dumper, "sort_keys": False, "width": _WIDTH}
    text: str = yaml.dump(value, allow_unicode=True, **options)
    # The file is printed to terminals too, where hidden characters would mislead.
    return text if visible(text) == text else str(yaml.dump(value, **options))


class _Dumper(_BASE):
    """Writes only YAML that `read_yaml` accepts: no aliases, and block texts for several lines."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value that is there twice in full both times."""
        del data
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    # A block text with blank lines at its end would need a mark, and then the end of the document.
    lines = _SEVERAL_LINES.fullmatch(text)
    style = "|" if lines else None
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


def _amount(dumper: Any, amount: str) -> yaml.ScalarNode:
    # An amount of money is written as a kind of text of its own, with exactly its digits.
    # With the tag that the number would be resolved to, the tag itself is not written.
    kind = "float" if "." in amount else "int"
    node: yaml.ScalarNode = dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", str(amount))
    return node


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(str, _amount)


def _check_round_trip(
    text: str,
    name: str,
    shared: Fields,
    steps: Sequence[Step],
    payloads: Sequence[Fields],
) -> None:
    """Raise UnwritableGraphError if the text would not be read as the same graph."""
    try:
        read = parse_graph(text, Path("/graph.yaml"))
    except FileError as refusal:
        raise UnwritableGraphError(name, refusal.problems[0].text) from refusal
    assert (read.name, read.payload) == (name, shared), "the graph itself is read the same"
    for step, payload, back in zip(steps, payloads, read.steps, strict=True):
        if (step.name, step.priority, payload) != (back.name, back.priority, back.payload):
            raise UnwritableGraphError(name, f"the step {step.name!r} would be read differently")
