"""What the import reads of a user's function: where it leads, what it takes, what it sets."""

from __future__ import annotations

import dis
import inspect
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from interlock.workflow.place import place_of

Function = Callable[..., Any]
EXAMPLE = 'as in `-> Literal["done", "failed"]`'


def targets_of(function: Function) -> tuple[str, ...]:
    """Return the states that a step's return type names, in their order.

    Raises WorkflowError, with file and line of the function.
    """
    _check(function)
    name, place = function.__name__, place_of(function)
    annotation = inspect.get_annotations(function).get("return", inspect.Parameter.empty)
    if annotation is inspect.Parameter.empty:
        raise place.error(
            f"{name} does not say where it leads: give it a return type, {EXAMPLE}. "
            "If it has one, a decorator hides it: use functools.wraps there"
        )
    found = _evaluated(function, annotation)
    if found in (None, type(None)):
        raise place.error(f"{name} returns None, so nothing follows: name a state, {EXAMPLE}")
    try:
        targets = tuple(dict.fromkeys(_flat(found)))
    except TypeError as problem:
        raise place.error(f"{name} returns {problem}, which names no state: {EXAMPLE}") from None
    return targets


def second_type(function: Function) -> Any:
    """Return the type of the second parameter of a call, which is its message."""
    _check(function)
    annotation = list(_parameters(function).values())[1].annotation
    if annotation is inspect.Parameter.empty:
        message = f"{function.__name__} does not say what it is called with: name a model of Data"
        raise place_of(function).error(message)
    return _evaluated(function, annotation)


def takes_work(function: Function) -> bool:
    """Whether a step takes its work beside the data. Raises WorkflowError for other parameters."""
    _check(function)
    needed = [one for one in _parameters(function).values() if one.default is one.empty]
    if len(needed) not in (1, 2) or any(one.kind is one.KEYWORD_ONLY for one in needed):
        given = ", ".join(one.name for one in needed) or "nothing"
        raise place_of(function).error(
            f"{function.__name__} takes {given}; a step takes the data, and its Work if it needs it"
        )
    return len(needed) == 2  # noqa: PLR2004 - the data and the work


def uses_once(function: Function) -> bool:
    """Whether a step calls `work.once`."""
    return "once" in inspect.unwrap(function).__code__.co_names


def fields_set(function: Function) -> frozenset[str]:
    """Return the names of the attributes that a step sets."""
    code = inspect.unwrap(function)
    return frozenset(
        str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_ATTR"
    )


def _check(function: Function) -> None:
    if not callable(function) or not hasattr(function, "__name__"):
        raise place_of(function).error(f"{function!r} is no function")
    first = next(iter(_parameters(function)), "")
    if inspect.ismethod(function) or first in ("self", "cls"):
        message = f"{function.__name__} is a method; a step is a function of a module"
        raise place_of(function).error(message)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = f"{function.__name__} yields; a step returns the state that follows"
        raise place_of(function).error(message)


def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def _evaluated(function: Function, annotation: Any) -> Any:
    """Return what an annotation means. Only this one is read: others may name what is not there."""
    if not isinstance(annotation, str):
        return annotation
    inner = inspect.unwrap(function)
    cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    names = {name: cell.cell_contents for name, cell in cells}
    try:
        return eval(annotation, {**vars(typing), **inner.__globals__, **names})  # noqa: S307 - the user's own annotation, as typing.get_type_hints evaluates it
    except (NameError, AttributeError, SyntaxError, TypeError) as problem:
        raise place_of(function).error(
            f"the return type {annotation!r} of {function.__name__} cannot be read: {problem}"
        ) from None


def _flat(annotation: Any) -> Iterator[str]:
    """Yield the texts of Literals, of unions and aliases of them, and of enums."""
    origin = get_origin(annotation)
    if origin is Literal:
        for value in get_args(annotation):
            yield str(value.value) if isinstance(value, Enum) else _text(value)
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _flat(part)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (_text(member.value) for member in annotation)
    elif hasattr(annotation, "__value__"):
        yield from _flat(annotation.__value__)
    else:
        raise TypeError(getattr(annotation, "__name__", str(annotation)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(repr(value))
    return value
