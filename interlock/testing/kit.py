"""Puts a workflow to work in a test: the real engine and store, a time that the test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from uuid import uuid4

from interlock.kernel.event import Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.store.keys import Keys
from interlock.testing.said import KitError, one_of
from interlock.testing.steps import LOST_REPLY, POINTS, StepsAtWork, with_children
from interlock.testing.store import Due, KitClock, KitStore, drop, due
from interlock.testing.wire import Wire
from interlock.testing.worker import KitDispatch, Messages, Worker
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.engine.card import Card
from interlock.workers.engine.records import component
from interlock.workers.engine.sweeps import orphans, slots, stalls
from interlock.workflow.data import Data
from interlock.workflow.workflow import Workflow

D = TypeVar("D", bound=Data)

OF_THE_STORE = ("INTERLOCK_STORE_URL", "INTERLOCK_PREFIX", "INTERLOCK_NAMESPACE")
SWEEPS = (orphans.SWEEP, stalls.SWEEP, slots.SWEEP)
RUN_MS_MAX = 600_000  # so much time at most passes in `run`, for retries and lost workers
PAUSE_MS = 1_000  # after which a step looks again at what others have reserved
ROUNDS_MAX = 10_000
IDLE_SWEEPS = 3  # so many at one time that lead to no message: what stays due is left alone


class Kit(Generic[D]):
    """A workflow at work. Its calls are about the record that was submitted last.

    `flows` are the workflow and those that it works with; children come with it. Without a `store`
    the kit starts one, for a `with` block. `settings` are variables such as `INTERLOCK_SECRETS`.
    Nothing happens by itself: `run` lets the steps run that are due, and `advance` lets time pass.
    """

    def __init__(
        self,
        flow: Workflow[D],
        *others: Workflow[Any],
        store: KitStore | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        flows, given = with_children((flow, *others)), dict(settings or {})
        if taken := [name for name in OF_THE_STORE if name in given]:
            raise KitError(f"a kit works in its own store: leave {' and '.join(taken)} out")
        read_settings(given)  # what is wrong with them is told before a store is started
        self._own_store = None if store else KitStore().start()
        found, prefix = store or self._own_store, f"kit{uuid4().hex[:12]}"
        assert found is not None
        given |= dict(zip(OF_THE_STORE, (found.url, prefix, prefix), strict=True))
        given |= {"INTERLOCK_ENQUEUE": "plain", "INTERLOCK_AFFINITY": "false"}
        self._settings = read_settings(given)
        self._wire = Wire(prefix)
        self._redis = found.open(self._wire)
        self._clock = KitClock(self._redis, self._wire, Keys(prefix))
        self.id = ""
        self.lines: list[str] = []  # what came of each effect: `pay: after_done -> done`
        self.flow, self._named = flow, (flow, *others)
        self._put_to_work(flows, self._new_dispatch(flows))

    def _new_dispatch(self, flows: Iterable[Workflow[Any]]) -> KitDispatch:
        machines = {each.name: each.machine for each in flows}
        messages = self._new_messages(machines)
        return KitDispatch(self._settings, machines, self._redis, messages)

    def _new_messages(self, machines: Mapping[str, Machine]) -> Messages:
        return Messages(self._settings, machines)

    def _new_steps(self, flows: Iterable[Workflow[Any]]) -> StepsAtWork:
        return StepsAtWork(flows, self._wire, pause=lambda: self._pass(PAUSE_MS))

    def _put_to_work(self, flows: Iterable[Workflow[Any]], dispatch: KitDispatch) -> None:
        self._flows, self._dispatch = {each.name: each for each in flows}, dispatch
        self.client = Client(self._settings, actor="person", machines=dispatch.machines)
        self.client.dispatch = dispatch
        self._steps = self._new_steps(flows)
        self._worker = Worker(dispatch, self._steps.handlers, lambda: self._clock.now_ms)

    def close(self) -> None:
        """Delete all records of the kit."""
        drop(self._redis, self._dispatch.keys.prefix)
        if self._own_store:
            self._own_store.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- what a test does ----------------------------------------------------------------------

    def submit(self, data: Data, *, flow: Workflow[Any] | None = None, id: str = "one") -> Record:  # noqa: A002 - as everywhere
        """Create a record of the workflow, or of another `flow` of the kit."""
        self.client.submit(flow or self.flow, data, id=id)
        self.id = id
        return self.record

    def run(self) -> Record:
        """Let the steps run that are due, until the record waits for a person, a time or a call.

        Time passes only as far as a retry needs, or a lost worker is noticed, and past no timer.
        Inside of a step none passes.
        """
        passed_ms, later = 0, self._run_what_is_due()
        while later.effect is not None and later.effect == later.next != later.timer:
            passed_ms += later.effect - self._clock.now_ms
            if passed_ms > RUN_MS_MAX or self._worker.is_at_work:
                break
            self._clock.set(later.effect)
            later = self._run_what_is_due()
        return self.record

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> Record:
        """Let time pass. What is due meanwhile happens in its order, each at its time.

        Inside of a step it is the step that takes so long: its `timeout` is noticed.
        """
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if passed <= timedelta(0):
            raise KitError("time only goes on: say how much passes, such as advance(days=3)")
        self._pass(passed // timedelta(milliseconds=1))
        return self.record

    def answer(self, choice: str, *, card: Card | None = None, **fields: Any) -> Record:
        """Answer the card of the record as a person, or a `card` that was seen before."""
        seen = card or self.card
        one_of(f"choice of {seen.state}", choice, (each.name for each in seen.affordances))
        return self.client.decide(seen.record_id, choice, fields, proposal=seen.proposal)

    def tell(self, call: str, **fields: Any) -> Record:
        """Call the record from outside, by a call of `on` or what it waits for."""
        return self.client.fire(self.id, call, fields)

    def cancel(self, reason: str = "") -> Record:
        """Cancel the record. A step at work is ordered to stop."""
        self.client.cancel(self.id, reason=reason)
        self._worker.go_on()
        return self.record

    def deploy(self, *newer: Workflow[Any]) -> None:
        """Go on with another version of these workflows, after `interlock apply` with it.

        Raises StrandedError or ApplyRefusedError, and goes on as before, where it would.
        """
        # Few tests need these.
        from interlock.workers.engine.table_check import check_tables  # noqa: PLC0415
        from interlock.workers.ops.apply import apply  # noqa: PLC0415

        if self._worker.is_at_work:
            raise KitError("a step is at work: deploy(...) comes before it or after it")
        named, actor = (*newer, *self._named), self.client.actor
        flows = with_children(named)  # of two with one name the first
        check_tables(self._dispatch, applied_by=actor)
        dispatch = self._new_dispatch(flows)
        apply(dispatch, actor=actor)
        steps, messages, self._named = self._steps, self._dispatch.messages, named
        self._put_to_work(flows, dispatch)
        self.flow = self._flows[self.flow.name]
        self._steps.take_over(steps)
        dispatch.messages.copies = messages.copies
        # A sweep sends those again, by their new names, that only the version before knows.
        dispatch.messages.waiting += filter(self._worker.knows, messages.waiting)

    # --- faults --------------------------------------------------------------------------------

    def crash(self, step: str, *, before: str = "", after: str = "") -> None:
        """Let the worker be lost in the next attempt at a step.

        `before` or `after` is "call", of the function, or "commit", of what it returned.
        """
        if bool(before) == bool(after):
            raise KitError("say one of before= and after=, such as crash('pay', before='commit')")
        one_of("moment", before or after, POINTS)
        self._steps.fail(step, f"before {before}" if before else f"after {after}")

    def lose_reply(self, step: str) -> None:
        """Let the store commit what the next attempt at a step returned, and its reply be lost."""
        self._steps.fail(step, LOST_REPLY)

    def lose_message(self, step: str) -> None:
        """Let the next message that asks for a step be lost."""
        self._dispatch.messages.copies[self._steps.found(step)] = 0

    def double_message(self, step: str) -> None:
        """Let the next message that asks for a step come twice."""
        self._dispatch.messages.copies[self._steps.found(step)] = 2

    @contextmanager
    def replaced(self, **fakes: Callable[..., Any]) -> Iterator[None]:
        """Call other functions in place of steps while the block runs: `replaced(pay=fake_pay)`."""
        before = self._steps.replace(fakes)
        try:
            yield
        finally:
            self._steps.restore(before)

    # --- what a test sees ----------------------------------------------------------------------

    @property
    def record(self) -> Record:
        """The record as it is now."""
        if not self.id:
            raise KitError("no record was submitted: submit(...) comes first")
        return self.client.show(self.id)

    @property
    def state(self) -> str:
        """The state of the record."""
        return self.record.state

    @property
    def data(self) -> D:
        """The data of the record, as the model of its workflow."""
        found: D = self.client.get(self._flows[self.record.machine], self.id)
        return found

    @property
    def card(self) -> Card:
        """The card that the record shows a person. Raises KitError if it shows none."""
        if cards := self.client.cards_of(self.id):
            return cards[0]
        waiting = (
            "" if not self._dispatch.messages.waiting else "; steps are due: run() comes first"
        )
        raise KitError(f"{self.id} is in {self.state} and asks nobody{waiting}{self._last}")

    @property
    def asks(self) -> bool:
        """Whether the record shows a person a card."""
        return bool(self.client.cards_of(self.id))

    @property
    def now(self) -> datetime:
        """The time of the store."""
        return datetime.fromtimestamp(self._clock.now_ms / 1_000, UTC)

    @property
    def history(self) -> list[Event | Note]:
        """The log of the record, the oldest line first."""
        return self.client.history(self.id)

    def calls(self, step: str) -> int:
        """Return how often the function of a step was called for the record."""
        return self._steps.calls(self.record, step)

    def check(self) -> None:
        """Raise KitError if a record of the kit is not what its log says, or is in no index."""
        from interlock.workers.ops.verify import verify_all  # noqa: PLC0415 - few tests need it

        if faults := verify_all(self._dispatch, None)["faults"]:
            raise KitError(f"the store is not consistent: {faults}")

    # --- how it works --------------------------------------------------------------------------

    @property
    def _last(self) -> str:
        return f"; what was done: {'; '.join(self.lines[-5:])}" if self.lines else ""

    def _pass(self, passed_ms: int) -> None:
        until_ms = self._clock.now_ms + passed_ms
        for _ in range(ROUNDS_MAX):
            later = self._run_what_is_due().next
            if later is None or later > until_ms:
                # An attempt that was at work inside of this one may have taken longer.
                self._clock.set(max(until_ms, self._clock.now_ms))
                self._worker.go_on()
                return
            self._clock.set(later)
        raise KitError(f"{ROUNDS_MAX} things were due one after the other{self._last}")

    def _run_what_is_due(self) -> Due:
        """Deliver messages and sweep, as the clock stands; return what is due later."""
        self._worker.go_on()
        messages, idle = self._dispatch.messages.waiting, 0
        for _ in range(ROUNDS_MAX):
            idle = 0 if messages else idle + 1
            while messages:
                message = messages.popleft()
                line = self._worker.perform(message)
                self._wire.forget()
                self._steps.raise_failure()
                self.lines.append(f"{message.name}: {line}")
            found = self._due()
            if not found.now or idle > IDLE_SWEEPS:
                return found
            for sweep in SWEEPS:
                records = component(self._dispatch, sweep.name)
                for partition in sweep.due(records):
                    sweep.run(records, partition)
        raise KitError(f"it does not come to rest{self._last}")

    def _due(self) -> Due:
        over = self._worker.next_ms
        return due(self._redis, self._dispatch.keys, self._clock.now_ms, over)
