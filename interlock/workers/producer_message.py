"""Does what a plain Celery message of a producer asks for, or keeps it as rejected."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from kombu.exceptions import LimitExceeded, OperationalError
from pydantic import Field
from tenacity import (
    RetryCallState,
    retry,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from interlock.kernel.errors import (
    AnotherVersionError,
    CallError,
    ConflictError,
    FencedError,
    ForbiddenError,
    HeldError,
    InvalidPayloadError,
    KernelError,
    StoreError,
    UnknownMachineError,
)
from interlock.kernel.machines import LISTED, MACHINES
from interlock.kernel.payload import validated
from interlock.kernel.record import Record
from interlock.kernel.store.rejected import RejectedMessage
from interlock.workers.client import Client
from interlock.workers.config import Settings, SettingsError
from interlock.workers.engine.refusals import refusals_of
from interlock.workers.engine.submission import (
    Name,
    Request,
    check_actor,
    check_commands,
    check_submission,
)
from interlock.workers.engine.system import load
from interlock.workers.systems import plain_request, systems

log = logging.getLogger(__name__)

# Errors that are temporary: the message stays in the broker and is delivered again.
TEMPORARY_ERRORS = (StoreError, ConflictError, OperationalError, LimitExceeded)
PATIENCE_S = 30
# A message that depends on a record that does not exist is read again so often, then rejected.
EARLY_READS_MAX = 12
COMMANDS = "commands"  # in INTERLOCK_INTAKE_ACCEPTS: messages may name commands to run
Verb = Callable[[Client, Mapping[str, Any]], dict[str, Any]]
VERSION_MAX = 2**53


class SubmitRequest(Request):
    """A new record; `id` is its id. `check_submission` checks its payload and its priority.

    Without a machine it is one that people create with a title alone, if a system has such records.
    """

    payload: Any
    machine: str
    priority: Any = 5


class FireRequest(Request):
    """A trigger to fire. `id` is the op-id of the call, here and below."""

    record: Name
    trigger: Name
    payload: dict[str, Any] = Field(default_factory=dict)
    reason: str = ""
    version: Annotated[int, Field(strict=True, ge=0, le=VERSION_MAX)] | None = None


class CancelRequest(Request):
    """The end of a record."""

    record: Name
    reason: str = ""


class DecideRequest(Request):
    """An answer to a card: one of its choices, and the proposal that was seen."""

    record: Name
    choice: Name
    proposal: Name
    answer: dict[str, Any] = Field(default_factory=dict)


def _log_refusal(state: RetryCallState) -> None:
    failure = state.outcome.exception() if state.outcome else None
    if isinstance(failure, (StoreError, OperationalError)):
        refusals_of("the store").begin(failure)


@retry(
    retry=retry_if_exception_type(TEMPORARY_ERRORS),
    before_sleep=_log_refusal,
    wait=wait_exponential_jitter(max=5),
    stop=stop_after_delay(PATIENCE_S),
    reraise=True,
)
def receive(
    client: Client,
    verb: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    reads_before: int = 0,
) -> dict[str, Any]:
    """Do what one message asks for; keep it as rejected if it can never be accepted.

    Returns the answer to its producer. Raises HeldError if another record is in the way of the
    message, an early CallError if it depends on a record that may come, AnotherVersionError if
    another version of Interlock, or of a table, can accept it. It is then to be read again;
    `reads_before` says how often that has happened.
    """
    request = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
    answer = {"id": request["id"]} if isinstance(request, Mapping) and "id" in request else {}
    try:
        answer |= accept(client, verb, only_argument(args, kwargs))
    except (CallError, FencedError) as refusal:
        is_early = isinstance(refusal, CallError) and refusal.is_early
        if is_early and reads_before < EARLY_READS_MAX:
            raise
        client.dispatch.rejected.put("refused at intake", str(refusal), request, verb=verb)
        log.warning("a message is rejected: %s", refusal)
        answer |= refused(refusal)
    except (*TEMPORARY_ERRORS, AnotherVersionError, HeldError):
        raise  # an intake of that version can accept it, once one runs
    except Exception as failure:
        # A bug must not lose a producer's message.
        client.dispatch.rejected.put("failed at intake", repr(failure), request, verb=verb)
        log.exception("a message is rejected, because Interlock failed on it")
        answer |= refused(failure)
    refusals_of("the store").end()
    return answer


def refused(failure: Exception) -> dict[str, Any]:
    """Return the answer to a message that is rejected: the name of the error, and the sentence."""
    return {"answer": "rejected", "error": type(failure).__name__, "reason": str(failure)}


def one_line(answer: Mapping[str, Any]) -> str:
    """Return an answer as a line for people."""
    named = (answer.get(name) for name in ("record", "mail", "reason"))
    return ": ".join(str(part) for part in (answer["answer"], *named) if part)


def only_argument(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the request of a message."""
    if kwargs or len(args) != 1:
        raise invalid(
            "the message", "send one positional argument, the request, and no other argument"
        )
    return args[0]


