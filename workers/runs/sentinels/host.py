"""Hosts the sentinels of one codon in a thread of their own; it never makes the codon wait.

All of them share one event loop: each is called serially, and all at the same time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interlock.kernel.machines.runs.values import SentinelState, UnloadReason
from interlock.workers.runs.sentinels.call import (
    Asks,
    Call,
    CommandCall,
    FatalSentinelError,
    ModelCall,
    instructions,
)
from interlock.workers.runs.sentinels.journal import Journal, Remark
from interlock.workers.runs.sentinels.runner import Clock, Watch
from interlock.workers.runs.sentinels.specification import SentinelSpecification
from interlock.workers.runs.sentinels.trigger import Event


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A sentinel that could not be loaded, and why in one sentence."""

    sentinel: str
    problem: str
    required: bool


class SentinelHost:
    """The sentinels of one codon. Left as a context, it shuts down whom nobody drained.

    `load` comes first, from the thread that drains; all else is safe from any thread.
    """

    def __init__(
        self,
        specifications: Iterable[SentinelSpecification],
        *,
        codon: str,
        folder: Path,
        environment: Mapping[str, str],
        asks: Asks | None,
        clock_ms: Clock,
    ) -> None:
        self._specifications = tuple(specifications)
        self._codon, self._folder, self._environment = codon, folder, dict(environment)
        self._asks, self._clock_ms = asks, clock_ms
        self._journal = Journal()
        self._watches: dict[str, Watch] = {}
        self._refused: dict[str, SentinelState] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._reason = UnloadReason.CODON_COMPLETE
        self._whole = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    def load(self) -> list[LoadFailure]:
        """Check every sentinel and begin to observe; return those that cannot."""
        assert self._thread is None, "sentinels are loaded once"
        failures = []
        for one in self._specifications:
            try:
                call = self._call(one)
            except FatalSentinelError as error:
                failures.append(LoadFailure(one.id, str(error), one.required))
                self._refused[one.id] = self._refusal(one)
            else:
                self._watches[one.id] = Watch(
                    one, call, clock_ms=self._clock_ms, now_ms=_now_ms, journal=self._journal
                )
        if self._specifications:
            self._journal.change()
        if self._watches:
            self._whole = False
            self._thread = threading.Thread(target=self._run, name="sentinels", daemon=True)
            self._thread.start()
            self._ready.wait()
        return failures

    def tell(self, event: Event) -> None:
        """Let every sentinel hear an event; return at once."""
        self._post(self._hear, event)

    def drain(self, limit_s: float) -> bool:
        """Let the sentinels finish, and unload them; tell whether all did within the limit.

        What is told from now on is not heard. Calls that still run then are killed.
        """
        self._post(self._finish)
        if self._thread is not None:
            self._thread.join(limit_s)
            self._post(self._cut)
            self._thread.join()
        return self._whole

    def shutdown(self) -> None:
        """Kill what runs and unload everybody; after a drain there is nothing left to do."""
        self._reason = UnloadReason.SHUTDOWN
        self._post(self._cut)
        if self._thread is not None:
            self._thread.join()

    def states(self) -> list[dict[str, Any]]:
        """Return every sentinel's state as its codon keeps it, the unloaded ones too."""
        return [state.model_dump(mode="json", exclude_none=True) for state in self._states()]

    def take_changes(self) -> list[dict[str, Any]] | None:
        """Return the states if anything changed since this was asked last."""
        return self.states() if self._journal.take_change() else None

    def take_remarks(self) -> list[Remark]:
        """Return what sentinels said since this was asked last; the last 1,000 are kept."""
        return self._journal.take_remarks()

    @property
    def total_cost_micro(self) -> int:
        """What all sentinels have cost so far, the unloaded ones too."""
        return sum(state.total_cost for state in self._states())

    @property
    def merged(self) -> dict[str, int]:
        """How many events of each sentinel joined a later call because too many calls waited."""
        return {name: watch.backlog.merged for name, watch in self._watches.items()}

    @property
    def left_out(self) -> dict[str, int]:
        """How many events triggered each sentinel and were never shown to it."""
        return {name: watch.backlog.left_out for name, watch in self._watches.items()}

    def _states(self) -> list[SentinelState]:
        loaded = {name: watch.state for name, watch in self._watches.items()}
        states = {**self._refused, **loaded}
        return [states[one.id] for one in self._specifications if one.id in states]

    def _call(self, one: SentinelSpecification) -> Call:
        if one.command is not None:
            command = CommandCall(
                one.id, self._codon, one.command, self._folder, self._environment, one.timeout_s
            )
            command.check()
            return command
        assert one.model is not None, "a specification has a command or a model"
        assert one.prompt is not None, "a model has a prompt"
        told = instructions(one.prompt, sentinel=one.id, codon=self._codon)
        if self._asks is None:
            raise FatalSentinelError(f"no model can be asked here, and it needs {one.model}")
        self._asks.open(one.model)
        return ModelCall(self._asks, one.model, told, one.timeout_s)

    def _refusal(self, one: SentinelSpecification) -> SentinelState:
        at_ms = self._clock_ms()
        return SentinelState(
            id=one.id,
            model=one.doer,
            loaded_at=at_ms,
            unloaded_at=at_ms,
            status="unloaded",
            unload_reason=UnloadReason.FATAL_ERROR,
        )

    def _post(self, action: Callable[..., None], *given: object) -> None:
        if self._loop is None:
            return
        # The loop closes when the last sentinel is unloaded: then nobody is left to hear.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action, *given)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(watch.run()) for watch in self._watches.values()]
        self._ready.set()
        await asyncio.wait(self._tasks)
        for watch in self._watches.values():
            watch.unload(self._reason)
        if self._asks is not None:
            await self._asks.close()
        cut = [task for task in self._tasks if task.cancelled()]
        for task in self._tasks:
            if task not in cut:
                # A defect of ours ends the thread loudly, after all the others have finished.
                task.result()
        self._whole = not cut

    def _hear(self, event: Event) -> None:
        for watch in self._watches.values():
            watch.hear(event)

    def _finish(self) -> None:
        for watch in self._watches.values():
            watch.finish()

    def _cut(self) -> None:
        for task in self._tasks:
            task.cancel()


def _now_ms() -> float:
    return time.monotonic() * 1_000
