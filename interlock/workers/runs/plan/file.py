"""Reads and checks the file of a plan of a run, in YAML or JSON.

Every problem is reported at once, each with its line. The models of the plan define which values
are valid; this module has the names that the file uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.runs.plan.fields import (
    NAME,
    TEXT,
    command_or_model_fields,
    read_budget,
    read_entries,
    read_environment,
    read_on_failure,
    read_part,
    read_sentinel,
    read_until,
)
from interlock.workers.runs.plan.model import (
    CODONS_MAX,
    RIG_ITEMS_MAX,
    SENTINELS_MAX,
    PlannedCodon,
    PlannedLoop,
    PlannedSentinel,
    RigCommand,
    RigCopy,
    RigFolder,
    RunPlan,
    SessionChoice,
)
from interlock.workers.runs.plan.path import path_within
from interlock.workers.specs.document import SpecDocument, parse_document, read_document
from interlock.workers.specs.fields import check_size, payload_field, single_field
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import ItemNames, Location, Problems, SpecFileError
from interlock.workers.specs.values import PLAIN, ValueKind, read_value
from interlock.workers.specs.yaml_document import Node

BYTES_MAX = 128 * 1024
STORED_BYTES_MAX = 200_000
_ON = re.compile(r"\bon\s*:", re.IGNORECASE)
_CODONS_ADVICE = "write `codons:` and a list of at least one codon"
_UNTIL_ADVICE = "write when it ends: `until: {iterations: <n>}`, or `until: context_exceeded`"
_RIG_COMMAND = {
    "run": payload_field(RigCommand, "run", TEXT, "write what to run: `run: <command>`"),
    "in": payload_field(RigCommand, "folder"),
    "timeout_s": payload_field(RigCommand, "timeout_s"),
}


def read_plan(path: Path, workspace: Path) -> RunPlan:
    """Read the plan of a run that works in a workspace. Raises SpecFileError."""
    advice = "split it into plans of several runs, or put long texts into files"
    return _read(read_document(path, bytes_max=BYTES_MAX, advice=advice), workspace)


def read_plan_fields(fields: Mapping[str, Any], workspace: Path) -> RunPlan:
    """Read a plan from the fields of its file, as JSON has them. Raises InvalidPayloadError."""
    text = json.dumps(fields)
    if len(text) > BYTES_MAX:
        raise InvalidPayloadError("the plan", [f"it has more than {BYTES_MAX} bytes"])
    try:
        return _read(parse_document(text, Path("plan.json")), workspace)
    except SpecFileError as refusal:
        problems = [problem.text for problem in refusal.problems]
        raise InvalidPayloadError("the plan", problems) from refusal


def _read(document: SpecDocument, workspace: Path) -> RunPlan:
    problems = document.problems
    plan = _RunPlanReader(workspace, document.text.splitlines(), problems).plan(document.root)
    problems.raise_if_any()
    assert plan is not None, "a plan without problems is read"
    return plan


class _RunPlanReader:
    """The reader of one file; every problem in it is added to `problems`."""

    def __init__(self, workspace: Path, lines: Sequence[str], problems: Problems) -> None:
        self._workspace, self._lines, self._problems = workspace, lines, problems
        self._sentinel_names: Collection[str] = ()
        # A codon and a loop cannot have the same name.
        self._names = ItemNames(problems, "codon or loop")
        self._codons = 0
        self._codon_fields = {
            "rig": single_field("rig", self._rig),
            **command_or_model_fields(PlannedCodon),
            "speaks": payload_field(PlannedCodon, "speaks"),
            "continuation": payload_field(PlannedCodon, "continuation"),
            "on_failure": single_field("on_failure", read_on_failure),
            "budget": single_field("budget", read_budget),
            "sentinels": single_field("sentinels", self._sentinels_of_codon),
            "timeout_s": payload_field(PlannedCodon, "timeout_s"),
            "idle_s": payload_field(PlannedCodon, "idle_s"),
            "environment": single_field("environment", read_environment),
        }

    def plan(self, root: Node) -> RunPlan | None:
        """Return the plan, or None where there is a problem."""
        location = Location(self._problems)
        sentinels = root.value.get("sentinels") if isinstance(root.value, dict) else None
        if sentinels is not None and isinstance(sentinels.value, dict):
            self._sentinel_names = [key for key in sentinels.value if isinstance(key, str)]
        fields = {
            "plan": payload_field(RunPlan, "name", NAME, "name the plan: `plan: <name>`"),
            "environment": single_field("environment", read_environment),
            "budget": single_field("budget", read_budget),
            "sentinels": single_field("sentinels", self._sentinels),
            "codons": single_field("steps", self._steps, required=_CODONS_ADVICE),
        }
        plan = read_part(RunPlan, root, fields, location)
        if plan is not None:
            check_size(plan.stored(), root.line, location, STORED_BYTES_MAX)
        return plan

    def _sentinels(self, node: Node, location: Location) -> tuple[PlannedSentinel | None, ...]:
        if not isinstance(node.value, dict):
            problem = f"{shown(node.plain())}: write each below its name, like `watcher:`"
            location.refuse(node.line, problem)
            return ()
        if len(node.value) > SENTINELS_MAX:
            problem = f"these are {len(node.value)}, at most {SENTINELS_MAX} are allowed"
            location.refuse(node.line, problem)
        found = []
        for key, inner in node.value.items():
            name = read_value(PlannedSentinel, "id", NAME, Node(inner.line, key), location)
            of_sentinel = (
                Location(self._problems, f"sentinel {name!r}") if name else location.inside(key)
            )
            found.append(read_sentinel(name, self._with_on(inner), of_sentinel))
        return tuple(found)

    def _with_on(self, node: Node) -> Node:
        """Return a sentinel with its key `on` as text, because YAML reads `on` as true."""
        if not isinstance(node.value, dict):
            return node
        found = {
            "on" if key is True and _ON.search(self._lines[inner.line - 1]) else key: inner
            for key, inner in node.value.items()
        }
        return Node(node.line, found)

    def _steps(
        self, node: Node, location: Location
    ) -> tuple[PlannedCodon | PlannedLoop | None, ...]:
        entries = read_entries(node, location, maximum=CODONS_MAX, noun="codon")
        found: list[PlannedCodon | PlannedLoop | None] = []
        for index, entry in enumerate(entries):
            step = self._loop if _is_loop(entry) else self._codon
            found.append(step(index, entry))
        # Codons in loops count too; a list that is too long by itself was refused already.
        if self._codons > CODONS_MAX >= len(entries):
            problem = f"these are {self._codons}, at most {CODONS_MAX} are allowed"
            location.refuse(node.line, f"{problem}; split them into plans of several runs")
        if entries:
            self._refuse_continuing(_first_codon(entries[0]), location)
        return tuple(found)

    def _refuse_continuing(self, codon: Node, location: Location) -> None:
        """Refuse a first codon that is to continue the session of the codon before it."""
        written = codon.value.get("continuation") if isinstance(codon.value, dict) else None
        if written is not None and written.value == SessionChoice.CONTINUE_PREVIOUS:
            problem = "no codon comes before the first one; write fresh, or take it out"
            location.inside(0).inside("continuation").refuse(written.line, problem)

    def _loop(self, index: int, node: Node) -> PlannedLoop | None:
        name, location = self._name(index, node, "loop")
        fields = {
            "until": single_field("until", read_until, required=_UNTIL_ADVICE),
            "codons": single_field("codons", self._codons_of_loop, required=_CODONS_ADVICE),
        }
        return read_part(
            PlannedLoop, node, fields, location, known=("loop", *fields), id=name or None
        )

    def _codons_of_loop(self, node: Node, location: Location) -> tuple[PlannedCodon | None, ...]:
        found = []
        for index, entry in enumerate(
            read_entries(node, location, maximum=CODONS_MAX, noun="codon")
        ):
            if _is_loop(entry):
                problem = "a loop cannot be in a loop; write its codons here, or put it outside"
                location.inside(index).refuse(entry.line, problem)
            else:
                found.append(self._codon(index, entry))
        return tuple(found)

    def _codon(self, index: int, node: Node) -> PlannedCodon | None:
        self._codons += 1
        name, location = self._name(index, node, "codon")
        fields = self._codon_fields
        return read_part(
            PlannedCodon, node, fields, location, known=("codon", *fields), id=name or None
        )

    def _name(self, index: int, node: Node, kind: str) -> tuple[str, Location]:
        """Return the name of a codon or loop, '' where it is refused, and its location."""
        return self._names.read(node, kind, _read_name, kind=kind, number=index + 1)

    def _sentinels_of_codon(self, node: Node, location: Location) -> tuple[str, ...]:
        found: list[str] = []
        for index, entry in enumerate(
            read_entries(node, location, maximum=SENTINELS_MAX, noun="sentinel")
        ):
            name = entry.plain()
            if not isinstance(name, str) or name not in self._sentinel_names:
                suggestion = self._problems.suggestion(str(name), self._sentinel_names)
                problem = f"{shown(name)} is no sentinel of this plan; write it below `sentinels:`"
                location.inside(index).refuse(entry.line, problem + suggestion)
            elif name in found:
                location.inside(index).refuse(entry.line, f"{name} is listed twice; take one out")
            else:
                found.append(name)
        return tuple(found)

    def _rig(self, node: Node, location: Location) -> tuple[RigCopy | RigCommand | None, ...]:
        found: list[RigCopy | RigCommand | None] = []
        copied = False
        for index, entry in enumerate(
            read_entries(node, location, maximum=RIG_ITEMS_MAX, noun="item")
        ):
            found.append(self._rig_item(entry, location.inside(index), copied=copied))
            copied = copied or (isinstance(entry.value, dict) and "copy" in entry.value)
        return tuple(found)

    def _rig_item(
        self, node: Node, location: Location, *, copied: bool
    ) -> RigCopy | RigCommand | None:
        written = location.fields(node, ("copy", "command", "allow_failure"))
        kinds = [word for word in ("copy", "command") if word in written]
        if isinstance(node.value, dict) and len(kinds) != 1:
            advice = "`copy: {from: <path>, to: <path>}` or `command: {run: <command>}`"
            location.refuse(node.line, f"write one thing, {advice}")
        allowed: bool | None = False
        if "allow_failure" in written:
            inner = written["allow_failure"]
            inside = location.inside("allow_failure")
            allowed = read_value(RigCopy, "allow_failure", PLAIN, inner, inside)
        found: RigCopy | RigCommand | None = None
        if "copy" in written:
            found = self._rig_copy(written["copy"], location.inside("copy"), allowed=allowed)
        if "command" in written:
            inside = location.inside("command")
            found = _rig_command(written["command"], inside, allowed=allowed, copied=copied)
        return found

    def _rig_copy(self, node: Node, location: Location, *, allowed: bool | None) -> RigCopy | None:
        path = ValueKind(self._path, str)
        fields = {
            "from": payload_field(RigCopy, "source", path, "write what to copy: `from: <path>`"),
            "to": payload_field(RigCopy, "target", path, "write where to: `to: <path>`"),
        }
        found = read_part(RigCopy, node, fields, location, allow_failure=allowed)
        if found is not None:
            source = path_within(self._workspace, found.source)
            target = path_within(self._workspace, found.target)
            # The target is removed before the copy is made, and the source with it if it is inside.
            if source == target or source in target.parents or target in source.parents:
                problem = (
                    f"one of {found.source} and {found.target} is inside the other; keep them apart"
                )
                location.refuse(node.line, problem)
        return found

    def _path(self, node: Node) -> str:
        """Return a path as the plan stores it. Raises ValueError, which says what to write."""
        if not isinstance(node.value, str):
            raise ValueError("write a path inside the workspace, like data/raw.csv")  # noqa: TRY004 - the file is wrong, not the code
        path_within(self._workspace, node.value)
        return PurePosixPath(node.value).as_posix()


def _rig_command(
    node: Node, location: Location, *, allowed: bool | None, copied: bool
) -> RigCommand | None:
    found = read_part(RigCommand, node, _RIG_COMMAND, location, allow_failure=allowed)
    if found is not None and found.folder is RigFolder.COPIED and not copied:
        problem = "no copy comes before it; write workspace, or put a copy before it"
        location.inside("in").refuse(node.value["in"].line, problem)
    return found


def _is_loop(node: Node) -> bool:
    return isinstance(node.value, dict) and "loop" in node.value


def _first_codon(step: Node) -> Node:
    """Return the node of the first codon of a step, or the step's own where it has none."""
    if _is_loop(step):
        inner = step.value.get("codons")
        if inner is not None and isinstance(inner.value, list) and inner.value:
            first: Node = inner.value[0]
            return first
    return step


def _read_name(node: Node, location: Location) -> str | None:
    found: str | None = read_value(PlannedCodon, "id", NAME, node, location)
    return found
