"""Runs one sentinel: collects matching events, calls it serially, and unloads it if it fails.

It belongs to one event loop, and keeps the sentinel's state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.machines.values import SentinelState, UnloadReason
from interlock.systems.runs.sentinels.call import (
    FatalSentinelError,
    SentinelCall,
    SentinelCallError,
)
from interlock.systems.runs.sentinels.call_timing import Backlog, Batch, PendingEvents
from interlock.systems.runs.sentinels.journal import Journal, Remark
from interlock.systems.runs.sentinels.specification import SentinelSpecification
from interlock.systems.runs.sentinels.trigger import SentinelEvent

FAILURES_MAX = 3

Clock: TypeAlias = Callable[[], int]


class SentinelRunner:
    """A loaded sentinel. `clock_ms` reads the time of day, `now_ms` a monotonic clock."""

    def __init__(
        self,
        specification: SentinelSpecification,
        call: SentinelCall,
        *,
        clock_ms: Clock,
        now_ms: Callable[[], float],
        journal: Journal,
    ) -> None:
        self.state = SentinelState(
            id=specification.id, model=specification.display_name, loaded_at=clock_ms()
        )
        self.backlog = Backlog()
        self._trigger, self._strategy = specification.trigger, specification.strategy
        self._call, self._journal = call, journal
        self._clock_ms, self._now_ms = clock_ms, now_ms
        self._partial_match: tuple[SentinelEvent, ...] = ()
        self._pending = PendingEvents(now_ms())
        self._wake = asyncio.Event()
        self._finishing = False
        self._failures_in_a_row = 0

    @property
    def is_active(self) -> bool:
        """Whether the sentinel is loaded."""
        return self.state.status == "active"

    def receive(self, event: SentinelEvent) -> None:
        """Take an event, unless the sentinel is unloaded or finishing."""
        if self._finishing or not self.is_active:
            return
        self._partial_match, match = self._trigger.advance(self._partial_match, event)
        if match:
            self._set(total_triggers=self.state.total_triggers + 1)
            self._pending, batches = self._strategy.add(self._pending, match, self._now_ms())
            self._queue(batches)
            # Wake even where no call is due yet, because the time of the next one may have moved.
            self._wake.set()

    def finish(self) -> None:
        """Queue the pending events, take no more, and let `run` end once no call waits."""
        if self._pending.events:
            self.backlog.add(self._pending.events)
            self._pending = self._pending.emptied()
        self._finishing = True
        self._wake.set()

    def unload(self, reason: UnloadReason) -> None:
        """Unload the sentinel. The first reason is kept."""
        if not self.is_active:
            return
        self.finish()
        self.backlog.drop_all()
        self._set(status="unloaded", unload_reason=reason, unloaded_at=self._clock_ms())
        if lost := self.backlog.left_out:
            self._remark("", f"{lost} events were not passed to it ({reason})")

    async def run(self) -> None:
        """Make the calls until the sentinel is unloaded or has finished."""
        while self.is_active:
            if (batch := self.backlog.take()) is not None:
                await self._make_call(batch)
            elif self._finishing:
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        self._wake.clear()
        due_ms = self._strategy.due_ms(self._pending)
        delay_s = None if due_ms is None else max(0.0, due_ms - self._now_ms()) / 1_000
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        self._pending, batches = self._strategy.take_due(self._pending, self._now_ms())
        self._queue(batches)

    async def _make_call(self, batch: Batch) -> None:
        self._set(llm_call_count=self.state.llm_call_count + 1, last_llm_call_at=self._clock_ms())
        try:
            text = await self._call(batch, self._book)
        except asyncio.CancelledError:
            self._fail(SentinelCallError("it was stopped before its call had ended"))
            raise
        except FatalSentinelError as error:
            self._fail(error)
            self.unload(UnloadReason.FATAL_ERROR)
        except SentinelCallError as error:
            self._fail(error)
            if self._failures_in_a_row >= FAILURES_MAX:
                self.unload(UnloadReason.CONSECUTIVE_FAILURES)
        else:
            self._failures_in_a_row = 0
            if text:
                self._remark(text, "")

    def _queue(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.backlog.add(batch)

    def _book(self, cost_micro: int) -> None:
        if cost_micro:
            # No record can store a larger number, whatever a command claims to have spent.
            self._set(total_cost=min(self.state.total_cost + cost_micro, MICRO_MAX))

    def _fail(self, error: SentinelCallError) -> None:
        self._failures_in_a_row += 1
        self._set(failed_llm_calls=self.state.failed_llm_calls + 1)
        self._remark(error.output, str(error))

    def _remark(self, text: str, problem: str) -> None:
        self._journal.remark(Remark(self.state.id, self._clock_ms(), text, problem))

    def _set(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
        self._journal.change()
