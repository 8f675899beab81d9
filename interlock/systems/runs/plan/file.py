"""Reads and checks the file of a plan of a run, in YAML or JSON.

Every problem is reported at once, each with its place. The models of the plan define which values
are valid, and the names that the file uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.system.errors import InvalidPayloadError
from interlock.system.files import (
    FileError,
    ItemNames,
    Location,
    Node,
    Problems,
    SpecDocument,
    check_size,
    parse_document,
    read_document,
    read_model,
    shown,
)
from interlock.systems.runs.plan.model import CODONS_MAX, RunPlan, SessionChoice
from interlock.systems.runs.plan.part import is_name
from interlock.systems.runs.plan.rig import RigFolder

BYTES_MAX = 128 * 1024
STORED_BYTES_MAX = 200_000
_ON = re.compile(r"\bon\s*:", re.IGNORECASE)


def read_plan(path: Path, workspace: Path) -> RunPlan:
    """Read the plan of a run that works in a workspace. Raises FileError."""
    advice = "split it into plans of several runs, or put long texts into files"
    return _read(read_document(path, bytes_max=BYTES_MAX, advice=advice), workspace)


def read_plan_fields(fields: Mapping[str, Any], workspace: Path) -> RunPlan:
    """Read a plan from the fields of its file, as JSON has them. Raises InvalidPayloadError."""
    text = json.dumps(fields)
    if len(text) > BYTES_MAX:
        raise InvalidPayloadError("the plan", [f"it has more than {BYTES_MAX} bytes"])
    try:
        return _read(parse_document(text, Path("plan.json")), workspace)
    except FileError as refusal:
        problems = [problem.text for problem in refusal.problems]
        raise InvalidPayloadError("the plan", problems) from refusal


def _read(document: SpecDocument, workspace: Path) -> RunPlan:
    problems = document.problems
    root = _with_on(document.root, document.text.splitlines())
    items = {"codons": _step_called, "sentinels": _sentinel_called}
    context = {"workspace": workspace}
    plan = read_model(RunPlan, root, Location(problems), context, items)
    _PlanChecks(root, problems).refuse_all()
    if plan is not None:
        check_size(plan.stored(), root, Location(problems), STORED_BYTES_MAX)
    problems.raise_if_any()
    assert plan is not None, "a plan without problems is read"
    return plan


class _PlanChecks:
    """What the parts of a plan have to do with each other, also where one of them is wrong."""

    def __init__(self, root: Node, problems: Problems) -> None:
        self._root, self._problems = root, problems
        self._names = ItemNames(problems, "codon or loop")
        self._codons = 0

    def refuse_all(self) -> None:
        """Add every problem of the plan as a whole."""
        steps = _entries(self._root, "codons")
        for number, step in enumerate(steps):
            self._check_name(number, step)
            inner = _entries(step, "codons") if _is_loop(step) else ()
            for inner_number, codon in enumerate(inner):
                self._check_name(inner_number, codon)
                self._check_codon(inner_number, codon)
            if not _is_loop(step):
                self._check_codon(number, step)
        if self._codons > CODONS_MAX:
            problem = f"these are {self._codons}, at most {CODONS_MAX} are allowed"
            codons = self._root.at("codons")
            advice = f"{problem}; split them into plans of several runs"
            Location(self._problems, path="codons").refuse(codons, advice)
        if steps:
            self._refuse_continuing(steps[0])

    def _location(self, number: int, step: Node, *path: str | int) -> Location:
        return Location(self._problems, _step_called(step, number)).inside(*path)

    def _check_name(self, number: int, step: Node) -> None:
        """Refuse a name that is used twice: a codon and a loop cannot have the same."""
        key = "loop" if _is_loop(step) else "codon"
        written = step.at(key)
        if isinstance(written.value, str):
            self._names.refuse_twin(written.value, written, self._location(number, step, key))

    def _check_codon(self, number: int, codon: Node) -> None:
        self._codons += 1
        location = self._location(number, codon)
        _refuse_sentinels(
            _entries(codon, "sentinels"),
            location.inside("sentinels"),
            _names(self._root, "sentinels"),
        )
        copied = False
        for index, item in enumerate(_entries(codon, "rig")):
            folder = item.at("command", "in")
            if folder.value == RigFolder.COPIED and not copied:
                problem = "no copy comes before it; write workspace, or put a copy before it"
                location.inside("rig", index, "command", "in").refuse(folder, problem)
            copied = copied or "copy" in _names(item)

    def _refuse_continuing(self, step: Node) -> None:
        """Refuse a first codon that is to continue the session of the codon before it."""
        codon = next(iter(_entries(step, "codons")), step) if _is_loop(step) else step
        written = codon.at("continuation")
        if written.value == SessionChoice.CONTINUE_PREVIOUS:
            problem = "no codon comes before the first one; write fresh, or take it out"
            self._location(0, codon, "continuation").refuse(written, problem)


def _refuse_sentinels(names: Sequence[Node], location: Location, known: Collection[str]) -> None:
    """Refuse the sentinels of a codon that the plan does not have, or that are there twice."""
    found: list[str] = []
    for index, entry in enumerate(names):
        name = entry.value
        if not isinstance(name, str):
            continue
        if name not in known:
            hint = location.problems.suggestion(name, known)
            problem = f"{shown(name)} is no sentinel of this plan; write it below `sentinels:`"
            location.inside(index).refuse(entry, problem + hint)
        elif name in found:
            location.inside(index).refuse(entry, f"{name} is listed twice; take one out")
        found.append(name)


def _with_on(root: Node, lines: Sequence[str]) -> Node:
    """Return the plan with the key `on` of its sentinels as text, because YAML reads it as true."""
    sentinels = root.at("sentinels")
    if not isinstance(sentinels.value, dict):
        return root
    found = {
        name: inner.holding(dict(_on(inner, lines))) if isinstance(inner.value, dict) else inner
        for name, inner in sentinels.value.items()
    }
    return root.holding({**root.value, "sentinels": sentinels.holding(found or None)})


def _on(sentinel: Node, lines: Sequence[str]) -> Iterator[tuple[Any, Node]]:
    for key, inner in sentinel.value.items():
        yield "on" if key is True and _ON.search(lines[inner.line - 1]) else key, inner


def _step_called(step: Node, index: Any) -> str:
    kind = "loop" if _is_loop(step) else "codon"
    name = step.at(kind).value
    return f"{kind} {name!r}" if is_name(name) else f"{kind} {index + 1}"


def _sentinel_called(_: Node, key: Any) -> str:
    # A codon has a list of their names.
    return f"sentinel {key!r}" if is_name(key) else ""


def _is_loop(step: Node) -> bool:
    return "loop" in _names(step)


def _entries(node: Node, key: str) -> Sequence[Node]:
    value = node.at(key).value
    return value if isinstance(value, list) else ()


def _names(node: Node, *path: str) -> Collection[str]:
    value = node.at(*path).value
    return [key for key in value if isinstance(key, str)] if isinstance(value, dict) else ()
