"""Runs the asynchronous handlers of this process in one event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import Any

from interlock.kernel.blame import place_of_thread
from interlock.workers.engine.work import EffectWork, Outcome

log = logging.getLogger(__name__)

ANSWER_S = 2.0  # how long the loop may be held up before it is replaced
Action = Coroutine[Any, Any, Outcome | None]


class EventLoop:
    """The loop of the asynchronous handlers; another one, if a handler holds it up for good."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin  # called first in the thread of the loop
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: set[_Run] = set()

    def run(self, work: EffectWork, action: Action) -> Outcome | None:
        """Run the action of a handler, and cancel it if its work is ordered to stop."""
        while True:
            with self._lock:  # so that no loop is replaced before what it runs is known
                run = _Run(work, action, self.started(), self._thread)
                self._running.add(run)
            work.limit.detach = partial(self._detach, run)
            work.limit.place_of = run.place
            try:
                result = run.future.result()
            except CancelledError:
                if not run.moves:
                    raise
            else:
                if isinstance(result, SystemExit):
                    raise result
                return result
            finally:
                with self._lock:
                    self._running.discard(run)

    def started(self) -> asyncio.AbstractEventLoop:
        """Return the loop that runs."""
        # Made at its first use: after the fork, and only if a handler is asynchronous.
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.call_soon(self._begin)
                self._loop.set_default_executor(ThreadPoolExecutor(64, "effects"))
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="effects", daemon=True
                )
                self._thread.start()
            return self._loop

    def _detach(self, run: _Run) -> bool:
        """Give the thread back that waits for an action; replace a loop that is held up first."""
        turned = threading.Event()
        run.loop.call_soon_threadsafe(turned.set)
        if not turned.wait(ANSWER_S):
            self._replace(run.loop)
        run.future.cancel()
        return True

    def _replace(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._loop is not loop:
                return
            assert self._thread is not None
            place = place_of_thread(self._thread.ident or 0)
            self._loop = None
            left = [run for run in self._running if run.loop is loop]
        log.error(
            "an async handler holds up all others of this worker, at %s: it calls what does not"
            " await; the others run in another event loop",
            place,
        )
        for run in left:
            run.leave()


class _Run:
    """An action in a loop. If that is held up by another one, the action does not wait for it."""

    def __init__(
        self,
        work: EffectWork,
        action: Action,
        loop: asyncio.AbstractEventLoop,
        thread: threading.Thread | None,
    ) -> None:
        self.work, self.action, self.loop, self.thread = work, action, loop, thread
        self.moves = False  # it has not begun, and does so in another loop
        self._task: asyncio.Task[Outcome | SystemExit | None] | None = None
        self._lock = threading.Lock()
        self.future = asyncio.run_coroutine_threadsafe(self._performed(), loop)

    def place(self) -> str:
        """Return where the handler is at work, or '' if it awaits something."""
        holds_up = self._task is not None and asyncio.current_task(self.loop) is self._task
        return place_of_thread(self.thread.ident or 0) if holds_up and self.thread else ""

    def leave(self) -> None:
        """Leave a loop that is held up: begin in another one, or give the effect back.

        What may not be given back, and what holds up the loop, stays until its own limit.
        """
        with self._lock:
            self.moves = self._task is None
        if self.moves:
            self.future.cancel()
        elif asyncio.current_task(self.loop) is not self._task and self.work.restartable:
            self.work.give_back()
            self.future.cancel()

    async def _performed(self) -> Outcome | SystemExit | None:
        with self._lock:
            if self.moves:
                return None
            self._task = asyncio.ensure_future(_returned(self.action))
        task = self._task

        def cancel_if_stopped() -> None:
            if self.work.stopped.is_set() or self.work.giving_back.is_set():
                self.loop.call_soon_threadsafe(task.cancel)

        self.work.call_on_order(cancel_if_stopped)
        return await task


async def _returned(action: Action) -> Outcome | SystemExit | None:
    """Return the outcome of an action, or its exit: raised, that would end the loop of all."""
    try:
        return await action
    except SystemExit as end:
        return end
