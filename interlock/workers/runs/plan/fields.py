"""The fields of a run plan's file, and the parts of the plan's model that they are read into."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from interlock.workers.runs.plan.model import (
    SEQUENCE_MAX,
    VARIABLES_MAX,
    CommandOrModel,
    FailurePolicy,
    LoopEnd,
    OnFailure,
    PlanBudget,
    PlannedSentinel,
    PlannedStrategy,
    PlanPart,
    RunPlan,
    SentinelEventName,
)
from interlock.workers.specs.fields import Field, payload_field, read_fields, single_field
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import MONEY, PLAIN, ValueKind, read_value
from interlock.workers.specs.yaml_document import Node

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,3})?", re.ASCII)
_MODEL = re.compile(r"[^\s:]+:\S+")
_MS_DIGITS = 3
_NUL = "no command and no setting can have a NUL character; take it out"
_STRATEGY = "write immediate, {debounce_s: <s>}, {count: <n>} or {window_s: <s>}"
_POLICY = "write abort, ignore or {retry: {attempts: <n>, delay_ms: <ms>}}"
_UNTIL = "write {iterations: <n>} or context_exceeded"

_Part = TypeVar("_Part", bound=PlanPart)


def read_part(
    model: type[_Part],
    node: Node,
    fields: Mapping[str, Field],
    location: Location,
    *,
    known: Collection[str] | None = None,
    **more: Any,
) -> _Part | None:
    """Return the part of a plan that a mapping describes, or None where it has a problem.

    A field with the value null counts as absent. `known` are all fields of the mapping if the
    caller reads some of them itself, and `more` are the values of those.
    """
    before = location.problems.count
    payload = read_fields(node, fields, location, known)
    if isinstance(node.value, dict):
        given = [
            name
            for key, field in fields.items()
            if key in node.value and node.value[key].value is not None
            for name in field.names
        ]
        if problem := model.mismatch(given):
            location.refuse(node.line, problem)
    whole = {name: part for name, part in (payload | more).items() if part is not None}
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    # The caller has already reported a required field that is missing.
    if location.problems.count > before or not required <= {*whole}:
        return None
    return model.model_validate(whole)


def read_entries(node: Node, location: Location, *, maximum: int, noun: str) -> list[Node]:
    """Return the entries of a list that has at least one."""
    entries = location.entries(node)
    if isinstance(node.value, list) and not entries:
        location.refuse(node.line, f"it is empty; write at least one {noun}")
    if len(entries) > maximum:
        location.refuse(node.line, f"these are {len(entries)}, at most {maximum} are allowed")
    return entries


def command_or_model_fields(model: type[CommandOrModel]) -> Mapping[str, Field]:
    """Return the fields of a command, or of a model with a prompt."""
    return {
        "command": payload_field(model, "command", TEXT),
        "model": payload_field(model, "model", MODEL),
        "prompt": payload_field(model, "prompt", TEXT),
    }


def read_sentinel(name: str, node: Node, location: Location) -> PlannedSentinel | None:
    """Read a sentinel."""
    return read_part(PlannedSentinel, node, _SENTINEL, location, id=name)


def read_budget(node: Node, location: Location) -> PlanBudget | None:
    """Read the budget of a codon or of the run."""
    return read_part(PlanBudget, node, _BUDGET, location)


def read_environment(node: Node, location: Location) -> Any:
    """Read environment variables."""
    if not isinstance(node.value, dict):
        location.refuse(node.line, f"{shown(node.plain())}: write lines of the form KEY: value")
        return {}
    if len(node.value) > VARIABLES_MAX:
        problem = f"these are {len(node.value)}, at most {VARIABLES_MAX} are allowed"
        location.refuse(node.line, problem)
        return {}
    valid: dict[str, Node] = {}
    for key, inner in node.value.items():
        if not isinstance(key, str) or not _VARIABLE.fullmatch(key):
            problem = f"{shown(key)} cannot be a variable; write letters, digits and _"
            location.refuse(inner.line, problem)
        elif isinstance(inner.value, str) and "\0" in inner.value:
            location.inside(key).refuse(inner.line, _NUL)
        else:
            valid[key] = inner
    return read_value(RunPlan, "environment", PLAIN, Node(node.line, valid), location)


def read_on_failure(node: Node, location: Location) -> OnFailure | None:
    """Read how the run goes on after a failure."""
    if node.value in (FailurePolicy.ABORT, FailurePolicy.IGNORE):
        return OnFailure(policy=FailurePolicy(node.value))
    if not isinstance(node.value, dict) or not node.value:
        location.refuse(node.line, f"{shown(node.plain())}: {_POLICY}")
        return None
    written = location.fields(node, ("retry",))
    if "retry" not in written:
        return None
    # A `retry:` without settings has the default settings.
    line, settings, _ = written["retry"]
    node = Node(line, {} if settings is None else settings)
    return read_part(OnFailure, node, _RETRY, location.inside("retry"), policy=FailurePolicy.RETRY)


def read_until(node: Node, location: Location) -> LoopEnd | None:
    """Read when a loop ends."""
    if node.value == "context_exceeded":
        return LoopEnd(context_exceeded=True)
    if not isinstance(node.value, dict):
        location.refuse(node.line, f"{shown(node.plain())}: {_UNTIL}")
        return None
    return read_part(LoopEnd, node, _ENDS, location)


def _strategy(node: Node, location: Location) -> PlannedStrategy | None:
    if node.value == "immediate":
        return PlannedStrategy()
    if not isinstance(node.value, dict) or not node.value:
        location.refuse(node.line, f"{shown(node.plain())}: {_STRATEGY}")
        return None
    return read_part(PlannedStrategy, node, _STRATEGIES, location)


def _events(node: Node, location: Location) -> tuple[SentinelEventName, ...]:
    found: list[SentinelEventName] = []
    for index, entry in enumerate(read_entries(node, location, maximum=SEQUENCE_MAX, noun="event")):
        known = tuple(each.value for each in SentinelEventName)
        if isinstance(entry.value, str) and entry.value in known:
            found.append(SentinelEventName(entry.value))
            continue
        suggestion = location.problems.suggestion(str(entry.value), known)
        problem = f"{shown(entry.plain())} is no event; known: {', '.join(known)}{suggestion}"
        location.inside(index).refuse(entry.line, problem)
    return tuple(found)


def _distinct_events(node: Node, location: Location) -> tuple[SentinelEventName, ...]:
    found = _events(node, location)
    for event in sorted({each for each in found if found.count(each) > 1}):
        location.refuse(node.line, f"{event} is listed more than once; write it once")
    return found


def _read_name(node: Node) -> str:
    if not isinstance(node.value, str):
        raise ValueError("it is not text; put it in quotation marks")  # noqa: TRY004 - not a bug
    if "#" in node.value:
        raise ValueError("the sign # is for the iterations of loops; choose a name without it")
    if not _NAME.fullmatch(node.value):
        raise ValueError("write up to 63 small letters, digits and -, a letter first")
    return node.value


def _read_text(node: Node) -> Any:
    if isinstance(node.value, str) and "\0" in node.value:
        raise ValueError(_NUL)
    if isinstance(node.value, str) and not node.value.strip():
        raise ValueError("it is empty; write a text")
    return node.plain()


def _read_model(node: Node) -> str:
    if isinstance(node.value, str) and _MODEL.fullmatch(node.value):
        return node.value
    raise ValueError("write it as <provider>:<name>")


def _read_ms(node: Node) -> int:
    # The number is read from its text, because a parsed float may have lost digits.
    if type(node.value) in (int, float) and _SECONDS.fullmatch(node.text):
        return int(Decimal(node.text).scaleb(_MS_DIGITS))
    raise ValueError("write seconds like 5 or 0.5, with at most 3 decimals")


def _read_true(node: Node) -> bool:
    if node.value is not True:
        raise ValueError("write true, or take it out")
    return True


NAME = ValueKind(_read_name, str)
TEXT = ValueKind(_read_text, str)
MODEL = ValueKind(_read_model, str)
SECONDS = ValueKind(_read_ms, lambda ms: f"{ms / 1_000:g}")
_TRUE = ValueKind(_read_true, bool)
_BUDGET = {
    "cost_usd": payload_field(PlanBudget, "cost_micro", MONEY),
    "duration_s": payload_field(PlanBudget, "duration_s"),
    "output_tokens": payload_field(PlanBudget, "output_tokens"),
    "exceeded": payload_field(PlanBudget, "exceeded"),
}
_RETRY = {
    "attempts": payload_field(OnFailure, "attempts"),
    "delay_ms": payload_field(OnFailure, "delay_ms"),
}
_ENDS = {
    "context_exceeded": payload_field(LoopEnd, "context_exceeded", _TRUE),
    "iterations": payload_field(LoopEnd, "iterations"),
}
_STRATEGIES = {
    "debounce_s": payload_field(PlannedStrategy, "debounce_ms", SECONDS),
    "count": payload_field(PlannedStrategy, "count"),
    "window_s": payload_field(PlannedStrategy, "window_ms", SECONDS),
}
_SENTINEL = {
    "on": single_field("on", _distinct_events),
    "sequence": single_field("sequence", _events),
    "strategy": single_field("strategy", _strategy),
    **command_or_model_fields(PlannedSentinel),
    "required": payload_field(PlannedSentinel, "required"),
    "timeout_s": payload_field(PlannedSentinel, "timeout_s"),
}
