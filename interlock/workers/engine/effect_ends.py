"""How an attempt at an effect ends if it does not succeed, as Celery and people see it."""

from __future__ import annotations

from celery.exceptions import Ignore, Retry

from interlock.kernel.effect import Kind
from interlock.kernel.errors import (
    IllegalTransitionError,
    InvalidPayloadError,
    KernelError,
    TableFunctionError,
    UnknownTriggerError,
)
from interlock.kernel.store.leases import Refused
from interlock.workers.engine.work import EffectWork

# Claims that are refused for now: a sweep publishes the effect again.
REFUSED_FOR_NOW = ("early", "busy", "paused", "newer", "slot")


class EffectFailedError(Exception):
    """The effect failed. The store has recorded it; Celery shows it in the log and in Flower."""

    def __repr__(self) -> str:
        return repr(str(self))  # as Celery shows the result of an effect that succeeded


class EffectRetriedError(Retry):
    """The effect is tried again: a sweep publishes it when it is due. Celery only shows it."""

    def __repr__(self) -> str:
        return repr(self.message)

    __str__ = __repr__


class OutcomeKeptError(Exception):
    """An outcome could not be committed, by a fault of the table or of the outcome."""


class EffectNotOwedError(Exception):
    """No record owes the effect any more, or an earlier message has reported its end."""


def may_pass(work: EffectWork, refusal: Exception) -> bool:
    """Whether a handler that works its outcome out anew may have another one, which is taken."""
    if isinstance(refusal, IllegalTransitionError):
        return work.lease.kind is not Kind.STATE
    unusable = (TableFunctionError, UnknownTriggerError, InvalidPayloadError)
    return isinstance(refusal, KernelError) and not isinstance(refusal, unusable)


def not_claimed(refused: Refused) -> Exception:
    """Return the exception for a claim that the store refused."""
    why = "it has begun once and may not start again" if refused.status == "carried" else ""
    line = f"not claimed: {why or refused.status} {refused.detail}".rstrip()
    if refused.status in REFUSED_FOR_NOW:
        return EffectRetriedError(line)
    return Ignore(line) if refused.status == "held" else EffectNotOwedError(line)
