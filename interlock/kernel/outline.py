"""The outline of a machine: its table as plain data, and the hash of that. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from interlock.kernel.effect import Effect
from interlock.kernel.table import Active, Data, Stage, Terminal, Transition, Waiting
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping, Children

FORM = 1  # of outlines; one of another version of Interlock with another form is not compared
# What only the present table means, and no record at work: another reason is no other table.
_WORDS_OF_ROWS = ("ours", "why_ours")
# What the values of a type are limited by. A validator is a function, which has no name of its own.
_LIMITS = (
    *("gt", "ge", "lt", "le", "multiple_of", "max_digits", "decimal_places"),
    *("min_length", "max_length", "pattern"),
)


class Outlined(Protocol):
    """The parts of a machine that its outline has."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def schema(self) -> int:
        """The number of the schema of its data."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Its states, the initial one first."""
        ...

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """Its rows."""
        ...

    @property
    def payloads(self) -> Mapping[str, type[BaseModel]]:
        """The model of the payload of each trigger."""
        ...

    @property
    def model(self) -> type[BaseModel] | None:
        """The model of its data, if they have one."""
        ...

    @property
    def effects(self) -> Mapping[str, Effect]:
        """Every effect that a record may owe, by name."""
        ...

    @property
    def children(self) -> tuple[Children, ...]:
        """The kinds of its children."""
        ...

    @property
    def bookkeeping(self) -> Bookkeeping:
        """Its budget and counters."""
        ...

    @property
    def close_trigger(self) -> str:
        """What is fired at a record whose parent has ended, or ''."""
        ...

    @property
    def cancel_triggers(self) -> tuple[str, ...]:
        """What a cancel fires."""
        ...


def outline_of(machine: Outlined) -> dict[str, Any]:
    """Return a machine as JSON-able data: what records at work and messages to them depend on.

    Which states were renamed or retired is left out: that is about the way from another outline.
    """
    return {
        "form": FORM,
        "name": machine.name,
        "schema": machine.schema,
        "initial": str(machine.stages[0].state),
        "states": [_state(stage) for stage in machine.stages],
        "rows": [_row(row) for row in machine.transitions],
        "effects": {name: _effect(each) for name, each in machine.effects.items()},
        "payloads": {str(name): fields_of(model) for name, model in machine.payloads.items()},
        "data": fields_of(machine.model) if machine.model else None,
        "children": [
            {
                "countdown": kind.countdown,
                "machine": kind.machine or machine.name,
                "listed_in": kind.listed_in,
                "advance": str(kind.advance_trigger),
                "lost": str(kind.lost_trigger),
            }
            for kind in machine.children
        ],
        "budget": machine.bookkeeping.bounds is not None,
        "close": str(machine.close_trigger),
        "cancel": [str(each) for each in machine.cancel_triggers],
    }


def hash_of(outline: Mapping[str, Any]) -> str:
    """Return the short hash of an outline, by which the log names the table."""
    rows = [_without(row, _WORDS_OF_ROWS) for row in outline["rows"]]
    text = json.dumps({**outline, "rows": rows}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fields_of(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Return the fields of a model: the type of each, and whether it must be given.

    Where a type has models in it, as `list[Item]`, `models` has the fields of each by its name.
    """
    return _fields(model, (model,))


def _fields(model: type[BaseModel], within: tuple[type, ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, field in model.model_fields.items():
        annotation: Any = field.annotation
        kind = f"{type_name(annotation)}{_limits(field.metadata)}"
        found[name] = {"type": kind, "required": field.is_required()}
        # A model that has itself in it is described once.
        if inner := [each for each in _models_in(annotation) if each not in within]:
            models = {each.__name__: _fields(each, (*within, each)) for each in inner}
            found[name]["models"] = models
    return found


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def type_name(annotation: Any) -> str:
    """Return the name of a type with the limits of its values, the same in every process."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return f"{type_name(parts[0])}{_limits(parts[1:])}"
    if origin is Literal:
        return _one_of(parts)
    if origin in (Union, UnionType):
        return " | ".join(map(type_name, parts))
    if origin is not None:
        return f"{type_name(origin)}[{', '.join(map(type_name, parts))}]"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _one_of(annotation)
    return str(getattr(annotation, "__name__", annotation))


def _one_of(values: Iterable[Any]) -> str:
    return " | ".join(repr(getattr(value, "value", value)) for value in values)


def _limits(marks: Iterable[Any]) -> str:
    """Return the limits among the marks of a type, such as ` (ge 0, le 5)`, or ''."""
    found = []
    for mark in marks:
        own = mark.metadata if isinstance(mark, FieldInfo) else [mark]
        found += [
            f"{name} {value}"
            for one in own
            for name in _LIMITS
            if (value := getattr(one, name, None)) is not None
        ]
    return f" ({', '.join(found)})" if found else ""


def kind_of(stage: Stage) -> str:
    """Return the kind of a state: active, waiting or terminal."""
    match stage:
        case Active():
            return "active"
        case Terminal():
            return "terminal"
        case _:
            return "waiting"


def _state(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": str(stage.state),
        "kind": kind_of(stage),
        "entry_effect": None,
        "timers": [_timer(timer) for timer in stage.timers],
    }
    if isinstance(stage, Active):
        found["entry_effect"] = stage.effect.name if stage.effect else None
        found["later_effect"] = stage.later.name if stage.later else None
        found["carried"] = stage.effect is None
        found["once"] = stage.once is not None
        found["crash"] = str(stage.crash) if stage.crash else None
        found["exhausted"] = str(stage.exhausted) if stage.exhausted else None
    if isinstance(stage, Waiting):
        found["entry_effect"] = stage.notifies.name if stage.notifies else None
        found["card"] = stage.card or None
        found["affordances"] = {str(name): str(trigger) for name, trigger in stage.affordances}
        found["answers"] = {str(name): fields_of(model) for name, model in stage.answers.items()}
        found["countdown"] = stage.countdown or None
        found["awaits"] = stage.awaited is not None
    if isinstance(stage, Terminal):
        found["success"] = stage.is_success
        found["cleanup"] = stage.cleanup.name if stage.cleanup else None
    return found


def _timer(timer: Timer) -> dict[str, Any]:
    return {
        "name": timer.name,
        "trigger": str(timer.trigger) if timer.trigger else None,
        "effect": timer.effect.name if timer.effect else None,
        "since": timer.since,
        "delay_ms": None if timer.since == "epoch" else _fixed(timer.delay),
    }


def _fixed(delay: Callable[[Data], int | None]) -> int | None:
    """Return what a delay is in every record; None where it depends on the data."""
    found = []
    for _ in range(2):
        try:
            found.append(delay({}))
        except Exception:  # noqa: BLE001 - whatever that function raises without data
            return None
    first, second = found
    return int(first) if first is not None and first == second else None


def _row(row: Transition) -> dict[str, Any]:
    return {
        "source": str(row.source),
        "trigger": str(row.trigger),
        "target": str(row.target),
        "mode": str(row.mode),
        "anew": row.asks_anew,
        "ours": bool(row.ours),
        "why_ours": row.ours,
        "guarded": row.guard is not None,
        "effect": row.effect.name if row.effect else None,
        "spawns": row.spawns or None,
        "by": list(row.by),
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "timeout_ms": effect.timeout_ms,
        "attempts_max": effect.attempts_max,
        "queue": effect.queue,
        "pool": effect.pool,
        "concurrency": effect.concurrency,
        "exclusive": effect.exclusive,
        "kept": effect.kept,
        "local": effect.local,
    }


def _without(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}
