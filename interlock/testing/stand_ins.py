"""What stands in for the function of a step: each outcome that it declares, with data like its."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from interlock.workflow.assigned import set_before
from interlock.workflow.data import Data, Merge, merge_of
from interlock.workflow.names import families_of
from interlock.workflow.parts import StepPart
from interlock.workflow.sample import full_sample, sample
from interlock.workflow.signature import Function, fields_set
from interlock.workflow.workflow import Workflow

LEAST = ".least"  # after a target: the step has set no more than it sets in any case
A_DAY = timedelta(days=1)
CHILDREN = 2  # the items of a list that children work on


@dataclass(frozen=True, slots=True)
class Standing:
    """One outcome of a step: the state that follows, and the fields that it sets.

    A field of `fills` is set only where it is None.
    """

    target: str
    sets: frozenset[str]
    fills: frozenset[str] = frozenset()

    def apply(self, data: Data, values: Mapping[str, Any]) -> str:
        """Set the fields in the data of a record, and return the state that follows."""
        for name in sorted(self.sets | self.fills):
            if name not in values or (name in self.fills and getattr(data, name) is not None):
                continue
            setattr(data, name, _after(data, name, values[name]))
        return self.target


def standings_of(part: StepPart, flow: Workflow[Any]) -> dict[str, Standing]:
    """Return the outcomes of a step by their names: each target, and each with the least set."""
    model = frozenset(flow.data.model_fields)
    fills = model if _is_given_on(part.function) else frozenset()
    found: dict[str, Standing] = {}
    set_by = set_before(part.function, part.targets, fields_set(part.function) & model)
    for target, fields in set_by.items():
        found[target] = Standing(target, fields.may, fills)
        if fields.may != fields.must:
            found[target + LEAST] = Standing(target, fields.must)
    return found


def first_data(flow: Workflow[Any]) -> Data | None:
    """Return data that a record of a workflow may begin with, None if its validators refuse all."""
    made: Data | None = sample(flow.data)
    return made.model_copy(update=_times(made)) if made else None


def values_of(flow: Workflow[Any]) -> dict[str, Any]:
    """Return a value of each field of the data of a workflow, as their types allow it."""
    made = full_sample(flow.data)
    if made is None:
        return {}
    values = {name: getattr(made, name) for name in flow.data.model_fields} | _times(made)
    for family in families_of(flow.declared).values():
        values[family.field] = list(values[family.field])[:1] * CHILDREN
    return values


def _times(data: Data) -> dict[str, Any]:
    """Return the times and days of data, moved to a day from now: a wait for them has an end."""
    found: dict[str, Any] = {}
    for name in type(data).model_fields:
        match getattr(data, name):
            case datetime() as moment:
                found[name] = datetime.now(moment.tzinfo) + A_DAY
            case date():
                found[name] = datetime.now(UTC).date() + A_DAY
    return found


def payload_of(model: type[BaseModel] | None) -> dict[str, Any]:
    """Return fields that a model of an answer or of a call takes, as JSON."""
    made = (full_sample(model) or sample(model)) if model else None
    return made.model_dump(mode="json", exclude_none=True) if made else {}


def _after(data: Data, name: str, value: Any) -> Any:
    """Return what a field is after the step, as its type lets the step change it."""
    match merge_of(type(data).model_fields[name]):
        case Merge.LOG:
            return [*getattr(data, name), *value]
        case Merge.INBOX:
            return []
        case Merge.SUM:
            return getattr(data, name) + value
        case Merge.PLAIN:
            return value


def _is_given_on(function: Function) -> bool:
    """Whether a step gives its data to another function, which may set any field."""
    inner = inspect.unwrap(function)
    parameter = next(iter(inspect.signature(inner).parameters))
    steps = [one for one in dis.get_instructions(inner) if one.opname != "COPY"]
    return any(
        one.opname.startswith("LOAD_FAST")
        and parameter in (one.argval if isinstance(one.argval, tuple) else (one.argval,))
        and not after.opname.endswith(("_ATTR", "_METHOD"))
        for one, after in pairwise(steps)
    )
