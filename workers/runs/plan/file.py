"""The plan of a run that a person wrote, in YAML, read and checked; it starts nothing.

All that is wrong is told at once, each thing with its line. What a value may be is said by the
plan's own model; here is only what is written where.
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
    Words,
    budget,
    environment,
    listed,
    made,
    need,
    on_failure,
    one_of,
    sentinel,
    until,
    value,
    worker_words,
)
from interlock.workers.runs.plan.model import (
    CODONS_MAX,
    RIG_ITEMS_MAX,
    SENTINELS_MAX,
    Continuation,
    Plan,
    PlannedCodon,
    PlannedLoop,
    PlannedSentinel,
    RigCommand,
    RigCopy,
    RigFolder,
    Speech,
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
    """A plan cannot be taken as it is, and nothing was started. Correct the lines it names."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        at = [f"{path}:{one.line}" if one.line else str(path) for one in problems]
        told = tuple(f"{where}: {one.text}" for where, one in zip(at, problems, strict=True))
        super().__init__("\n".join(told))
        self.path, self.problems = path, told


def read_plan(path: Path, workspace: Path) -> Plan:
    """Read the plan of a run that works in a workspace. Raises PlanInvalidError."""
    advice = "make plans of several runs of it, or put long texts into files"
    try:
        text = read_text(path, bytes_max=BYTES_MAX, advice=advice)
        root = read_yaml(text).root or Node(1, None)
    except UnreadableError as error:
        raise PlanInvalidError(path, [Problem(error.line, error.problem)]) from error
    problems = Problems()
    plan = _Reader(workspace, text.splitlines(), problems).plan(root)
    assert (plan is None) == bool(problems.count), "a plan is refused for a reason"
    if plan is None:
        raise PlanInvalidError(path, problems.listed())
    return plan


