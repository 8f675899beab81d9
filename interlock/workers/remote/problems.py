"""The kinds of problems that the API answers with (RFC 9457), and the error each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel import errors
from interlock.kernel.errors import KernelError

HEAD = "urn:interlock:"
RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: its HTTP status, its name in `type`, and a title in words."""

    status: int
    name: str
    title: str
    retry_after_s: int = 0


NO_TOKEN = ProblemKind(401, "no-token", "A valid access token is needed")
STALE = ProblemKind(412, "stale", "The record has changed since you read it")
TOO_LARGE = ProblemKind(413, "too-large", "The body is too large")
# The most special class of an error decides.
KINDS: dict[type[KernelError], ProblemKind] = {
    errors.UnknownMachineError: ProblemKind(404, "unknown-machine", "There is no such machine"),
    errors.UnknownRecordError: ProblemKind(404, "unknown-record", "There is no such record"),
    errors.UnknownTriggerError: ProblemKind(
        404, "unknown-trigger", "The machine has no such trigger"
    ),
    errors.InvalidIdError: ProblemKind(422, "invalid-id", "This cannot be an id"),
    errors.InvalidPayloadError: ProblemKind(
        422, "invalid-payload", "The payload has not this shape"
    ),
    errors.OpIdReusedError: ProblemKind(422, "key-reused", "The key was used for another call"),
    errors.IllegalTransitionError: ProblemKind(
        409, "illegal-transition", "Not allowed in this state"
    ),
    errors.GuardRefusedError: ProblemKind(409, "guard-refused", "A guard refuses it"),
    errors.UnknownStateError: ProblemKind(
        409, "unknown-state", "The table here lacks the state of the record"
    ),
    errors.AnotherTableError: ProblemKind(
        409, "another-table", "The workers work by another table", RETRY_AFTER_S
    ),
    errors.IdTakenError: ProblemKind(409, "id-taken", "The id belongs to another record"),
    errors.ClosedParentError: ProblemKind(
        409, "closed-parent", "The parent accepts no more children"
    ),
    errors.QuotaError: ProblemKind(
        409, "records-max", "There are as many records as there may be", 60
    ),
    errors.NewerSchemaError: ProblemKind(409, "newer-schema", "A newer version wrote the record"),
    errors.FencedError: ProblemKind(409, "fenced", "Another process has the work"),
    errors.HeldError: ProblemKind(409, "held", "The record cannot be taken now", 1),
    errors.ConflictError: ProblemKind(409, "conflict", "Others changed the record first", 1),
    errors.StaleDecisionError: STALE,
    errors.TokenRefusedError: NO_TOKEN,
    errors.ForbiddenError: ProblemKind(403, "forbidden", "Your roles do not allow this"),
    errors.MissedError: ProblemKind(410, "missed", "What follows is no longer kept completely"),
    errors.CallError: ProblemKind(400, "bad-call", "The call is wrong"),
    errors.UnreadableRecordError: ProblemKind(
        500, "unreadable-record", "The record cannot be read"
    ),
    errors.StoreError: ProblemKind(503, "store-away", "The store cannot serve now", RETRY_AFTER_S),
    errors.KernelError: ProblemKind(500, "internal-error", "Something is wrong on our side"),
}


class RemoteError(KernelError):
    """The API refuses a call for a reason that `Client` has not, or what answers is no API."""


class TooLargeError(RemoteError):
    """The API takes no body of this size, or no call for so many records: send less with it."""


def kind_of(refusal: KernelError) -> ProblemKind:
    """Return the kind of problem of an error."""
    return next(KINDS[each] for each in type(refusal).__mro__ if each in KINDS)


def error_of(problem: Mapping[str, Any]) -> KernelError:
    """Return the error that a problem stands for. It has the sentence, and `problems` if it has."""
    name = str(problem.get("type", "")).removeprefix(HEAD)
    detail = str(problem.get("detail", ""))
    raised = next((each for each, kind in KINDS.items() if kind.name == name), None)
    if raised is None:
        refusal = TooLargeError if name == TOO_LARGE.name else RemoteError
        return refusal(f"{problem.get('title', 'the API refuses it')}: {detail}")
    error = raised.__new__(raised, detail)  # its own arguments are not in a problem
    error.args = (detail,)
    if isinstance(problems := problem.get("problems"), list):
        error.__dict__["problems"] = tuple(map(str, problems))
    return error
