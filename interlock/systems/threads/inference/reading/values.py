"""Fills a capability's parameters from a request by their "x-from" hints, and invents none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from interlock.system.models import OfferedCapability
from interlock.system.text import one_line
from interlock.systems.threads.inference.reading.account import Account
from interlock.systems.threads.inference.reading.forms import Form, form_of
from interlock.systems.threads.inference.reading.mention import When
from interlock.systems.threads.inference.reading.pieces import HINT
from interlock.systems.threads.inference.reading.request import (
    TEXT_CHARS_MAX,
    ReadRequest,
    mapping,
)

# Most requests lack these: a text that has one is probably meant for a capability that needs it.
RARE_HINTS = ("command", "path", "datetime")


@dataclass(frozen=True, slots=True)
class Filled:
    """The parameters that were found, and in words what is missing or wrong."""

    parameters: Mapping[str, Any]
    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def lack(self) -> str | None:
        """What a person must still say, in one sentence without its end, or None."""
        parts = list(self.wrong)
        if self.missing:
            parts.append(f"for this I still need: {', '.join(self.missing)}")
        return "; ".join(parts) or None


def answers_question(choice: OfferedCapability, request: ReadRequest) -> bool:
    """Return whether the newest answer is the one value that was asked for."""
    name = _asked_parameter(choice, request)
    return name is not None and _value_in_answer(choice, name, request) is not None


def fill(account: Account, request: ReadRequest) -> Filled:
    """Fill the parameters: with the values that people gave, otherwise by the hints.

    An answer that is the one missing value counts first. What an earlier proposal of the same
    capability had stays where nothing newer was found.
    """
    choice = account.choice
    asked = _asked_parameter(choice, request)
    earlier = request.previous if request.previous.get("capability") == choice.name else {}
    known = mapping(earlier.get("parameters"))
    parameters: dict[str, Any] = {}
    wrong: list[str] = []
    for name in properties(choice):
        if name == asked:
            value = _value_in_answer(choice, name, request)
            if value is None:
                wrong.append(_unread(choice, name, request.answer or ""))
            else:
                parameters[name] = value
            continue
        if name in request.values:
            parameters[name] = request.values[name]
            continue
        hint = str(mapping(properties(choice)[name]).get(HINT))
        value = account.phrases.get(name) if hint == "phrase" else account.values.get(hint)
        if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
            return Filled({}, (), (f"{name} must have at most {TEXT_CHARS_MAX} characters",))
        # A guess that does not fit is dropped: the capability may do without this parameter.
        if value is not None and not _problems(choice, name, value):
            parameters[name] = value
        elif name in known and not _problems(choice, name, known[name]):
            parameters[name] = known[name]
    required = [name for name in choice.parameters.get("required", ()) if name not in parameters]
    missing = [f"{name} ({_form(choice, name).words})" for name in required if name != asked]
    wrong += [
        f"{name} {problems[0]}"
        for name, value in parameters.items()
        if (problems := _problems(choice, name, value))
    ]
    if not missing and not wrong:
        # What concerns several parameters at once is said in the words of the schema's validator.
        wrong += choice.problems(parameters)
    return Filled(parameters, tuple(missing), tuple(wrong))


def _asked_parameter(choice: OfferedCapability, request: ReadRequest) -> str | None:
    """Return the parameter that the newest answer is about, where only one was missing."""
    if request.answer is None or request.previous.get("capability") != choice.name:
        return None
    known = mapping(request.previous.get("parameters"))
    open_names = [
        name
        for name in properties(choice)
        if (name not in known and name in choice.parameters.get("required", ()))
        or (name in known and _problems(choice, name, known[name]))
    ]
    return open_names[0] if len(open_names) == 1 else None


def _value_in_answer(choice: OfferedCapability, name: str, request: ReadRequest) -> Any:
    return value_in(choice, name, request.answer or "", request.when)


def value_in(choice: OfferedCapability, name: str, text: str, when: When) -> Any:
    """Return the value of a parameter that a text is, or None. `when` is the date in the text."""
    value = _form(choice, name).read(text, when)
    return None if value is None or _problems(choice, name, value) else value


def _unread(choice: OfferedCapability, name: str, answer: str) -> str:
    shown = one_line(answer, length_max=80)
    return f"{name} {_wanted(choice, name)}; I cannot read one in {shown!r}"


def _problems(choice: OfferedCapability, name: str, value: Any) -> tuple[str, ...]:
    """Return what is wrong with one parameter's value, in words."""
    found = _with_one(choice, name).problems({name: value})
    return tuple(f"{_wanted(choice, name)}; {problem.partition(': ')[2]}" for problem in found)


def _wanted(choice: OfferedCapability, name: str) -> str:
    form = _form(choice, name)
    return f"must be given as {form.words}, as in {form.example}"


def _form(choice: OfferedCapability, name: str) -> Form:
    return form_of(mapping(properties(choice)[name]), mapping(choice.parameters.get("$defs")))


def properties(choice: OfferedCapability) -> Mapping[str, Any]:
    """Return the parameters of a capability, each with what its schema says of it."""
    return mapping(choice.parameters.get("properties"))


def rare_hints(choice: OfferedCapability) -> tuple[str, ...]:
    """Return the rare hints among those of the required parameters."""
    described = properties(choice)
    required = choice.parameters.get("required", ())
    hints = {mapping(described.get(name)).get(HINT) for name in required}
    return tuple(hint for hint in RARE_HINTS if hint in hints)


def _with_one(choice: OfferedCapability, name: str) -> OfferedCapability:
    """Return a capability with one of its parameters alone."""
    properties = {name: choice.parameters["properties"][name]}
    schema = {"properties": properties, "$defs": choice.parameters.get("$defs", {})}
    return replace(choice, parameters=schema)