def accept(client: Client, verb: str, request: Any) -> dict[str, Any]:
    """Do what a message asks for, as the actor that it names. One that comes twice acts once."""
    if not isinstance(request, Mapping):
        raise invalid("the request", f"it is {type(request).__name__}, not an object")
    allowed = client.settings.intake_accepts
    if allowed and verb not in allowed:
        named = ", ".join(allowed)
        raise CallError(f"intake takes no message {verb!r} here (INTERLOCK_INTAKE_ACCEPTS={named})")
    client = copy.copy(client)
    if allowed and COMMANDS not in allowed:
        client.run_refusal = client.run_refusal or (
            f"intake takes none here (INTERLOCK_INTAKE_ACCEPTS={','.join(allowed)}); "
            f"add {COMMANDS} to take them from whoever may send messages"
        )
    if isinstance(actor := request.get("actor"), str):
        check_actor(actor, client.dispatch.machines)
        client.actor = actor
    kinds = verbs()
    if verb not in kinds:
        raise CallError(f"there is no message {verb!r} here; there are: {', '.join(kinds)}")
    return {"answer": "accepted"} | kinds[verb](client, request)


def replay(client: Client, message: RejectedMessage) -> dict[str, Any]:
    """Do again what a rejected message asked for, and drop it if that is accepted.

    Returns its id and the answer, or why it is rejected again. Raises StoreError.
    """
    if not message.verb:
        why = "it never came so far that it could be read: its producer has to send it anew"
        return {"id": message.id, "answer": "rejected", "reason": why}
    try:
        found = accept(client, message.verb, json.loads(message.body))
    except StoreError:
        raise
    except KernelError as refusal:
        return {"id": message.id, "answer": "rejected", "reason": str(refusal)}
    client.dispatch.rejected.drop(message.id)
    return {"id": message.id, **found}


def verbs() -> Mapping[str, Verb]:
    """Return the kinds of messages: those about every record, and those that systems add."""
    every: dict[str, Verb] = {"submit": submit, "fire": fire, "cancel": cancel, "decide": decide}
    return {**every, **messages_of_systems()}


def send_message(client: Client, kind: str, fields: Mapping[str, Any], op_id: str) -> Any:
    """Do what a message of a kind that a system adds asks for, as the client's actor."""
    kinds = messages_of_systems()
    if kind not in kinds:
        raise CallError(f"there is no kind of message {kind!r} here; there are: {', '.join(kinds)}")
    if taken := {"id", "actor"} & fields.keys():
        raise invalid("the message", *(f"{name}: leave it out" for name in sorted(taken)))
    limited = client.machines.keys() != client.dispatch.machines.keys() & LISTED.keys()
    about = {name: each for system in systems() for name, each in system.messages_about.items()}
    if limited and about.get(kind) not in client.machines:
        raise ForbiddenError(f"a token that is limited to other machines sends no message {kind!r}")
    return kinds[kind](client, {**fields, "id": op_id})


def messages_of_systems() -> Mapping[str, Verb]:
    """Return the kinds of messages that systems add."""
    return {name: load(each) for system in systems() for name, each in system.messages.items()}


def check_accepted(settings: Settings) -> None:
    """Raise SettingsError if intake is to accept a kind of message that there is not."""
    known = (*verbs(), COMMANDS)
    if unknown := sorted(set(settings.intake_accepts) - set(known)):
        named = f"{unknown[0]!r} is no kind of message; there are {', '.join(known)}"
        raise SettingsError(f"INTERLOCK_INTAKE_ACCEPTS: {named}")


def submit(client: Client, request: Mapping[str, Any]) -> dict[str, Any]:
    """Create the record that a message asks for. A message that comes twice creates one record."""
    plain = plain_request()
    default = {"machine": plain.machine} if plain else {}
    fields = validated(SubmitRequest, "the request", {**default, **request})
    machine, priority, payload = fields["machine"], request.get("priority", 5), request["payload"]
    check_submission(payload, fields["id"], priority)
    if machine not in client.machines:
        raise UnknownMachineError(machine, sorted(client.machines))
    check_commands(client.machines[machine], payload, client.run_refusal)
    creators = {machine: name for system in systems() for machine, name in system.submit.items()}
    if machine in creators:
        submitted = load(creators[machine])(client, fields["id"], payload, priority)
    elif MACHINES.is_ours(machine):
        known = ", ".join(sorted(creators))
        raise invalid("the request", f"machine: only Interlock creates a {machine}; use {known}")
    else:
        submitted = client.submit(payload, id=fields["id"], machine=machine, priority=priority)
    return {"answer": "known" if submitted.replayed else "accepted", "record": submitted.id}


def fire(client: Client, request: Mapping[str, Any]) -> dict[str, Any]:
    """Fire a trigger, as `Client.fire_by_hand` does."""
    fields = validated(FireRequest, "the request", request)
    after = client.fire_by_hand(
        fields["record"],
        fields["trigger"],
        request.get("payload", {}),
        op_id=fields["id"],
        reason=fields["reason"],
        version=fields.get("version"),
    )
    return state_of(after)


def cancel(client: Client, request: Mapping[str, Any]) -> dict[str, Any]:
    """End a record, or ask its running action to stop, as `Client.cancel` does."""
    fields = validated(CancelRequest, "the request", request)
    return state_of(client.cancel(fields["record"], reason=fields["reason"], op_id=fields["id"]))


def decide(client: Client, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a card, as `Client.decide` does."""
    fields = validated(DecideRequest, "the request", request)
    answer, proposal = request.get("answer", {}), fields["proposal"]
    record, choice, op_id = fields["record"], fields["choice"], fields["id"]
    return state_of(client.decide(record, choice, answer, proposal=proposal, op_id=op_id))


def state_of(record: Record) -> dict[str, Any]:
    """Return what the answer to a message says of a record."""
    return {"record": record.id, "state": record.state}


def invalid(subject: str, *problems: str) -> InvalidPayloadError:
    """Return the error for a message with these problems."""
    return InvalidPayloadError(subject, problems)
