"""One sentinel at its post: it hears events, and is called for them one call after the other.

It lives in one event loop, keeps the sentinel's state, and never asks what the codon does next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from interlock.kernel.machines.runs.values import SentinelState, UnloadReason
from interlock.workers.runs.sentinels.backlog import Backlog
from interlock.workers.runs.sentinels.call import Call, FatalSentinelError, SentinelCallError
from interlock.workers.runs.sentinels.journal import Journal, Remark
from interlock.workers.runs.sentinels.specification import SentinelSpecification
from interlock.workers.runs.sentinels.strategy import Batch, Heap
from interlock.workers.runs.sentinels.trigger import Event
from interlock.workers.specs.json_line import COUNT_MAX

FAILURES_MAX = 3

Clock: TypeAlias = Callable[[], int]


class Watch:
    """A loaded sentinel. `now_ms` is a clock that never goes back, `clock_ms` tells the epoch's."""

    def __init__(
        self,
        specification: SentinelSpecification,
        call: Call,
        *,
        clock_ms: Clock,
        now_ms: Callable[[], float],
        journal: Journal,
    ) -> None:
        self.state = SentinelState(
            id=specification.id, model=specification.doer, loaded_at=clock_ms()
        )
        self.backlog = Backlog()
        self._trigger, self._strategy = specification.trigger, specification.strategy
        self._call, self._journal = call, journal
        self._clock_ms, self._now_ms = clock_ms, now_ms
        self._seen: tuple[Event, ...] = ()
        self._heap = Heap(now_ms())
        self._woken = asyncio.Event()
        self._finishing = False
        self._failures = 0

    @property
    def is_active(self) -> bool:
        """Whether it observes."""
        return self.state.status == "active"

    def hear(self, event: Event) -> None:
        """Take an event; one who is unloaded or finishing takes none."""
        if self._finishing or not self.is_active:
            return
        self._seen, match = self._trigger.advance(self._seen, event)
        if match:
            self._set(total_triggers=self.state.total_triggers + 1)
            self._heap, batches = self._strategy.gather(self._heap, match, self._now_ms())
            self._wait_in_line(batches)
            # Even where no call is due yet: the time at which one is may have moved.
            self._woken.set()

    def finish(self) -> None:
        """Hand over all that has accumulated, take nothing more, and end when no call waits."""
        if self._heap.events:
            self.backlog.add(self._heap.events)
            self._heap = self._heap.emptied()
        self._finishing = True
        self._woken.set()

    def unload(self, reason: UnloadReason) -> None:
        """Observe no more. The first reason stays."""
        if not self.is_active:
            return
        self.finish()
        self.backlog.give_up()
        self._set(status="unloaded", unload_reason=reason, unloaded_at=self._clock_ms())
        if lost := self.backlog.left_out:
            self._remark("", f"{lost} events were never shown to it ({reason})")

    async def run(self) -> None:
        """Make the calls, until the sentinel is unloaded or has finished."""
        while self.is_active:
            if (batch := self.backlog.take()) is not None:
                await self._make_call(batch)
            elif self._finishing:
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        self._woken.clear()
        due_ms = self._strategy.due_ms(self._heap)
        delay_s = None if due_ms is None else max(0.0, due_ms - self._now_ms()) / 1_000
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._woken.wait()
        self._heap, batches = self._strategy.lapse(self._heap, self._now_ms())
        self._wait_in_line(batches)

    async def _make_call(self, batch: Batch) -> None:
        self._set(llm_call_count=self.state.llm_call_count + 1, last_llm_call_at=self._clock_ms())
        try:
            said = await self._call(batch, self._book)
        except asyncio.CancelledError:
            self._fail(SentinelCallError("it was stopped before its call had ended"))
            raise
        except FatalSentinelError as error:
            self._fail(error)
            self.unload(UnloadReason.FATAL_ERROR)
        except SentinelCallError as error:
            self._fail(error)
            if self._failures >= FAILURES_MAX:
                self.unload(UnloadReason.CONSECUTIVE_FAILURES)
        else:
            self._failures = 0
            if said:
                self._remark(said, "")

    def _wait_in_line(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.backlog.add(batch)

    def _book(self, cost_micro: int) -> None:
        if cost_micro:
            # No record takes a number beyond this, whatever a command claims to have spent.
            self._set(total_cost=min(self.state.total_cost + cost_micro, COUNT_MAX))

    def _fail(self, error: SentinelCallError) -> None:
        self._failures += 1
        self._set(failed_llm_calls=self.state.failed_llm_calls + 1)
        self._remark(error.said, str(error))

    def _remark(self, said: str, problem: str) -> None:
        self._journal.remark(Remark(self.state.id, self._clock_ms(), said, problem))

    def _set(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
        self._journal.change()
