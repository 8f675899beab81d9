"""A capability: a function that may be executed, with its parameters and its declared risk."""

from __future__ import annotations

import inspect
import json
import logging
import re
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from math import isfinite
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from referencing import Registry as Schemas
from referencing.exceptions import Unresolvable

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.cost import (
    CostCalculation,
    CostEstimate,
    is_amount,
)
from interlock.workers.gateways.capabilities.result import STEPS_MAX, StepList
from interlock.workers.text import one_line

# The worker fills these in for each call; the model and the person do not see them.
RUNTIME_PARAMETERS = frozenset({"record_id", "key", "item_ids", "token_number", "steps"})
DEADLINE_S_MAX = 24 * 3600.0
PROBLEMS_MAX = 20
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_STEP_NAME_LENGTH_MAX = 80
_FIELD = "parameter_"
Cost = float | Callable[..., Any]  # in dollars, or a function that returns dollars


class CapabilityError(Exception):
    """A capability raises it if it cannot do its work, with one sentence for people."""


class CapabilityDefectError(ValueError):
    """A capability is declared wrongly. Raised where it is declared; correct the declaration."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the capability {name!r} is declared wrongly: {reason}")
        self.name, self.reason = name, reason


@dataclass(frozen=True, slots=True)
class OfferedCapability:
    """A capability as models are offered it; `parameters` is the schema of what they may set."""

    name: str
    description: str
    examples: tuple[str, ...]
    parameters: Mapping[str, Any]

    def problems(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with the parameters of a call, each with its path.

        Whoever proposes the call may not set those that are filled in at run time.
        """
        known = self.parameters.get("properties", {})
        bound = sorted(set(parameters) & (RUNTIME_PARAMETERS - set(known)))
        problems = [f"{key}: it is filled in at run time and cannot be set" for key in bound]
        rest = {key: value for key, value in parameters.items() if key not in bound}
        return [*problems, *problems_of(self.parameters, rest)]


@dataclass(frozen=True, slots=True)
class Capability:
    """A function that a record's action may execute, with its declared parameters and risk.

    `parameters` is the JSON schema of the parameters that a model or a person may set; `runtime`
    names those that the worker adds. `call` takes both as keyword arguments, sync or async, and
    returns JSON data or a Result. If a worker is lost during a call, an `idempotent` capability is
    called again; for any other, a person is asked. `cost` is what a call costs in dollars, or a
    function that returns it and takes the same parameters as `call`, without those of `runtime`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[..., Any]
    runtime: frozenset[str]
    idempotent: bool
    irreversibility: Level
    regret_potential: Level
    risk_amplifier: bool
    requires_post_review: bool
    deadline_s: float
    examples: tuple[str, ...] = ()
    cost: Cost | None = None
    _calculation: CostCalculation = field(
        default_factory=CostCalculation, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Refuse a declaration with which the capability could not be called or checked."""
        if not _NAME.fullmatch(self.name):
            why = "a name is at most 64 small letters, digits and _, and starts with a letter"
            raise CapabilityDefectError(self.name, why)
        if not self.description.strip():
            why = "it has no description; a model chooses by it, so write a docstring"
            raise CapabilityDefectError(self.name, why)
        if not (isfinite(self.deadline_s) and 0 < self.deadline_s <= DEADLINE_S_MAX):
            why = f"deadline_s is {self.deadline_s}, give 0 to {DEADLINE_S_MAX:.0f} seconds"
            raise CapabilityDefectError(self.name, why)
        if not (self.cost is None or callable(self.cost) or is_amount(self.cost)):
            why = f"cost is {self.cost!r}, give dollars, 0 or more, or a function of the parameters"
            raise CapabilityDefectError(self.name, why)
        if unknown := sorted(self.runtime - RUNTIME_PARAMETERS):
            known = ", ".join(sorted(RUNTIME_PARAMETERS))
            why = f"{unknown[0]!r} is not a run-time parameter; there are {known}"
            raise CapabilityDefectError(self.name, why)
        if reason := _defect_of(self.parameters, self.runtime):
            raise CapabilityDefectError(self.name, reason)

    def declared(self) -> dict[str, Any]:
        """Return the declared risk as records store it. A model may raise it, but not lower it."""
        return {
            "idempotent": self.idempotent,
            "irreversibility": str(self.irreversibility),
            "regret_potential": str(self.regret_potential),
            "risk_amplifier": self.risk_amplifier,
            "requires_post_review": self.requires_post_review,
            "deadline_s": self.deadline_s,
        }

    @property
    def offered(self) -> OfferedCapability:
        """What a model sees of it: the schema lacks the parameters that are filled in later."""
        return OfferedCapability(self.name, self.description, self.examples, self.parameters)

    def cost_of(self, parameters: Mapping[str, Any]) -> CostEstimate:
        """Return what a call with these parameters would cost."""
        if callable(self.cost):
            return self._calculation.estimate(self.cost, parameters)
        return CostEstimate(self.cost)


