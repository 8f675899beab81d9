"""Checks the arguments of a submission and of a producer's message, and describes the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from interlock.kernel.errors import (
    CallError,
    ForbiddenError,
    InvalidIdError,
    InvalidPayloadError,
    KernelError,
)
from interlock.kernel.exported_event import OUTSIDE, components
from interlock.kernel.machine import Machine
from interlock.kernel.payload import Shape
from interlock.kernel.record import PRIORITY_LAST, Record
from interlock.workers.text import with_article

Name = Annotated[str, Field(max_length=400)]  # with a limit, text that is no Unicode is refused


class Request(Shape):
    """A plain message of a producer: its id, and who the log says it was.

    A message can be delivered twice, and its id says so: it is that of the new record, or an op-id.
    """

    id: Annotated[Name, Field(min_length=1)]
    actor: Annotated[str, Field(min_length=1, max_length=100)] | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The result of one submission. `replayed`: the same submission was accepted before."""

    id: str
    replayed: bool
    error: KernelError | None = None


def check_actor(name: str, machines: Mapping[str, Machine]) -> None:
    """Refuse a caller's name that the log cannot show as it is, or has for a part of Interlock.

    The common names of callers are compared first: to know all parts, every table is imported.
    """
    if not name.isprintable():
        problem = f"{name!r} has characters that cannot be seen; leave them out"
        raise InvalidPayloadError("the name of the caller", [problem])
    if name not in OUTSIDE and name in components(machines):
        problem = f"{name!r} is what the log calls a part of Interlock; use another name"
        raise InvalidPayloadError("the name of the caller", [problem])


def check_submission(payload: Any, new_id: Any, priority: Any) -> None:
    """Refuse arguments of wrong types, which a caller without a type checker may pass."""
    if not isinstance(payload, Mapping):
        raise InvalidPayloadError("the payload", [f"it is {type(payload).__name__}, not a mapping"])
    if not isinstance(new_id, str):
        raise InvalidIdError(repr(new_id), "it is not text")
    if type(priority) is not int or not 0 <= priority <= PRIORITY_LAST:
        raise InvalidPayloadError(
            "priority", [f"{priority!r} is not between 0 (first) and {PRIORITY_LAST}"]
        )


def of_machine(record: Record, machine: str) -> Record:
    """Return a record if it is of a machine. Raises CallError that says what it is instead.

    Without a machine any record is returned.
    """
    if machine not in ("", record.machine):
        raise CallError(
            f"{record.id} is {with_article(record.machine)}, not {with_article(machine)}:"
            f" `interlock explain {record.id}` names the commands that move it"
        )
    return record


def check_commands(machine: Machine, payload: Mapping[str, Any], refusal: str) -> None:
    """Refuse a payload that names a command, if there is a `refusal`: why its caller may not."""
    if refusal and (named := machine.placement.commands_in(payload)):
        raise ForbiddenError(f"{', '.join(named)} of a {machine.name} names a command: {refusal}")


def submit_each(
    payloads: Sequence[Mapping[str, Any]], submit: Callable[..., Submitted]
) -> list[Submitted]:
    """Submit payloads one by one, and return a result for each, which may be an error.

    A payload may have the fields `id` and `priority` beside its own.
    """
    results: list[Submitted] = []
    for payload in payloads:
        fields: Any = dict(payload) if isinstance(payload, Mapping) else payload
        named = ("id", "priority") if isinstance(fields, dict) else ()
        options = {name: fields.pop(name) for name in named if name in fields}
        try:
            results.append(submit(fields, **options))
        except KernelError as refusal:
            new_id = str(options.get("id") or "")
            results.append(Submitted(new_id, replayed=False, error=refusal))
    return results


def op_id_of_call(given: str | None) -> str:
    """Return the op-id under which a call from outside is stored.

    None of those that Interlock makes itself looks so: otherwise a caller could use up the op-id of
    a timer or an effect, which would never act then.
    """
    return f"call:{given}" if given else uuid4().hex
