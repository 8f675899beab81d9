"""A graph of jobs as the text of the file that makes it once more; it writes no file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from interlock.kernel.errors import CallError
from interlock.workers.jobs.file.field import Parts, write_fields
from interlock.workers.jobs.file.fields import GRAPH, INHERITED, STEP, graph_as_born, job_as_born
from interlock.workers.jobs.file.file import GraphFileError, Step, graph_of
from interlock.workers.specs.values import PRIORITY_DEFAULT, Dollars

# A long line stays one: where it is broken, its spaces would be hard to see.
_WIDTH = 1_000_000
_LINES = re.compile(r"\S.*\n(?:.*\n)*.*\S\n?")
_BASE: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class UnwritableGraphError(CallError):
    """No file could make this graph. Change what it names, or keep the graph as it is."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the graph {name!r} cannot be written as a file: {problem}")
        self.name, self.problem = name, problem


def graph_text(name: str, payload: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """Return the YAML that `read_graph` reads as this graph. Raises UnwritableGraphError.

    Paths are written as they are. A directory is written once for all if each is `<dir>/<step>`,
    and with its step if not. The name of the machine is left out.
    """
    try:
        shared = graph_as_born(dict(payload))
        births = [_birth(step) for step in steps]
    except ValidationError as refusal:
        first = refusal.errors(include_url=False)[0]
        part = ".".join(map(str, first["loc"]))
        raise UnwritableGraphError(name, f"{part}: {first['msg']}") from refusal
    above = _above(steps, births)
    folder = next((one["folder"] for one in births if "folder" in one), None)
    given = shared | {"folder": folder, "dir": above}
    top: Parts = {"graph": name} | write_fields(
        {k: v for k, v in given.items() if v is not None}, GRAPH
    )
    if folder is None:
        # Nothing said, it is that of the file.
        top["defaults"] = {"folder": None}
    listed = [_step(step, birth, name, given) for step, birth in zip(steps, births, strict=True)]
    # One by one: a dumper keeps all that it has written.
    text = "".join([_dumped(top), "steps:\n", *(_dumped([one]) for one in listed)])
    _check(text, name, shared, steps, births)
    return text


def _birth(step: Step) -> Parts:
    return job_as_born({k: v for k, v in step.payload.items() if k != "host"})


def _above(steps: Sequence[Step], births: Sequence[Parts]) -> str | None:
    """Return the directory that has those of the steps, or None if one has not its own there."""
    found = set()
    for step, birth in zip(steps, births, strict=True):
        above, name = os.path.split(birth.get("dir", ""))
        found.add(above if name == step.name else "")
    only = found.pop() if len(found) == 1 else ""
    return only or None


def _step(step: Step, birth: Parts, graph: str, given: Parts) -> Parts:
    """Return a step as the file has it: what it inherits is left out."""
    own = {born: value for born, value in birth.items() if born not in ("dir", *INHERITED)}
    for born in INHERITED:
        if birth.get(born) != given.get(born):
            # Without a value of its own it takes away that of the graph.
            own[born] = birth.get(born)
    if "dir" in birth and given["dir"] is None:
        own["dir"] = birth["dir"]
    if step.priority != PRIORITY_DEFAULT:
        own["priority"] = step.priority
    after = [one.removeprefix(f"{graph}/") for one in birth.get("depends_on", ())]
    written = write_fields(own, STEP)
    return {"name": step.name} | ({"depends_on": after} if after else {}) | written


def _dumped(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


class _Dumper(_BASE):
    """Writes what `read_yaml` takes: nothing twice by reference, texts of lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whether what is there twice is written twice: always."""
        del data
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    # Blank lines at an end would have to be marked, and so would a document's end after them.
    lines = _LINES.fullmatch(text)
    style = "|" if lines else None
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


def _dollars(dumper: Any, amount: Dollars) -> yaml.ScalarNode:
    # What it would be read as anyway, or the tag would be written too.
    kind = "float" if "." in amount else "int"
    node: yaml.ScalarNode = dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", str(amount))
    return node


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Dollars, _dollars)


def _check(
    text: str, name: str, shared: Parts, steps: Sequence[Step], births: Sequence[Parts]
) -> None:
    """Refuse a text that would not come back as what it was made of."""
    try:
        read = graph_of(text, Path("/graph.yaml"))
    except GraphFileError as refusal:
        raise UnwritableGraphError(name, refusal.problems[0].text) from refusal
    assert (read.name, read.payload) == (name, shared), "what a graph is called and shares is kept"
    for step, birth, back in zip(steps, births, read.steps, strict=True):
        if (step.name, step.priority, birth) != (back.name, back.priority, back.payload):
            raise UnwritableGraphError(name, f"the step {step.name!r} would come back otherwise")
