"""Reads and checks the YAML file of a plan.

Every problem is reported at once, each with its line. Which values are allowed is defined in the
plan's models; this module only knows which field is written where.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from interlock.kernel.errors import CallError, InvalidPayloadError
from interlock.kernel.store.codec import encode
from interlock.workers.runs.plan.fields import (
    NAME,
    TEXT,
    FieldReaders,
    choice_of,
    command_or_model_readers,
    read_budget,
    read_entries,
    read_environment,
    read_on_failure,
    read_part,
    read_sentinel,
    read_until,
    require,
    value_reader,
)
from interlock.workers.runs.plan.model import (
    CODONS_MAX,
    RIG_ITEMS_MAX,
    SENTINELS_MAX,
    OutputFormat,
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
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location, Problem, Problems
from interlock.workers.specs.values import ValueKind, read_value
from interlock.workers.specs.yaml_document import Node, UnreadableError, read_text, read_yaml

BYTES_MAX = 128 * 1024
STORED_BYTES_MAX = 200_000
_ON = re.compile(r"\bon\s*:", re.IGNORECASE)


class PlanInvalidError(CallError):
    """A plan has problems, and nothing was started. Correct the lines that the message names."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        lines = tuple(
            f"{path}:{problem.line}: {problem.text}" if problem.line else f"{path}: {problem.text}"
            for problem in problems
        )
        super().__init__("\n".join(lines))
        self.path, self.problems = path, lines


def read_plan(path: Path, workspace: Path) -> RunPlan:
    """Read the plan of a run that works in a workspace. Raises PlanInvalidError."""
    advice = "split it into plans of several runs, or put long texts into files"
    try:
        text = read_text(path, bytes_max=BYTES_MAX, advice=advice)
        root = read_yaml(text).root or Node(1, None)
    except UnreadableError as error:
        raise PlanInvalidError(path, [Problem(error.line, error.problem)]) from error
    problems = Problems()
    plan = _RunPlanReader(workspace, text.splitlines(), problems).plan(root)
    assert (plan is None) == bool(problems.count), "a plan is refused for a reason"
    if plan is None:
        raise PlanInvalidError(path, problems.listed())
    return plan


