"""What the import reads of a user's function: where it leads, what it takes, what it sets."""

from __future__ import annotations

import dis
import inspect
import time
import typing
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from enum import Enum
from itertools import pairwise
from types import CodeType, FunctionType, MethodType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from interlock.kernel.blame import is_own
from interlock.workflow.place import SourceLine, names_here, place_of

Function = Callable[..., Any]
EXAMPLE = 'as in `-> Literal["done", "failed"]`'
MAY_TAKE = "a step takes the data, and its Work if it needs it"
AWAITED = {"once_async", "saved_async", "reserve_async"}  # the methods of `Work` that are async
MARKS_ONCE = {"once", "once_async"}  # the methods of `Work` that begin what is not begun twice
PASSED_OVER = {"PRECALL", "CACHE"}  # instructions that say nothing of what is called
UNREADABLE = (NameError, AttributeError, SyntaxError, TypeError, ValueError)


def targets_of(function: Function) -> tuple[str, ...]:
    """Return the states that a step's return type names, in their order.

    Raises WorkflowError, with file and line of the function.
    """
    _check(function, "step")
    name, place = function.__name__, place_of(function)
    annotation = inspect.get_annotations(function).get("return", inspect.Parameter.empty)
    if annotation is inspect.Parameter.empty:
        raise place.error(
            f"{name} does not say where it leads: give it a return type, {EXAMPLE}. "
            "If it has one, a decorator hides it: use functools.wraps there"
        )
    try:
        found = _evaluated(function, annotation)
    except UNREADABLE as problem:
        raise place.error(
            f"the return type {annotation!r} of {name} cannot be read: {problem}; import or define "
            "it before the step, outside of TYPE_CHECKING"
        ) from None
    if found in (None, type(None)):
        raise place.error(f"{name} returns None, so nothing follows: name a state, {EXAMPLE}")
    try:
        return tuple(dict.fromkeys(_flat(found)))
    except TypeError as problem:
        raise place.error(f"{name} returns {problem}, which names no state: {EXAMPLE}") from None


def check_data(function: Function, model: type, whose: str, work: type | None = None) -> None:
    """Refuse a function that takes something else than it gets. Raises WorkflowError.

    `whose` says what the model of its first parameter is of, as `the data of refund`; `work` is
    what a second one gets. A type that cannot be read, such as one that is imported for type
    checkers alone, is let be.
    """
    first, *others = _parameters(function).values()
    name, place = function.__name__, place_of(function)
    if (named := _wanted(function, first)) and not issubclass(model, named):
        raise place.error(f"{name} takes {named.__name__}, but {whose} are {model.__name__}")
    if named is model and issubclass(named, BaseModel):
        check_fields(function, first.name, named)
    for other in others if work else ():
        named, has_default = _wanted(function, other), other.default is not other.empty
        if named is work and has_default:
            why = "has a default, and so would never get its Work: take the default away"
            raise place.error(f"{other.name} of {name} {why}")
        if named not in (None, work) and not has_default:
            raise place.error(f"{name} takes {other.name}, a {named.__name__}; {MAY_TAKE}")


def check_fields(function: Function, parameter: str, model: type[BaseModel]) -> None:
    """Refuse a function that reads or sets what a model lacks. Raises WorkflowError with its line.

    It sees what is an attribute of the parameter itself, unless a decorator may have changed that,
    or the function gives the parameter another value.
    """
    for name, place, _ in _attributes(function, parameter):
        if name not in model.model_fields and not hasattr(model, name):
            near = get_close_matches(name, model.model_fields, 1)
            known = f"did you mean {near[0]}?" if near else ", ".join(model.model_fields)
            raise place.error(
                f"{function.__name__} names {parameter}.{name}, which is no field of "
                f"{model.__name__}: {known}"
            )