class Steps:
    """The steps of one call, for its log; a capability takes it as its parameter `steps`."""

    def __init__(self, on_step: Callable[[Mapping[str, str]], None] | None = None) -> None:
        self._taken: list[Mapping[str, str]] = []
        self._on_step = on_step

    def add(self, name: str, detail: str = "") -> None:
        """Add a step; those after the hundredth are dropped."""
        if len(self._taken) >= STEPS_MAX:
            return
        name = one_line(name, length_max=_STEP_NAME_LENGTH_MAX)
        step = {"name": name, "detail": one_line(detail)}
        self._taken.append(step)
        if self._on_step is not None:
            # A log that cannot be written must not end the work half-way. The step stays in the
            # result.
            try:
                self._on_step(step)
            except Exception:  # noqa: BLE001
                _log.exception("a step was not passed on: %s", name)

    def taken(self) -> StepList:
        """Return the steps so far."""
        return tuple(self._taken)


def capability(
    *,
    idempotent: bool,
    irreversibility: Level,
    deadline_s: float,
    regret_potential: Level | None = None,
    risk_amplifier: bool = False,
    requires_post_review: bool = False,
    examples: tuple[str, ...] = (),
    cost: Cost | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Capability]:
    """Make a capability of a function; its signature gives the parameters, its docstring the text.

    Without `regret_potential` it equals the irreversibility. Parameters are converted to their
    types before the call, also for a `cost` that is a function. Raises CapabilityDefectError.
    """

    def declare(function: Callable[..., Any]) -> Capability:
        declared_name = name or function.__name__
        model, runtime = _read_signature(declared_name, function)
        paragraph = (inspect.getdoc(function) or "").split("\n\n")[0]
        call = _call_async if inspect.iscoroutinefunction(function) else _call
        return Capability(
            name=declared_name,
            description=" ".join(paragraph.split()),
            parameters=_schema_of(declared_name, model),
            call=partial(call, function, model),
            runtime=runtime,
            idempotent=idempotent,
            irreversibility=irreversibility,
            regret_potential=irreversibility if regret_potential is None else regret_potential,
            risk_amplifier=risk_amplifier,
            requires_post_review=requires_post_review,
            deadline_s=deadline_s,
            examples=examples,
            cost=partial(_call, cost, model) if callable(cost) else cost,
        )

    return declare


