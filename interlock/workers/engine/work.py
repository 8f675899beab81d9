"""One claimed effect, as its handler sees it: the record, the idempotency key, orders to stop."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter

from interlock.kernel.amounts import MONEY, amount_text, amounts, share_text
from interlock.kernel.effect import Kind
from interlock.kernel.errors import ConflictError, FencedError, KernelError, StoreError
from interlock.kernel.event import Cause
from interlock.kernel.fired import Fired
from interlock.kernel.moving import with_state_now
from interlock.kernel.record import D, Entry, Record, ancestors
from interlock.kernel.store.children import children_counted
from interlock.kernel.store.commands import NO_WARRANT, Call, NoteDraft, Offer, Spender, Warrant
from interlock.kernel.store.leases import Lease, Order, Shortage
from interlock.kernel.table import Active
from interlock.workers.engine.attempt_limit import AttemptLimit
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.flag import Flag
from interlock.workers.engine.heartbeat import HeldLease
from interlock.workers.engine.records import Records, component
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work_results import WorkResults
from interlock.workers.gateways.llm.language_model import PricedQuestion
from interlock.workers.gateways.llm.outcome import Answered, Unanswered, UnknownPriceError
from interlock.workers.gateways.llm.prompt import AnswerT

log = logging.getLogger(__name__)

# While the store is away, the holder of a finished effect tries to fire its outcome for so long
# after the end of its lease. Its token stays valid until another process claims the effect, and
# after an outage the sweeps give every holder the time of one lease to return.
OUTAGE_S_MAX = 300.0
# How long a holder waits before it asks again for what others have reserved: at first, and at most.
RESERVE_S_MIN, RESERVE_S_MAX = 0.05, 1.0
# Errors after which the same call may succeed later.
TRANSIENT = (StoreError, ConflictError)
Result = TypeVar("Result")


class NotYetError(RuntimeError):
    """The effect cannot be done now, or not on this host. It is tried again; the sentence says why.

    By default the attempt counts as failed, and the usual delay follows. With `after_s` the effect
    waits for what others use: it is tried again after so many seconds, and the attempt does not
    count. Give the state a time limit, or the effect may wait for ever. With `asks_person`, a
    person is in the way, and the sentence says what that person has to do: the attempt counts, a
    card asks the person, and the effect is tried again after the usual delay, or as soon as the
    person says so.
    """

    def __init__(
        self, why: str, *, after_s: float | None = None, asks_person: bool = False
    ) -> None:
        super().__init__(why)
        self.after_s, self.asks_person = after_s, asks_person


class OverBudgetError(NotYetError):
    """A cap is used up: it does not allow what a handler needs, whatever others give back.

    Where the state names a trigger for that (`over`), it is fired; else a card asks a person.
    """

    def __init__(self, shortage: Shortage) -> None:
        asked = amount_text(shortage.name, shortage.asked)
        left = share_text(shortage.name, max(shortage.left, 0), shortage.cap)
        whose = f"the budget of {shortage.record_id}"
        super().__init__(f"{asked} are needed, and {left} are left in {whose}", asks_person=True)
        self.shortage = shortage


@dataclass(frozen=True, slots=True)
class Outcome:
    """The trigger that a handler fires at its end. `deltas` are the costs of its work, integers."""

    trigger: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    deltas: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


class EffectWork(Generic[D]):
    """An effect under its lease. `key` is the same in every attempt, the token differs in each.

    - `record`: the record as it was claimed, or as the last `fire` left it; `machine`: its table
    - `effect`: the `Effect`, with the lease that this deployment sets
    - `lease`: the `Lease`; `Records.fire` takes `(lease.suffix, lease.token)` as `held`
    - `held`: the lease as a heartbeat renews it; it holds for `held.left_s` seconds more
    - `stopped.is_set()`: the work was ordered to stop, or its lease is lost, as `lost` says
    - `interrupted`, `giving_back`: it is to come to its end; another worker is to have it
    """

    def __init__(
        self, dispatch: Dispatch, resources: Resources, lease: Lease, *, asked_at: float
    ) -> None:
        self.dispatch, self.resources, self.lease = dispatch, resources, lease
        self.machine = dispatch.lifecycle.machine(lease.record.machine)
        self.record: Record[D] = with_state_now(self.machine, lease.record)
        self.effect = dispatch.effect(self.machine.name, lease.name)
        self.held = HeldLease(lease, self.effect.lease_ms, self._receive_order, asked_at=asked_at)
        self.stopped = Flag()
        self.lost = Flag()
        self.limit = AttemptLimit(self.effect.timeout_ms)
        self.interrupted = Flag()
        self.giving_back = Flag()
        self.handed_over = Flag()  # a supervisor has the lease now, and reports the end
        self.fired: Fired | None = None  # what the last call of `fire` has done
        self.results = WorkResults(dispatch, lease, self.retried)
        self.pause: Callable[[float], None] = time.sleep  # between two looks at what is reserved
        self._callbacks: list[Callable[[], None]] = []
        self._reserved: dict[str, int] = {}
        if lease.interrupts:
            self.interrupted.set()

    @cached_property
    def records(self) -> Records:
        """The records of the deployment, as this effect reads and changes them."""
        return component(self.dispatch, self.lease.name)

    @property
    def key(self) -> str:
        """The idempotency key of the effect: every attempt has the same."""
        return self.lease.key

    def children(self, countdown: str) -> list[Record]:
        """Return the children that the record created last in this countdown, as it listed them.

        Those that were not created yet, or are pruned, are missing.
        """
        return self.retried(
            lambda: children_counted(self.dispatch.views, self.record.id, countdown)
        )

    def saved(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Return what a call returns, and save it: a later attempt gets it back without the call.

        The result is JSON, of at most 256 KiB, and comes as JSON gives it back, also the first
        time. It is kept until the record leaves the state, under this name: in a loop, give each
        call a name of its own. If the worker is lost while the call is made, it is made again.
        """
        found = self.results.find(name)
        return self.results.save(name, call(*given, **named)) if found is None else found.value

    async def saved_async(
        self, name: str, call: Callable[..., Awaitable[Any]], *given: Any, **named: Any
    ) -> Any:
        """Do as `saved` does, with a call that is waited for."""
        found = await asyncio.to_thread(self.results.find, name)
        if found is None:
            return await asyncio.to_thread(self.results.save, name, await call(*given, **named))
        return found.value

    @property
    def kept_outcome(self) -> Outcome | None:
        """The outcome that an earlier attempt has worked out, and that could not be committed."""
        if (kept := self.lease.outcome) is None:
            return None
        now = self.machine.renamed_triggers.get(kept["trigger"], kept["trigger"])
        return Outcome(**{**kept, "trigger": now})

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.lease.attempt

    @property
    def entry(self) -> Entry:
        """The record's entry of this effect, as it was when the lease was claimed."""
        entries = self.lease.record.entries
        return next(entry for entry in entries if entry.suffix == self.lease.suffix)

    @property
    def restartable(self) -> bool:
        """Whether another worker may start it again. If not, giving it back fires its crash."""
        if self.lease.kind is not Kind.STATE:
            return True
        stage = self.machine.stage(self.record.state)
        carried_in = isinstance(stage, Active) and stage.effect is None
        return not (carried_in or self.entry.no_restart)

    @property
    def kill_by(self) -> float:
        """The time of `clock` at which its processes are killed unless the lease is renewed."""
        # In the middle of the grace: after its end, another attempt may start.
        return self.held.valid_until + self.effect.grace_ms / 2_000

    def raise_if_stopped(self) -> None:
        """Raise CancelledError if this work was ordered to stop. Call it in every loop."""
        if self.stopped.is_set() or self.giving_back.is_set():
            raise CancelledError

    def fire(self, outcome: Outcome, offer: Offer | None = None) -> Record:
        """Fire an outcome or a row that stays under the lease, retried while the store is away.

        After a row that stays the work goes on. `offer` asks for what follows an outcome.
        """
        call = Call(
            cause=Cause(self.lease.name, outcome.reason),
            # A holder may fire a trigger twice, at two versions; a retry has the same version.
            op_id=f"{self.lease.token}:{outcome.trigger}:{self.record.version}",
            warrant=self.warrant,
            deltas=outcome.deltas,
        )

        fire = partial(self.dispatch.lifecycle.fire, self.record, outcome.trigger, outcome.payload)
        self.fired = self.retried(lambda: fire(call, initial_lease=offer))
        read = partial(self.dispatch.views.record, self.record.id)
        self.record = self.fired.record or self.retried(read)
        return self.record

    def fire_or_settle(self, outcome: Outcome, offer: Offer | None = None) -> Record | None:
        """Fire an outcome; if the lease is lost, note it as late, settle, and return None."""
        try:
            return self.fire(outcome, offer)
        except FencedError:
            try:
                self.note_late(outcome)
            except KernelError as error:
                log.warning("%s: a late %s is not noted: %s", self.key, outcome.trigger, error)
            with suppress(KernelError):
                self.settle()
            return None

    def settle(self) -> str:
        """End this effect as `Dispatch.settle` does, also with an outcome that came too late."""
        return self.dispatch.settle(self.lease)

    def note(self, kind: str, detail: Mapping[str, Any], *, stall_ms: int | None = None) -> None:
        """Write a note to the record's log. `stall_ms` restarts the record's stall timer."""
        timers = (("stall", stall_ms, 0),) if stall_ms is not None else ()
        draft = NoteDraft(kind, {"effect": self.lease.suffix, **detail}, timers=timers)
        self._write(draft, uuid4().hex, self.warrant)

    def audit(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Write a note without the lease: it stays true after another process took the effect."""
        self._write(NoteDraft(kind, {"effect": self.lease.suffix, **detail}), uuid4().hex)

    def note_late(self, outcome: Outcome) -> None:
        """Note an outcome that came too late to be fired, and count its costs."""
        token, trigger = self.lease.token, outcome.trigger
        detail = {"effect": self.lease.suffix, "trigger": trigger, "token": token}
        spender = Spender(self.lease.suffix, token, has_ended=True)
        draft = NoteDraft("stale_result", detail, deltas=outcome.deltas, spender=spender)
        self._write(draft, f"{token}:{trigger}/late")

    def reserve(self, *, usd: float | Decimal | None = None, **counted: int) -> None:
        """See to it that so much may be used before it is used, under every cap above.

        It replaces what was reserved under these names before, and is reserved until it is
        spent or the attempt ends. Waits, with nothing reserved, while only the reservations of
        others are in the way. Raises OverBudgetError, and keeps what was reserved, where a cap
        is used up; CancelledError if this work was ordered to stop while it waits.
        """
        wanted = self._reserved | amounts(usd, **counted)
        wanted = {name: amount for name, amount in wanted.items() if amount}
        pause_s = 0.0
        while shortage := self.retried(lambda: self.dispatch.leases.reserve(self.lease, wanted)):
            if not shortage.may_pass:
                raise OverBudgetError(shortage)
            self._reserved = {}
            if not pause_s:
                self.note("budget_waits", asdict(shortage))
            pause_s = min(RESERVE_S_MAX, pause_s * 2 or RESERVE_S_MIN)
            self.pause(pause_s * random.uniform(0.5, 1))  # noqa: S311 - no secret, only a spread
            self.raise_if_stopped()
        self._reserved = wanted

    def spend(self, *, usd: float | Decimal | None = None, **counted: int) -> None:
        """Count what was used, at once and for good, and take it out of what was reserved.

        Each call counts once, also where its reply is lost. It counts after the lease is lost as
        well, and above a cap: it was used. What an outcome has as its deltas is not spent here.
        """
        used = {name: amount for name, amount in amounts(usd, **counted).items() if amount}
        if not used:
            return
        detail = {"effect": self.lease.suffix}
        spender = Spender(self.lease.suffix, self.lease.token)
        self._write(NoteDraft("spent", detail, deltas=used, spender=spender), uuid4().hex)
        left = {name: amount - used.get(name, 0) for name, amount in self._reserved.items()}
        self._reserved = {name: amount for name, amount in left.items() if amount > 0}

    def outcome_over_budget(self, failure: BaseException) -> Outcome | None:
        """Return the outcome of a handler whose budget is used up, where its state names one."""
        stage = self.machine.stage(self.record.state)
        is_over = isinstance(failure, OverBudgetError) and self.lease.kind is Kind.STATE
        if not (is_over and isinstance(stage, Active) and stage.over):
            return None
        said = {"code": "over_budget", "detail": str(failure)}
        fields = self.machine.taken_by(stage.over, said)
        return Outcome(stage.over, fields, reason=str(failure))

    def is_capped(self) -> bool:
        """Return whether a cap limits the money of the record: its own, or one above it."""
        chain = (self.record.id, *ancestors(self.record.id))
        counters = self.retried(
            lambda: [self.dispatch.views.record(above).counters for above in chain]
        )
        return any(f"cap.{MONEY}" in found for found in counters)

    async def ask(
        self, question: PricedQuestion[AnswerT], *, timeout_s: float
    ) -> Answered[AnswerT] | Unanswered:
        """Ask a language model, once the most that the question can cost is reserved.

        What it cost, the `deltas` of what is returned, is for the outcome or for `spend`; where
        this raises, it is counted already. Raises OverBudgetError, and SettingsError where the
        price of the model is unknown and a cap limits what may be spent: then nothing was asked.
        """
        estimate = 0  # an unknown price counts as nothing, where nothing caps it
        try:
            estimate = question.bound_micro()
        except UnknownPriceError:
            if await asyncio.to_thread(self.is_capped):
                raise
        if estimate:
            await asyncio.to_thread(partial(self.reserve, spent=estimate))
        try:
            return await question.ask(timeout_s=timeout_s)
        except BaseException:
            # The provider may bill the question although nobody waits for the answer any more.
            await asyncio.to_thread(partial(self.spend, **question.deltas))
            raise

    def call_on_order(self, callback: Callable[[], None]) -> None:
        """Call back, from the heartbeat's thread, when an order to stop or interrupt arrives."""
        self._callbacks.append(callback)
        if any(flag.is_set() for flag in (self.stopped, self.interrupted, self.giving_back)):
            callback()

    def give_back(self) -> None:
        """Stop because this process ends. The effect is released for another worker, not failed."""
        self._raise_flag(self.giving_back)

    @property
    def warrant(self) -> Warrant:
        """The warrant of this holder, with which it may commit."""
        return Warrant.token(self.lease.suffix, self.lease.token)

    def _receive_order(self, order: Order, interrupts: int) -> None:
        # That a record is paused stops no handler, and must not keep an interrupt from it.
        posted = order is Order.PAUSE and interrupts > self.held.acknowledged
        if order is Order.INTERRUPT or posted:
            self.held.acknowledged = interrupts
            self._raise_flag(self.interrupted)
        elif order in (Order.STOP, Order.LOST):
            if order is Order.LOST:
                self.lost.set()
            self._raise_flag(self.stopped)

    def _raise_flag(self, flag: Flag) -> None:
        # Every renewal repeats the order, but the callbacks run only at the first.
        if flag.is_set():
            return
        flag.set()
        for callback in tuple(self._callbacks):
            callback()

    def _write(self, draft: NoteDraft, op_id: str, warrant: Warrant = NO_WARRANT) -> None:
        note = self.dispatch.lifecycle.note
        self.retried(lambda: note(self.record, draft, op_id=op_id, warrant=warrant))

    def retried(self, call: Callable[[], Result]) -> Result:
        """Make a call that may be repeated, and retry it while the store is away."""
        try:
            return call()
        except TRANSIENT:
            # Built only now, because nearly every call succeeds at once.
            return self._retrying()(call)

    def _retrying(self) -> Retrying:
        def lease_over(state: RetryCallState) -> bool:
            del state
            return self.held.left_s <= (0 if self.giving_back.is_set() else -OUTAGE_S_MAX)

        return Retrying(
            retry=retry_if_exception_type(TRANSIENT),
            wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
            stop=lease_over,
            reraise=True,
        )


Handler = Callable[[EffectWork[Any]], Awaitable[Outcome | None] | Outcome | None]
