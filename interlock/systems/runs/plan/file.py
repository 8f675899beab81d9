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
from interlock.system.files import Document, FileError, FilePart
from interlock.systems.runs.plan.model import CODONS_MAX, RunPlan, SessionChoice
from interlock.systems.runs.plan.part import is_name
from interlock.systems.runs.plan.rig import RigFolder

BYTES_MAX = 128 * 1024
STORED_BYTES_MAX = 200_000
_ON = re.compile(r"\bon\s*:", re.IGNORECASE)


def read_plan(path: Path, workspace: Path) -> RunPlan:
    """Read the plan of a run that works in a workspace. Raises FileError."""
    advice = "split it into plans of several runs, or put long texts into files"
    return _read(Document.read(path, bytes_max=BYTES_MAX, advice=advice), workspace)


def read_plan_fields(fields: Mapping[str, Any], workspace: Path) -> RunPlan:
    """Read a plan from the fields of its file, as JSON has them. Raises InvalidPayloadError."""
    text = json.dumps(fields)
    if len(text) > BYTES_MAX:
        raise InvalidPayloadError("the plan", [f"it has more than {BYTES_MAX} bytes"])
    try:
        return _read(Document.parse(text, Path("plan.json")), workspace)
    except FileError as refusal:
        problems = [problem.text for problem in refusal.problems]
        raise InvalidPayloadError("the plan", problems) from refusal


def _read(document: Document, workspace: Path) -> RunPlan:
    with document as whole:
        root = _with_on(whole, document.text.splitlines())
        called = {"codons": _step_called, "sentinels": _sentinel_called}
        plan = root.read(RunPlan, {"workspace": workspace}, called)
        _PlanChecks(root).refuse_all()
        if plan is not None:
            root.checked(plan.stored, STORED_BYTES_MAX)
    assert plan is not None, "a plan without problems is read"
    return plan


class _PlanChecks:
    """What the parts of a plan have to do with each other, also where one of them is wrong."""

    def __init__(self, root: FilePart) -> None:
        self._root = root
        self._lines: dict[str, int] = {}
        self._codons = 0

    def refuse_all(self) -> None:
        """Add every problem of the plan as a whole."""
        steps = _steps(self._root)
        for step in steps:
            self._check_name(step)
            for codon in _steps(step) if _is_loop(step) else ():
                self._check_name(codon)
                self._check_codon(codon)
            if not _is_loop(step):
                self._check_codon(step)
        if self._codons > CODONS_MAX:
            problem = f"these are {self._codons}, at most {CODONS_MAX} are allowed"
            self._root.at("codons").refuse(f"{problem}; split them into plans of several runs")
        if steps:
            _refuse_continuing(steps[0])

    def _check_name(self, step: FilePart) -> None:
        """Refuse a name that is used twice: a codon and a loop cannot have the same."""
        written = step.at("loop" if _is_loop(step) else "codon")
        name = written.value
        if isinstance(name, str):
            if name in self._lines:
                twin = f"line {self._lines[name]} has a codon or loop of this name"
                written.refuse(f"{twin}; choose another")
            self._lines.setdefault(name, written.line)

    def _check_codon(self, codon: FilePart) -> None:
        self._codons += 1
        _refuse_sentinels(codon.at("sentinels").entries, _names(self._root.at("sentinels")))
        copied = False
        for item in codon.at("rig").entries:
            folder = item.at("command", "in")
            if folder.value == RigFolder.COPIED and not copied:
                problem = "no copy comes before it; write workspace, or put a copy before it"
                folder.refuse(problem)
            copied = copied or "copy" in _names(item)


def _refuse_continuing(step: FilePart) -> None:
    """Refuse a first codon that is to continue the session of the codon before it."""
    codon = next(iter(_steps(step)), step) if _is_loop(step) else step
    written = codon.at("continuation")
    if written.value == SessionChoice.CONTINUE_PREVIOUS:
        written.refuse("no codon comes before the first one; write fresh, or take it out")


def _refuse_sentinels(entries: Sequence[FilePart], known: Collection[str]) -> None:
    """Refuse the sentinels of a codon that the plan does not have, or that are there twice."""
    found: list[str] = []
    for entry in entries:
        name = entry.value
        if not isinstance(name, str):
            continue
        if name not in known:
            problem = f"{entry.quoted} is no sentinel of this plan; write it below `sentinels:`"
            entry.refuse(problem + entry.suggestion(name, known))
        elif name in found:
            entry.refuse(f"{name} is listed twice; take one out")
        found.append(name)


def _with_on(root: FilePart, lines: Sequence[str]) -> FilePart:
    """Return the plan with the key `on` of its sentinels as text, because YAML reads it as true."""
    sentinels = root.at("sentinels")
    if not isinstance(sentinels.value, dict):
        return root
    found = {
        name: inner.holding(dict(_on(inner, lines))) if isinstance(inner.value, dict) else inner
        for name, inner in sentinels.fields.items()
    }
    return root.holding({**root.fields, "sentinels": sentinels.holding(found or None)})


def _on(sentinel: FilePart, lines: Sequence[str]) -> Iterator[tuple[Any, FilePart]]:
    for key, inner in sentinel.fields.items():
        yield "on" if key is True and _ON.search(lines[inner.line - 1]) else key, inner


def _steps(part: FilePart) -> list[FilePart]:
    """Return the codons and loops of a plan or of a loop, each known by its name."""
    entries = enumerate(part.at("codons").entries)
    return [step.called(_step_called(step, index)) for index, step in entries]


def _step_called(step: FilePart, index: Any) -> str:
    kind = "loop" if _is_loop(step) else "codon"
    name = step.at(kind).value
    return f"{kind} {name!r}" if is_name(name) else f"{kind} {index + 1}"


def _sentinel_called(_: FilePart, key: Any) -> str:
    # A codon has a list of their names.
    return f"sentinel {key!r}" if is_name(key) else ""


def _is_loop(step: FilePart) -> bool:
    return "loop" in _names(step)


def _names(part: FilePart) -> Collection[str]:
    return [key for key in part.fields if isinstance(key, str)]
