"""Runs the asynchronous handlers of this process in one event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
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
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: EffectWork, action: Action) -> Outcome | None:
        """Run the action of a handler, and cancel it if its work is ordered to stop."""
        loop = self.started()
        future = asyncio.run_coroutine_threadsafe(_cancellable(work, action), loop)
        work.limit.detach = partial(self._detach, loop, future)
        result = future.result()
        if isinstance(result, SystemExit):
            raise result
        return result

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

    def _detach(self, loop: asyncio.AbstractEventLoop, future: Future[Any]) -> bool:
        """Give the thread back that waits for an action; replace a loop that is held up first."""
        turned = threading.Event()
        loop.call_soon_threadsafe(turned.set)
        if not turned.wait(ANSWER_S):
            self._replace(loop)
        future.cancel()
        return True

    def _replace(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._loop is not loop:
                return
            assert self._thread is not None
            place = place_of_thread(self._thread.ident or 0)
            self._loop = None
        log.error(
            "an async handler holds up all others of this worker, at %s: it calls what does not"
            " await; later ones run in another event loop",
            place,
        )


async def _returned(action: Action) -> Outcome | SystemExit | None:
    """Return the outcome of an action, or its exit: raised, that would end the loop of all."""
    try:
        return await action
    except SystemExit as end:
        return end


async def _cancellable(work: EffectWork, action: Action) -> Outcome | SystemExit | None:
    task = asyncio.ensure_future(_returned(action))
    loop = asyncio.get_running_loop()

    def cancel_if_stopped() -> None:
        if work.stopped.is_set() or work.giving_back.is_set():
            loop.call_soon_threadsafe(task.cancel)

    work.call_on_order(cancel_if_stopped)
    return await task
