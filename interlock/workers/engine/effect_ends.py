"""How an attempt at an effect ends if it does not succeed, as Celery and people see it."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from dataclasses import asdict

from celery.exceptions import Ignore, Retry

from interlock.kernel.blame import blamed, with_own_line
from interlock.kernel.effect import Kind
from interlock.kernel.errors import (
    AnotherVersionError,
    FencedError,
    HeldError,
    IllegalTransitionError,
    InvalidPayloadError,
    KernelError,
    StoreError,
    TableFunctionError,
    UnknownTriggerError,
)
from interlock.kernel.event import EFFECT_FAILED
from interlock.kernel.store.codec import storable
from interlock.kernel.store.commands import NoteDraft
from interlock.workers.config import ms
from interlock.workers.engine.attempt_limit import TookTooLongError
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.retry_delay import retry_delay_ms
from interlock.workers.engine.work import EffectWork, NotYetError, Outcome
from interlock.workers.engine.work_results import UnusableResultError
from interlock.workers.redaction import hide_secrets
from interlock.workers.text import duration

log = logging.getLogger(__name__)

DETAIL_MAX = 2_000
# An effect that waits for a held name is polled when it is its turn, and after this time anyway.
HELD_POLL_MS = 60_000
UNKNOWN_S = 1.0  # after so long an effect is published again that this process cannot know


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


# Errors of ours that are whole sentences, and about no line of anybody's file.
SENTENCES = (OutcomeKeptError, TookTooLongError)


class EffectEnds(ABC):
    """The part of `Runner` that ends attempts which do not succeed at once."""

    dispatch: Dispatch
    _ending: threading.Event

    @abstractmethod
    def _fire(self, work: EffectWork, outcome: Outcome) -> str: ...

    def _keep(self, work: EffectWork, outcome: Outcome, refusal: Exception) -> str:
        """Keep an outcome that cannot be committed, so that the handler is not called again."""
        try:
            if work.lease.outcome is None:
                work.results.keep(asdict(outcome))
        except FencedError:
            return self._settle(work, f"stale: {outcome.trigger}")
        except StoreError as away:
            raise EffectRetriedError(f"given up: {away}") from away
        except UnusableResultError as too_large:
            return self._retry_later(work, too_large, is_last=True)
        said = str(refusal) if isinstance(refusal, KernelError) else blamed(refusal)
        why = f"its outcome {outcome.trigger} is kept, and only committed again: {said}"
        return self._retry_later(work, OutcomeKeptError(why))

    def _settle(self, work: EffectWork, line: str) -> str:
        try:
            status = work.settle()
        except StoreError as refusal:
            raise EffectRetriedError(f"not settled: {refusal}") from refusal
        if status == "refused" and work.limit.has_passed:
            return self._end_late(work)
        if status == "refused":
            assert work.lease.kind is Kind.STATE, "only the effect of the current state is refused"
            nothing = UnusableResultError("the handler ended without an outcome")
            return self._retry_later(work, nothing, is_last=True)
        return line

    def _stop(self, work: EffectWork, end: BaseException) -> str:
        orders = (work.stopped, work.giving_back, work.lost, self._ending)
        if not any(order.is_set() for order in orders):
            # The handler cancelled something of its own: that has failed, unless the lease is lost.
            self._retry_later(work, end)
        if work.lost.is_set():
            raise Ignore("its lease is over")
        if work.limit.has_passed:
            return self._end_late(work)
        if work.stopped.is_set():
            return self._settle(work, "stopped by order")
        try:
            status = self.dispatch.leases.release(work.lease, counted=False)
        except StoreError as refusal:
            raise EffectRetriedError(f"not released, its lease will lapse: {refusal}") from refusal
        if status in ("gone", "lost"):
            # The command of a worker that was frozen ends before the worker learns of the loss.
            raise Ignore("its lease is over")
        raise EffectRetriedError(f"released at shutdown: {status}")

    def _end_fenced(self, work: EffectWork, refusal: FencedError) -> str:
        """End an attempt in which a record refused a commit as stale.

        If that is the record of the effect, its lease is lost; else the effect is tried again.
        """
        if refusal.record_id != work.record.id:
            return self._retry_later(work, refusal)
        return self._settle(work, f"stale: {refusal}")

    def _end_late(self, work: EffectWork) -> str:
        """End an attempt whose time was over, by the outcome that its handler has for that."""
        late = work.limit.error
        try:
            outcome = work.limit.outcome(str(late))
        except StoreError as refusal:
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        except Exception as failure:  # noqa: BLE001 - whatever the handler's function raises
            return self._retry_later(work, failure)
        return self._fire(work, outcome) if outcome else self._retry_later(work, late)

    def _wait_for_others(
        self, work: EffectWork, refusal: NotYetError | HeldError | AnotherVersionError
    ) -> str:
        """Give an effect back until others have freed what it, or its outcome, needs.

        What needs another version of a table is given back for a process that has it.
        """
        needs: tuple[str, ...] = ()
        if isinstance(refusal, AnotherVersionError):
            log.warning("%s is given back: %s", work.key, refusal)
            delay_ms = ms(UNKNOWN_S)
        elif isinstance(refusal, NotYetError) and refusal.after_s is not None:
            delay_ms = ms(refusal.after_s)
        elif isinstance(refusal, HeldError) and refusal.needs:
            delay_ms, needs = HELD_POLL_MS, refusal.needs
        else:
            return self._retry_later(work, refusal)
        try:
            status = self.dispatch.leases.release(
                work.lease, delay_ms=delay_ms, counted=False, needs=needs
            )
        except StoreError as away:
            raise EffectRetriedError(f"not released, its lease will lapse: {away}") from away
        if status in ("lost", "gone"):
            raise Ignore(f"{status} while it was to wait: {refusal}") from refusal
        raise EffectRetriedError(f"waits ({status}): {refusal}") from refusal

    def _retry_later(
        self, work: EffectWork, failure: BaseException, *, is_last: bool = False
    ) -> str:
        asks = isinstance(failure, NotYetError) and failure.asks_person
        is_sentence = asks or isinstance(failure, SENTENCES)
        named = not isinstance(failure, UnusableResultError)
        failure = hide_secrets(failure)
        cause = str(failure) if is_sentence else with_own_line(failure, named=named)
        detail = storable(cause)[:DETAIL_MAX]
        log.warning("%s failed, attempt %d: %s", work.key, work.attempt, detail)
        delay_ms = 0 if is_last else retry_delay_ms(work.effect, work.attempt)
        said = {"effect": work.lease.suffix, "attempt": work.attempt, "detail": detail}
        draft = NoteDraft(EFFECT_FAILED, said)
        try:
            self.dispatch.lifecycle.note(work.record, draft, warrant=work.warrant)
            status = self.dispatch.leases.release(
                work.lease, delay_ms=delay_ms, counted=True, asks=asks, is_last=is_last
            )
        except FencedError:
            return self._settle(work, f"stale: {detail}")
        except StoreError as refusal:
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        if status == "owed" and not is_last and work.attempt < work.entry.attempts_max:
            raise EffectRetriedError(f"tried again in {duration(delay_ms)}: {detail}") from failure
        raise EffectFailedError(detail) from failure