def validator_of(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Return the validator of a schema, which checks the formats of dates too."""
    # An empty registry: a schema cannot make this process fetch an address.
    return Draft202012Validator(schema, registry=Schemas(), format_checker=_FORMATS)


def problems_of(schema: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the problems of parameters, each with its path: at most 20, none if all are valid."""
    problems: list[str] = []
    try:
        for error in validator_of(schema).iter_errors(dict(parameters)):
            path = error.json_path.removeprefix("$").removeprefix(".")
            message = one_line(error.message, length_max=200)
            problems.append(f"{path}: {message}" if path else message)
            if len(problems) >= PROBLEMS_MAX:
                break
    except Unresolvable as error:
        problems.append(f"the schema refers to {error.ref!r}, which it does not contain")
    except RecursionError:
        problems.append("the schema refers to itself without end")
    return tuple(sorted(problems))


def _call(function: Callable[..., Any], model: type[BaseModel], /, **bound: object) -> object:
    return function(**_converted(model, bound))


async def _call_async(
    function: Callable[..., Any], model: type[BaseModel], /, **bound: object
) -> object:
    return await function(**_converted(model, bound))


def _converted(model: type[BaseModel], bound: Mapping[str, object]) -> dict[str, object]:
    names = {name.removeprefix(_FIELD) for name in model.model_fields}
    values = model.model_validate({name: bound[name] for name in bound if name in names})
    typed = {name: getattr(values, _FIELD + name) for name in names}
    return {**bound, **typed}


def _read_signature(
    name: str, function: Callable[..., Any]
) -> tuple[type[BaseModel], frozenset[str]]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    runtime: set[str] = set()
    for parameter_name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            why = f"{parameter} cannot be passed by name; take named parameters only"
            raise CapabilityDefectError(name, why)
        if parameter_name in RUNTIME_PARAMETERS:
            runtime.add(parameter_name)
            continue
        if parameter_name not in hints:
            raise CapabilityDefectError(name, f"the parameter {parameter_name} has no type")
        required = parameter.default is parameter.empty
        default = ... if required else parameter.default
        # Prefixed, because a field called `copy` or `json` would hide a method of the model.
        fields[_FIELD + parameter_name] = (
            hints[parameter_name],
            Field(alias=parameter_name, default=default),
        )
    strict = ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True)
    return create_model(name, __config__=strict, **fields), frozenset(runtime)


class _Untitled(GenerateJsonSchema):
    """Makes a schema without the titles that only repeat each property's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        raise TypeError(f"{kind}: {detail}")


def _schema_of(name: str, model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Untitled)
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, PydanticUserError) as error:
        why = f"its parameters cannot be described in JSON: {one_line(str(error), length_max=200)}"
        raise CapabilityDefectError(name, why) from error
    del schema["title"]
    return schema


def closed_schema(
    capability: str, schema: Mapping[str, Any], *, without: Collection[str]
) -> dict[str, Any]:
    """Return a schema of parameters that lacks some of them, and forbids those that it lacks.

    Raises CapabilityDefectError for what is no schema: a server may send any object as one.
    """
    if defect := _defect_of_schema(schema):
        raise CapabilityDefectError(capability, defect)
    properties = schema.get("properties", {})
    kept = {name: properties[name] for name in properties if name not in without}
    required = [name for name in schema.get("required", ()) if name not in without]
    closed = {"type": "object", "properties": kept, "required": required}
    return {**schema, **closed, "additionalProperties": False}


def _defect_of_schema(schema: Mapping[str, Any]) -> str | None:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"its parameters are not a JSON schema: {one_line(error.message, length_max=200)}"
    except RecursionError:
        return "the JSON schema of its parameters is nested too deep"
    return None


def _defect_of(schema: Mapping[str, Any], runtime: frozenset[str]) -> str | None:
    if defect := _defect_of_schema(schema):
        return defect
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        return 'its parameters must be {"type": "object", "additionalProperties": false, ...}'
    if both := sorted(runtime & set(schema.get("properties", {}))):
        return f"{both[0]!r} is filled in at run time and cannot be a parameter as well"
    return None


def _is_date(value: object) -> bool:
    if not isinstance(value, str):
        return True
    # Only the dashed form: pydantic would read 20260304 as seconds since 1970.
    return bool(_DATE.fullmatch(value)) and bool(date.fromisoformat(value))


def _is_datetime(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return bool(_DATETIME.fullmatch(value)) and bool(datetime.fromisoformat(value))


def _formats() -> FormatChecker:
    formats = FormatChecker(formats=("ipv4", "ipv6", "email", "regex", "uuid"))
    formats.checks("date", raises=ValueError)(_is_date)
    formats.checks("date-time", raises=ValueError)(_is_datetime)
    return formats


_FORMATS = _formats()