@dataclass(slots=True)
class _Reader:
    """One file; all that is wrong with it goes to the problems."""

    workspace: Path
    lines: Sequence[str]
    problems: Problems
    sentinels: frozenset[str] = frozenset()
    # Codons and loops share their names: either can be meant by one.
    names: dict[str, int] = field(default_factory=dict)
    codons: int = 0

    def plan(self, root: Node) -> Plan | None:
        """Return the plan, or None where anything is wrong."""
        place = Location(self.problems)
        watching = root.value.get("sentinels") if isinstance(root.value, dict) else None
        if watching is not None and isinstance(watching.value, dict):
            self.sentinels = frozenset(one for one in watching.value if isinstance(one, str))
        words: Words = {
            "plan": ("name", value(Plan, "name", NAME)),
            "environment": ("environment", environment),
            "budget": ("budget", budget),
            "sentinels": ("sentinels", self._sentinels),
            "codons": ("steps", self._steps),
        }
        need(root, "plan", "name the plan: `plan: <name>`", place)
        need(root, "codons", "write `codons:` and a list of at least one codon", place)
        plan = made(Plan, root, words, place)
        if plan is None:
            return None
        try:
            encode(plan.stored(), "the plan", STORED_BYTES_MAX)
        except InvalidPayloadError as refusal:
            place.refuse(root.line, "; ".join(refusal.problems))
            return None
        return plan

    def _sentinels(self, node: Node, place: Location) -> tuple[PlannedSentinel | None, ...]:
        if not isinstance(node.value, dict):
            told = f"{shown(node.plain())}: write each below its name, like `watcher:`"
            place.refuse(node.line, told)
            return ()
        if len(node.value) > SENTINELS_MAX:
            problem = f"these are {len(node.value)}, at most {SENTINELS_MAX} are allowed"
            place.refuse(node.line, problem)
        found = []
        for key, inner in node.value.items():
            name = read_value(PlannedSentinel, "id", NAME, Node(inner.line, key), place)
            whose = Location(self.problems, f"sentinel {name!r}") if name else place.inside(key)
            found.append(sentinel(name, self._with_on(inner), whose))
        return tuple(found)

    def _with_on(self, node: Node) -> Node:
        """Return a sentinel whose key `on` is a word: YAML takes it for another way to say true."""
        if not isinstance(node.value, dict):
            return node
        found = {
            "on" if key is True and _ON.search(self.lines[inner.line - 1]) else key: inner
            for key, inner in node.value.items()
        }
        return Node(node.line, found)

    def _steps(self, node: Node, place: Location) -> tuple[PlannedCodon | PlannedLoop | None, ...]:
        entries = listed(node, place, most=CODONS_MAX, what="codon")
        found: list[PlannedCodon | PlannedLoop | None] = []
        for index, entry in enumerate(entries):
            step = self._loop if _is_loop(entry) else self._codon
            found.append(step(index, entry))
        # A list that is too long by itself was refused already.
        if self.codons > CODONS_MAX >= len(entries):
            problem = f"these are {self.codons}, at most {CODONS_MAX} are allowed"
            place.refuse(node.line, f"{problem}; make plans of several runs of them")
        if entries:
            self._refuse_continuing(_first_codon(entries[0]), place)
        return tuple(found)

    def _refuse_continuing(self, codon: Node, place: Location) -> None:
        """Refuse a first codon that goes on with the session of the one before it."""
        written = codon.value.get("continuation") if isinstance(codon.value, dict) else None
        if written is not None and written.value == Continuation.CONTINUE_PREVIOUS:
            problem = "nothing comes before the first codon; write fresh, or take it out"
            place.inside(0).inside("continuation").refuse(written.line, problem)

    def _loop(self, index: int, node: Node) -> PlannedLoop | None:
        name, place = self._name(index, node, "loop")
        words: Words = {
            "loop": ("id", lambda _node, _place: name),
            "until": ("until", until),
            "codons": ("codons", self._codons_of_loop),
        }
        advice = "say when it ends: `until: {iterations: <n>}`, or `until: context_exceeded`"
        need(node, "until", advice, place)
        need(node, "codons", "write `codons:` and a list of at least one codon", place)
        return made(PlannedLoop, node, words, place)

    def _codons_of_loop(self, node: Node, place: Location) -> tuple[PlannedCodon | None, ...]:
        found = []
        for index, entry in enumerate(listed(node, place, most=CODONS_MAX, what="codon")):
            if _is_loop(entry):
                problem = "a loop cannot be in a loop; write its codons here, or put it beside"
                place.inside(index).refuse(entry.line, problem)
            else:
                found.append(self._codon(index, entry))
        return tuple(found)

    def _codon(self, index: int, node: Node) -> PlannedCodon | None:
        self.codons += 1
        name, place = self._name(index, node, "codon")
        speech, going_on = one_of(Speech), one_of(Continuation)
        words: Words = {
            "codon": ("id", lambda _node, _place: name),
            "rig": ("rig", self._rig),
            **worker_words(PlannedCodon),
            "speaks": ("speaks", value(PlannedCodon, "speaks", speech)),
            "continuation": ("continuation", value(PlannedCodon, "continuation", going_on)),
            "on_failure": ("on_failure", on_failure),
            "budget": ("budget", budget),
            "sentinels": ("sentinels", self._watchers),
            "timeout_s": ("timeout_s", value(PlannedCodon, "timeout_s")),
            "idle_s": ("idle_s", value(PlannedCodon, "idle_s")),
            "environment": ("environment", environment),
        }
        return made(PlannedCodon, node, words, place)

    def _name(self, index: int, node: Node, word: str) -> tuple[str | None, Location]:
        """Return the name of a codon or loop, None where it is refused, and how to speak of it."""
        place = Location(self.problems, f"{word} {index + 1}")
        if not need(node, word, f"name it: `{word}: <name>`", place):
            return None, place
        written: Node = node.value[word]
        name: str | None = read_value(PlannedCodon, "id", NAME, written, place.inside(word))
        if name is None:
            return None, place
        place = Location(self.problems, f"{word} {name!r}")
        if name in self.names:
            problem = f"line {self.names[name]} has a codon or loop of this name; choose another"
            place.inside(word).refuse(written.line, problem)
        else:
            self.names[name] = written.line
        return name, place

    def _watchers(self, node: Node, place: Location) -> tuple[str, ...]:
        found: list[str] = []
        for index, entry in enumerate(listed(node, place, most=SENTINELS_MAX, what="sentinel")):
            name = entry.plain()
            if not isinstance(name, str) or name not in self.sentinels:
                meant = self.problems.suggestion(str(name), self.sentinels)
                problem = f"{shown(name)} is no sentinel of this plan; write it below `sentinels:`"
                place.inside(index).refuse(entry.line, problem + meant)
            elif name in found:
                place.inside(index).refuse(entry.line, f"{name} is there twice; take one out")
            else:
                found.append(name)
        return tuple(found)

    def _rig(self, node: Node, place: Location) -> tuple[RigCopy | RigCommand | None, ...]:
        found: list[RigCopy | RigCommand | None] = []
        copied = False
        for index, entry in enumerate(listed(node, place, most=RIG_ITEMS_MAX, what="item")):
            found.append(self._rig_item(entry, place.inside(index), copied=copied))
            copied = copied or (isinstance(entry.value, dict) and "copy" in entry.value)
        return tuple(found)

    def _rig_item(
        self, node: Node, place: Location, *, copied: bool
    ) -> RigCopy | RigCommand | None:
        written = place.fields(node, ("copy", "command", "allow_failure"))
        kinds = [word for word in ("copy", "command") if word in written]
        if isinstance(node.value, dict) and len(kinds) != 1:
            advice = "`copy: {from: <path>, to: <path>}` or `command: {run: <command>}`"
            place.refuse(node.line, f"write one thing, {advice}")
        allowed: bool | None = False
        if "allow_failure" in written:
            read = value(RigCopy, "allow_failure")
            allowed = read(written["allow_failure"], place.inside("allow_failure"))
        found: RigCopy | RigCommand | None = None
        if "copy" in written:
            found = self._rig_copy(written["copy"], place.inside("copy"), allowed=allowed)
        if "command" in written:
            inside = place.inside("command")
            found = _rig_command(written["command"], inside, allowed=allowed, copied=copied)
        return found

    def _rig_copy(self, node: Node, place: Location, *, allowed: bool | None) -> RigCopy | None:
        path = ValueKind(self._path, str)
        words: Words = {
            "from": ("source", value(RigCopy, "source", path)),
            "to": ("target", value(RigCopy, "target", path)),
        }
        need(node, "from", "say what to copy: `from: <path>`", place)
        need(node, "to", "say where to: `to: <path>`", place)
        found = made(RigCopy, node, words, place, allow_failure=allowed)
        if found is not None:
            source = path_within(self.workspace, found.source)
            target = path_within(self.workspace, found.target)
            # What is at the target is removed first, and would take the source with it.
            if source == target or source in target.parents or target in source.parents:
                problem = f"{found.source} and {found.target} are in each other; keep them apart"
                place.refuse(node.line, problem)
        return found

    def _path(self, node: Node) -> str:
        """Return a path as the plan keeps it. Raises ValueError, which says what to write."""
        if not isinstance(node.value, str):
            raise ValueError("write a path inside of the workspace, like data/raw.csv")  # noqa: TRY004 - what is written is wrong, not the code
        path_within(self.workspace, node.value)
        return PurePosixPath(node.value).as_posix()


def _rig_command(
    node: Node, place: Location, *, allowed: bool | None, copied: bool
) -> RigCommand | None:
    words: Words = {
        "run": ("run", value(RigCommand, "run", TEXT)),
        "in": ("folder", value(RigCommand, "folder", one_of(RigFolder))),
        "timeout_s": ("timeout_s", value(RigCommand, "timeout_s")),
    }
    need(node, "run", "say what to run: `run: <command>`", place)
    found = made(RigCommand, node, words, place, allow_failure=allowed)
    if found is not None and found.folder is RigFolder.COPIED and not copied:
        problem = "nothing is copied before it; write workspace, or put a copy before it"
        place.inside("in").refuse(node.value["in"].line, problem)
    return found


def _is_loop(node: Node) -> bool:
    return isinstance(node.value, dict) and "loop" in node.value


def _first_codon(step: Node) -> Node:
    """Return the first codon that a step does, or what stands in its place."""
    if _is_loop(step):
        inner = step.value.get("codons")
        if inner is not None and isinstance(inner.value, list) and inner.value:
            first: Node = inner.value[0]
            return first
    return step
