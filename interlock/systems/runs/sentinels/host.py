"""Runs all sentinels of one codon in a thread of their own, so that the codon never waits.

They share one event loop. Each has a `SentinelRunner`, which calls it serially and unloads it when
it fails; the host loads all of them, passes events on, and unloads all at the codon's end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from interlock.system.agents import Command
from interlock.systems.runs.machines.values import SentinelState, UnloadReason
from interlock.systems.runs.sentinels.call import (
    CommandCall,
    FatalSentinelError,
    ModelAccess,
    ModelCall,
    SentinelCall,
    instructions,
)
from interlock.systems.runs.sentinels.journal import Journal, Remark
from interlock.systems.runs.sentinels.runner import Clock, SentinelRunner
from interlock.systems.runs.sentinels.specification import SentinelSpecification
from interlock.systems.runs.sentinels.trigger import SentinelEvent


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A sentinel that could not be loaded, and its problem in one sentence."""

    sentinel: str
    problem: str
    required: bool


class SentinelHost:
    """The sentinels of one codon. As a context manager it shuts them down at its exit.

    `load` is called first, by the thread that calls `drain`; all other methods are thread-safe.
    """

    def __init__(
        self,
        specifications: Iterable[SentinelSpecification],
        *,
        codon: str,
        command: Command,
        models: ModelAccess | None,
        clock_ms: Clock,
    ) -> None:
        self._specifications = tuple(specifications)
        self._codon, self._command = codon, command
        self._models, self._clock_ms = models, clock_ms
        self._journal = Journal()
        self._runners: dict[str, SentinelRunner] = {}
        self._refused: dict[str, SentinelState] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._reason = UnloadReason.CODON_COMPLETE
        self._all_finished = True

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
        """Check every sentinel and start to observe; return those that could not be loaded."""
        assert self._thread is None, "sentinels are loaded once"
        failures = []
        for specification in self._specifications:
            try:
                call = self._call(specification)
            except FatalSentinelError as error:
                failures.append(LoadFailure(specification.id, str(error), specification.required))
                self._refused[specification.id] = self._refused_state(specification)
            else:
                self._runners[specification.id] = SentinelRunner(
                    specification,
                    call,
                    clock_ms=self._clock_ms,
                    now_ms=_now_ms,
                    journal=self._journal,
                )
        if self._specifications:
            self._journal.change()
        if self._runners:
            self._all_finished = False
            self._thread = threading.Thread(target=self._run, name="sentinels", daemon=True)
            self._thread.start()
            self._ready.wait()
        return failures

    def notify(self, event: SentinelEvent) -> None:
        """Pass an event to every sentinel; return at once."""
        self._post(self._receive, event)

    def drain(self, limit_s: float) -> bool:
        """Let the sentinels finish, and unload them; return whether all finished within the limit.

        Later events are ignored. Calls that still run at the limit are killed.
        """
        self._post(self._finish)
        if self._thread is not None:
            self._thread.join(limit_s)
            self._post(self._cancel)
            self._thread.join()
        return self._all_finished

    def shutdown(self) -> None:
        """Kill the calls that run, and unload all sentinels; after a drain it changes nothing."""
        self._reason = UnloadReason.SHUTDOWN
        self._post(self._cancel)
        if self._thread is not None:
            self._thread.join()

    def states(self) -> list[dict[str, Any]]:
        """Return the states of all sentinels, also of unloaded ones, as a record stores them."""
        return [state.model_dump(mode="json", exclude_none=True) for state in self._states()]

    def take_changes(self) -> list[dict[str, Any]] | None:
        """Return the states if one of them changed since the last call."""
        return self.states() if self._journal.take_change() else None

    def take_remarks(self) -> list[Remark]:
        """Return the remarks since the last call; of more than 1,000 the newest are kept."""
        return self._journal.take_remarks()

    @property
    def merged(self) -> dict[str, int]:
        """How many events of each sentinel were merged into a later call, as too many waited."""
        return {name: runner.backlog.merged for name, runner in self._runners.items()}

    @property
    def left_out(self) -> dict[str, int]:
        """How many events triggered each sentinel but were not passed to it."""
        return {name: runner.backlog.left_out for name, runner in self._runners.items()}

    def _states(self) -> list[SentinelState]:
        loaded = {name: runner.state for name, runner in self._runners.items()}
        states = {**self._refused, **loaded}
        return [states[each.id] for each in self._specifications if each.id in states]

    def _call(self, specification: SentinelSpecification) -> SentinelCall:
        if specification.command is not None:
            shell = ("/usr/bin/env", "bash", "-c", specification.command)
            command = CommandCall(
                specification.id,
                self._codon,
                replace(self._command, arguments=shell),
                specification.timeout_s,
            )
            command.check()
            return command
        model, prompt = specification.model, specification.prompt
        assert model is not None, "a specification has a command or a model"
        assert prompt is not None, "a model has a prompt"
        filled_in = instructions(prompt, sentinel=specification.id, codon=self._codon)
        if self._models is None:
            raise FatalSentinelError(
                f"it needs the model {model}, but no models are available here"
            )
        self._models.open(model)
        return ModelCall(self._models, model, filled_in, specification.timeout_s)

    def _refused_state(self, specification: SentinelSpecification) -> SentinelState:
        at_ms = self._clock_ms()
        return SentinelState(
            id=specification.id,
            model=specification.display_name,
            loaded_at=at_ms,
            unloaded_at=at_ms,
            status="unloaded",
            unload_reason=UnloadReason.FATAL_ERROR,
        )

    def _post(self, action: Callable[..., None], *arguments: object) -> None:
        if self._loop is None:
            return
        # RuntimeError: the loop is closed, as the last sentinel is unloaded and takes no events.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action, *arguments)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(runner.run()) for runner in self._runners.values()]
        self._ready.set()
        await asyncio.wait(self._tasks)
        for runner in self._runners.values():
            runner.unload(self._reason)
        if self._models is not None:
            await self._models.close()
        cancelled = [task for task in self._tasks if task.cancelled()]
        for task in self._tasks:
            if task not in cancelled:
                # A defect in a runner raises here, after all the others have finished.
                task.result()
        self._all_finished = not cancelled

    def _receive(self, event: SentinelEvent) -> None:
        for runner in self._runners.values():
            runner.receive(event)

    def _finish(self) -> None:
        for runner in self._runners.values():
            runner.finish()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


def _now_ms() -> float:
    return time.monotonic() * 1_000