@dataclass(slots=True)
class _RunPlanReader:
    """The reader of one file; every problem in it is added to `problems`."""

    workspace: Path
    lines: Sequence[str]
    problems: Problems
    sentinels: frozenset[str] = frozenset()
    # The lines of names. A codon and a loop cannot have the same name.
    names: dict[str, int] = field(default_factory=dict)
    codons: int = 0

    def plan(self, root: Node) -> RunPlan | None:
        """Return the plan, or None where there is a problem."""
        location = Location(self.problems)
        sentinels = root.value.get("sentinels") if isinstance(root.value, dict) else None
        if sentinels is not None and isinstance(sentinels.value, dict):
            self.sentinels = frozenset(key for key in sentinels.value if isinstance(key, str))
        readers: FieldReaders = {
            "plan": ("name", value_reader(RunPlan, "name", NAME)),
            "environment": ("environment", read_environment),
            "budget": ("budget", read_budget),
            "sentinels": ("sentinels", self._sentinels),
            "codons": ("steps", self._steps),
        }
        require(root, "plan", "name the plan: `plan: <name>`", location)
        require(root, "codons", "write `codons:` and a list of at least one codon", location)
        plan = read_part(RunPlan, root, readers, location)
        if plan is None:
            return None
        try:
            encode(plan.stored(), "the plan", STORED_BYTES_MAX)
        except InvalidPayloadError as refusal:
            location.refuse(root.line, "; ".join(refusal.problems))
            return None
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
                Location(self.problems, f"sentinel {name!r}") if name else location.inside(key)
            )
            found.append(read_sentinel(name, self._with_on(inner), of_sentinel))
        return tuple(found)

    def _with_on(self, node: Node) -> Node:
        """Return a sentinel with its key `on` as text, because YAML reads `on` as true."""
        if not isinstance(node.value, dict):
            return node
        found = {
            "on" if key is True and _ON.search(self.lines[inner.line - 1]) else key: inner
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
        if self.codons > CODONS_MAX >= len(entries):
            problem = f"these are {self.codons}, at most {CODONS_MAX} are allowed"
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
        readers: FieldReaders = {
            "loop": ("id", lambda _node, _location: name),
            "until": ("until", read_until),
            "codons": ("codons", self._codons_of_loop),
        }
        advice = "write when it ends: `until: {iterations: <n>}`, or `until: context_exceeded`"
        require(node, "until", advice, location)
        require(node, "codons", "write `codons:` and a list of at least one codon", location)
        return read_part(PlannedLoop, node, readers, location)

    def _codons_of_loop(self, node: Node, location: Location) -> tuple[PlannedCodon | None, ...]:
        found = []
        for index, entry in enumerate(
            read_entries(node, location, maximum=CODONS_MAX, noun="codon")
        ):
            if _is_loop(entry):
                problem = "a loop cannot be in a loop; write its codons here, or put it beside"
                location.inside(index).refuse(entry.line, problem)
            else:
                found.append(self._codon(index, entry))
        return tuple(found)

    def _codon(self, index: int, node: Node) -> PlannedCodon | None:
        self.codons += 1
        name, location = self._name(index, node, "codon")
        speaks, continuation = choice_of(OutputFormat), choice_of(SessionChoice)
        readers: FieldReaders = {
            "codon": ("id", lambda _node, _location: name),
            "rig": ("rig", self._rig),
            **command_or_model_readers(PlannedCodon),
            "speaks": ("speaks", value_reader(PlannedCodon, "speaks", speaks)),
            "continuation": (
                "continuation",
                value_reader(PlannedCodon, "continuation", continuation),
            ),
            "on_failure": ("on_failure", read_on_failure),
            "budget": ("budget", read_budget),
            "sentinels": ("sentinels", self._sentinels_of_codon),
            "timeout_s": ("timeout_s", value_reader(PlannedCodon, "timeout_s")),
            "idle_s": ("idle_s", value_reader(PlannedCodon, "idle_s")),
            "environment": ("environment", read_environment),
        }
        return read_part(PlannedCodon, node, readers, location)

    def _name(self, index: int, node: Node, noun: str) -> tuple[str | None, Location]:
        """Return the name of a codon or loop, None where it is refused, and its location."""
        location = Location(self.problems, f"{noun} {index + 1}")
        if not require(node, noun, f"name it: `{noun}: <name>`", location):
            return None, location
        written: Node = node.value[noun]
        name: str | None = read_value(PlannedCodon, "id", NAME, written, location.inside(noun))
        if name is None:
            return None, location
        location = Location(self.problems, f"{noun} {name!r}")
        if name in self.names:
            problem = f"line {self.names[name]} has a codon or loop of this name; choose another"
            location.inside(noun).refuse(written.line, problem)
        else:
            self.names[name] = written.line
        return name, location

    def _sentinels_of_codon(self, node: Node, location: Location) -> tuple[str, ...]:
        found: list[str] = []
        for index, entry in enumerate(
            read_entries(node, location, maximum=SENTINELS_MAX, noun="sentinel")
        ):
            name = entry.plain()
            if not isinstance(name, str) or name not in self.sentinels:
                suggestion = self.problems.suggestion(str(name), self.sentinels)
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
            read = value_reader(RigCopy, "allow_failure")
            allowed = read(written["allow_failure"], location.inside("allow_failure"))
        found: RigCopy | RigCommand | None = None
        if "copy" in written:
            found = self._rig_copy(written["copy"], location.inside("copy"), allowed=allowed)
        if "command" in written:
            inside = location.inside("command")
            found = _rig_command(written["command"], inside, allowed=allowed, copied=copied)
        return found

    def _rig_copy(self, node: Node, location: Location, *, allowed: bool | None) -> RigCopy | None:
        path = ValueKind(self._path, str)
        readers: FieldReaders = {
            "from": ("source", value_reader(RigCopy, "source", path)),
            "to": ("target", value_reader(RigCopy, "target", path)),
        }
        require(node, "from", "write what to copy: `from: <path>`", location)
        require(node, "to", "write where to: `to: <path>`", location)
        found = read_part(RigCopy, node, readers, location, allow_failure=allowed)
        if found is not None:
            source = path_within(self.workspace, found.source)
            target = path_within(self.workspace, found.target)
            # The target is removed before the copy is made, and the source with it if it is inside.
            if source == target or source in target.parents or target in source.parents:
                problem = (
                    f"{found.source} and {found.target} are inside each other; keep them apart"
                )
                location.refuse(node.line, problem)
        return found

    def _path(self, node: Node) -> str:
        """Return a path as the plan stores it. Raises ValueError, which says what to write."""
        if not isinstance(node.value, str):
            raise ValueError("write a path inside the workspace, like data/raw.csv")  # noqa: TRY004 - the file is wrong, not the code
        path_within(self.workspace, node.value)
        return PurePosixPath(node.value).as_posix()


def _rig_command(
    node: Node, location: Location, *, allowed: bool | None, copied: bool
) -> RigCommand | None:
    readers: FieldReaders = {
        "run": ("run", value_reader(RigCommand, "run", TEXT)),
        "in": ("folder", value_reader(RigCommand, "folder", choice_of(RigFolder))),
        "timeout_s": ("timeout_s", value_reader(RigCommand, "timeout_s")),
    }
    require(node, "run", "write what to run: `run: <command>`", location)
    found = read_part(RigCommand, node, readers, location, allow_failure=allowed)
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
