"""What the import refuses of a workflow's past: renamed and retired states, and older data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from interlock.kernel.blame import PlacedError
from interlock.kernel.errors import InvalidPayloadError
from interlock.workflow.data import Data, checked
from interlock.workflow.migrating import moved
from interlock.workflow.names import CANCELLED, EXPIRED, ends_of, targets_from, unclear_states
from interlock.workflow.parts import Declared, EachPart, Past
from interlock.workflow.place import SourceLine, WorkflowError, place_of
from interlock.workflow.sample import full_sample, sample
from interlock.workflow.signature import Function, check_migration, model_taken_by
from interlock.workflow.value_checks import check_name

D = TypeVar("D", bound=Data)
# A function from the data of the schema before, or such functions by the schema that they take.
Migrate: TypeAlias = (
    Callable[[Any], D | Mapping[str, Any]]
    | Mapping[int, Callable[[Any], BaseModel | Mapping[str, Any]]]
)
EXAMPLE = 'renamed={"asking": "approval"}'
SCHEMA_MAX = 1_000_000


def past_of(
    place: SourceLine,
    model: type[Data],
    renamed: object,
    retired: object,
    schema: object,
    migrate: Any,
) -> Past:
    """Return what was declared of a workflow's past. Raises WorkflowError for what is none."""
    renamed = {} if renamed is None else renamed
    if not isinstance(renamed, Mapping):
        raise place.error(f"renamed={renamed!r} is no mapping of old names to new: {EXAMPLE}")
    if isinstance(retired, str) or not isinstance(retired, Sequence):
        example = retired if isinstance(retired, str) else "manual_check"
        raise place.error(f"retired={retired!r} is no tuple of names: retired=({example!r},)")
    for name in (*renamed, *renamed.values(), *retired):
        check_name(place, "state", name)
    if type(schema) is not int or not 1 <= schema <= SCHEMA_MAX:
        raise place.error(f"schema={schema!r}: give a whole number, one more than the last, from 1")
    return Past(
        renamed=dict(renamed),
        retired=tuple(dict.fromkeys(retired)),
        schema=schema,
        migrations=_migrations(place, model, schema, migrate),
    )


def _migrations(
    place: SourceLine, model: type[Data], schema: int, migrate: Any
) -> dict[int, Function]:
    if migrate is None:
        if schema > 1:
            raise place.error(
                f"schema={schema} without migrate=: nothing would make older data fit; write "
                "migrate= with a function from the older data to the newer"
            )
        return {}
    if schema == 1:
        raise place.error("migrate= is for data of an older schema: say schema=2 beside it")
    functions = dict(migrate) if isinstance(migrate, Mapping) else {schema - 1: migrate}
    for number, function in functions.items():
        if type(number) is not int or not 1 <= number < schema:
            why = f"functions are named by the schema that they take, from 1 to {schema - 1}"
            raise place.error(f"migrate= has a function for {number!r}: {why}")
        check_migration(function, place)
    first = min(functions, default=schema)
    for number in range(first, schema):
        if number not in functions:
            raise place.error(f"migrate= has no function from schema {number} to {number + 1}")
    for number, function in functions.items():
        _try(model if number == schema - 1 else None, function)
    if not functions:
        raise place.error("migrate= has no function: name one from the older data to the newer")
    return dict(sorted(functions.items()))


def _try(model: type[Data] | None, function: Function) -> None:
    """Refuse a migration that fails for every sample of the model that it takes."""
    taken, place, said = model_taken_by(function), place_of(function), ""
    samples = [full_sample(taken), sample(taken)] if taken else []
    for value in (one for one in samples if one is not None):
        try:
            found = moved(function, value.model_dump(mode="json"))
            if model:
                checked(model, "what it returns", found)
        except PlacedError as failure:
            said = said or f"migrate= fails for {value!r}: {failure}"
        except InvalidPayloadError as refusal:
            said = said or f"migrate= fails for {value!r}: {refusal} ({place})"
        else:
            return
    if said:
        raise WorkflowError(said)


def check_past(flow: Declared) -> None:
    """Refuse what cannot be of states that were renamed or retired. Raises WorkflowError."""
    for old, new in flow.past.renamed.items():
        if fault := next(_faults_of_renamed(flow, old, new), ""):
            raise flow.place.error(fault)
    for name in flow.past.retired:
        if fault := next(_faults_of_retired(flow, name), ""):
            raise flow.place.error(fault)
        _check_entries(flow, name)


def _faults_of_renamed(flow: Declared, old: str, new: str) -> Iterator[str]:
    said = f"renamed= says that {old} is called {new} now"
    known = [*flow.states, *ends_of(flow)]
    if old in (CANCELLED, EXPIRED):
        yield f"{said}, but every workflow ends as {old} under that name: leave it out"
    if place := flow.place_of(old):
        yield f"{said}, but {flow.name} still has {old} ({place}): rename that, or leave it out"
    if last := flow.past.renamed.get(new):
        yield f"{said}, and {new} is called {last}: write {old!r}: {last!r}"
    if new in unclear_states(flow):
        step = new.removesuffix("_unclear")
        yield f"{said}, which is a question of {step} and follows its step: leave it out"
    if new not in known:
        yield f"{said}, which is no state of {flow.name}: {', '.join(known)}"
    if isinstance(state := flow.states.get(new), EachPart):
        yield (
            f"{said}, and it waits for children, which are records of {state.child.name}: keep the "
            f"old name by name={old!r} in each()"
        )
    if new in flow.past.retired:
        yield f"{said}, and {new} is retired, so nothing enters it: leave one of the two out"


def _faults_of_retired(flow: Declared, name: str) -> Iterator[str]:
    known = [*flow.states, *ends_of(flow)]
    if name in unclear_states(flow):
        step = name.removesuffix("_unclear")
        yield f"{name} is a question of {step} and is retired with it: write {step!r}"
    if name not in known:
        yield (
            f"retired= names {name!r}, which is no state of {flow.name}: {', '.join(known)}; keep "
            "the state and its function until no record is there"
        )
    if name == CANCELLED or (name == EXPIRED and flow.expires):
        yield f"every {flow.name} may end as {name}: it cannot be retired"
    if name == flow.start:
        yield f"{_said(name)}, and records begin in {name}: say start="
    if flow.budget and flow.budget.over == name:
        yield f"{_said(name)}, and over={name!r} of the budget leads to it"


def _check_entries(flow: Declared, name: str) -> None:
    """Refuse what leads into a retired state from one that is not, with its own line."""
    for source, state in flow.states.items():
        if source not in flow.past.retired and name in targets_from(state):
            raise state.place.error(f"{_said(name)}, and {source} leads to it")
    for hand in flow.by_hand:
        for row in hand.transitions:
            if str(row.target) == name and str(row.source) not in flow.past.retired:
                raise hand.place.error(f"{_said(name)}, and {row.source}/{row.trigger} leads to it")


def _said(name: str) -> str:
    return f"{name} is retired, so nothing may enter it"