def check_sets_nothing(function: Function) -> None:
    """Refuse a cleanup that sets a field. Raises WorkflowError with its line."""
    parameter = next(iter(_parameters(function)))
    for name, place, is_set in _attributes(function, parameter):
        if is_set:
            lost = "which would be lost: the data of an end do not change"
            raise place.error(f"{function.__name__} sets {parameter}.{name}, {lost}")


def _attributes(function: Function, parameter: str) -> Iterator[tuple[str, SourceLine, bool]]:
    """Yield each attribute of a parameter that a function names, its line, and whether it is set.

    None is known where a decorator may change the parameter, or the function itself does.
    """
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return
    steps = [one for one in dis.get_instructions(function) if one.opname != "COPY"]
    if any(one.opname.startswith("STORE_FAST") and parameter in _names_of(one) for one in steps):
        return
    for before, one in pairwise(steps):
        is_of_it = before.opname.startswith("LOAD_FAST") and _names_of(before)[-1] == parameter
        if is_of_it and one.opname.endswith(("_ATTR", "_METHOD")):
            line = one.positions.lineno if one.positions else None
            place = SourceLine(function.__code__.co_filename, line or place_of(function).line)
            yield one.argval, place, one.opname == "STORE_ATTR"


def _names_of(instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the variables that an instruction is about: from Python 3.13 on it may be of two."""
    named = instruction.argval
    return named if isinstance(named, tuple) else (named,)


def _wanted(function: Function, parameter: inspect.Parameter) -> type | None:
    """Return the class that a parameter wants, or None if it takes any, or cannot be read."""
    try:
        named = _evaluated(function, parameter.annotation)
    except UNREADABLE:
        return None
    kinds = get_args(named) if get_origin(named) in (Union, UnionType) else (named,)
    classes = [kind for kind in kinds if kind is not type(None)]
    is_class = len(classes) == 1 and isinstance(classes[0], type)
    if not is_class or classes[0] in (Any, object) or getattr(classes[0], "_is_protocol", False):
        return None
    return None if classes[0] is inspect.Parameter.empty else classes[0]


def check_returns_nothing(function: Function, does: str, cure: str = "") -> None:
    """Refuse a function that says that it returns something. Raises WorkflowError."""
    try:
        found = _evaluated(function, inspect.get_annotations(function).get("return"))
    except UNREADABLE:
        return
    if found not in (None, type(None)):
        raise place_of(function).error(
            f"{function.__name__} {does}, and what it returns would be lost: let it return None"
            f"{cure}"
        )


def message_of(function: Function) -> Any:
    """Return the type of the message that a call takes beside the data. Raises WorkflowError."""
    _check(function, "call")
    name, place = function.__name__, place_of(function)
    if inspect.iscoroutinefunction(function):
        raise place.error(f"{name} is async; a call is quick, and is made in the caller's process")
    needed = _needed(function)
    if len(needed) != 2:  # noqa: PLR2004 - the data and the message
        given = ", ".join(one.name for one in needed) or "nothing"
        raise place.error(f"{name} takes {given}; a call takes the data and a message")
    annotation = needed[1].annotation
    if annotation is inspect.Parameter.empty:
        raise place.error(f"{name} does not say what it is called with: name a model of Data")
    try:
        found = _evaluated(function, annotation)
    except UNREADABLE as problem:
        raise place.error(
            f"the type {annotation!r} that {name} takes cannot be read: {problem}; import or "
            "define it before the call, outside of TYPE_CHECKING"
        ) from None
    if isinstance(found, type) and issubclass(found, BaseModel):
        check_fields(function, needed[1].name, found)
    return found


def check_migration(function: Any, place: SourceLine) -> None:
    """Refuse what does not make the newer data of the older. Raises WorkflowError."""
    name = getattr(function, "__name__", repr(function))
    inner = inspect.unwrap(function) if callable(function) else None
    if not isinstance(inner, FunctionType | MethodType):
        raise place.error(f"migrate= has {function!r}: name a function from older data to newer")
    if inspect.iscoroutinefunction(inner) or inspect.isgeneratorfunction(inner):
        why = "is async or yields; older data are read by it at once"
        raise place_of(function).error(f"{name} {why}")
    needed = _needed(function)
    if len(needed) != 1 or needed[0].kind is needed[0].KEYWORD_ONLY:
        given = ", ".join(one.name for one in needed) or "nothing"
        raise place_of(function).error(f"{name} takes {given}; migrate= is given the older data")


def model_taken_by(function: Function) -> type[BaseModel] | None:
    """Return the model that the first parameter of a function names, if it names one."""
    wanted = _wanted(function, next(iter(_parameters(function).values())))
    return wanted if wanted and issubclass(wanted, BaseModel) else None


def check_variable(function: Function, workflow: object) -> None:
    """Refuse a step that takes the place of its workflow in the module. Raises WorkflowError."""
    if getattr(function, "__globals__", {}).get(function.__name__) is workflow:
        raise place_of(function).error(
            f"the step {function.__name__} has the name of the variable with its workflow, which "
            "it would hide: rename one of them"
        )


def takes_work(function: Function) -> bool:
    """Whether a step takes its work beside the data. Raises WorkflowError for other parameters."""
    _check(function, "step")
    needed = _needed(function)
    if len(needed) not in (1, 2) or any(one.kind is one.KEYWORD_ONLY for one in needed):
        given = ", ".join(one.name for one in needed) or "nothing"
        raise place_of(function).error(f"{function.__name__} takes {given}; {MAY_TAKE}")
    return len(needed) == 2  # noqa: PLR2004 - the data and the work


def check_awaits(function: Function) -> None:
    """Refuse a step that would not do what it calls, or would stop others. Raises WorkflowError.

    That is a method of `Work` whose call is not awaited, and `time.sleep` in an async step.
    """
    inner = inspect.unwrap(function)
    for code in _codes(inner.__code__):
        steps = [one for one in dis.get_instructions(code) if one.opname not in PASSED_OVER]
        for number, (owner, named) in enumerate(pairwise(steps), 1):
            if not named.opname.endswith(("_ATTR", "_METHOD")):
                continue
            called = (n for n in range(number, len(steps)) if _is_call_of(steps[n], named))
            after = next((steps[n + 1].opname for n in called), "")
            line = named.positions.lineno if named.positions else None
            place = SourceLine(code.co_filename, line or place_of(function).line)
            if named.argval in AWAITED and after == "POP_TOP":
                raise place.error(
                    f"{function.__name__} never awaits {named.argval}, so that is never done: "
                    f"write `await work.{named.argval}(...)` in an async step"
                )
            is_async = code.co_flags & inspect.CO_COROUTINE
            of_time = inner.__globals__.get(str(owner.argval)) is time
            if is_async and of_time and named.argval == "sleep" and after:
                raise place.error(
                    f"{function.__name__} is async and calls time.sleep, so all async steps of its "
                    "worker would stand still meanwhile: write `await asyncio.sleep(...)`"
                )


def _is_call_of(call: dis.Instruction, named: dis.Instruction) -> bool:
    """Whether an instruction calls what another one names: both begin at one place of the text."""
    of_call, of_name = call.positions, named.positions
    if not (call.opname.startswith("CALL") and of_call and of_name):
        return False
    return (of_call.lineno, of_call.col_offset) == (of_name.lineno, of_name.col_offset)


def uses_once(function: Function) -> bool:
    """Whether a function calls `work.once`, or `once_async`, itself or by another of its author's.

    It sees functions inside of it, and those of modules, classes and objects that it names.
    """
    return any(
        MARKS_ONCE & set(code.co_names)
        for reached in _reached(inspect.unwrap(function))
        for code in _codes(reached.__code__)
    )


def _reached(function: FunctionType) -> Iterator[FunctionType]:
    """Yield a function, and the functions of its author that it and they call by name."""
    waiting, seen = [function], {function}
    while waiting:
        yield (one := waiting.pop())
        found = {named for named in _named(one) if _is_of_author(named, function)} - seen
        seen |= found
        waiting += found


def _is_of_author(function: FunctionType, beside: FunctionType) -> bool:
    """Whether a function is in a file of who uses Interlock, or in the package of another."""
    package = function.__module__.partition(".")[0] == beside.__module__.partition(".")[0]
    return package or is_own(function.__code__.co_filename)


def _named(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that a function names, alone or as an attribute of what it names."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    owners = [*cells, *(function.__globals__[name] for name in names & {*function.__globals__})]
    for owner in owners:
        for value in (owner, *(inspect.getattr_static(owner, name, None) for name in names)):
            is_method = isinstance(value, MethodType | staticmethod | classmethod)
            found = value.__func__ if is_method else value
            inner = inspect.unwrap(found) if isinstance(found, FunctionType) else None
            if isinstance(inner, FunctionType):
                yield inner


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and that of the functions in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def fields_set(function: Function) -> frozenset[str]:
    """Return the names of the attributes that a step sets."""
    code = inspect.unwrap(function)
    return frozenset(
        str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_ATTR"
    )


def _check(function: Function, kind: str) -> None:
    """Refuse what is no function of a module. `kind` is what it shall be: a step, or a call."""
    place = place_of(function)
    name = getattr(function, "__name__", repr(function))
    inner = inspect.unwrap(function)
    if isinstance(function, type):
        raise place.error(f"{name} is a class; a {kind} is a function of a module")
    if name == "<lambda>":
        raise place.error(f"a lambda does not say its types: write the {kind} with def")
    if inspect.ismethod(function):
        raise place.error(f"{name} is a method; a {kind} is a function of a module")
    if not isinstance(inner, FunctionType):
        raise place.error(f"{name} is no function: write a {kind} with def")
    first = next(iter(_parameters(function).values()), None)
    is_in_class = "." in inner.__qualname__.rpartition("<locals>.")[2]
    if first and is_in_class and first.annotation is first.empty:
        raise place.error(f"{name} is a method; a {kind} is a function of a module")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise place.error(f"{name} yields; a {kind} returns, and has no yield")


def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def _needed(function: Function) -> list[inspect.Parameter]:
    """Return the parameters without a default. *arguments and **options need nothing."""
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        one
        for one in _parameters(function).values()
        if one.default is one.empty and one.kind not in open_ended
    ]


def _evaluated(function: Function, annotation: Any) -> Any:
    """Return what an annotation means. Only this one is read: others may name what is not there."""
    if not isinstance(annotation, str):
        return annotation
    inner = inspect.unwrap(function)
    cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    names = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    known = {**vars(typing), **inner.__globals__, **names_here(), **names}
    found = eval(annotation, known)  # noqa: S307 - the user's own annotation, as typing.get_type_hints evaluates it
    return eval(found, known) if isinstance(found, str) else found  # noqa: S307 - in quotes as well


def _is_filled(cell: Any) -> bool:
    """Whether a variable of an outer function has its value by now."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _flat(annotation: Any) -> Iterator[str]:
    """Yield the texts of Literals, of unions and aliases of them, and of enums."""
    origin = get_origin(annotation)
    if origin is Literal:
        for value in get_args(annotation):
            yield _text(value.value) if isinstance(value, Enum) else _text(value)
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _flat(part)
    elif origin is Annotated:
        yield from _flat(get_args(annotation)[0])
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (_text(member.value) for member in annotation)
    elif hasattr(annotation, "__value__"):
        yield from _flat(annotation.__value__)
    elif annotation in (None, type(None)):
        raise TypeError("None")
    else:
        raise TypeError(getattr(annotation, "__name__", str(annotation)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(repr(value))
    return value
