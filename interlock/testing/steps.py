"""The functions of a workflow as a kit calls them: counted, replaced, lost if a test says so."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from interlock.kernel.record import Record
from interlock.testing.said import KitError, one_of
from interlock.testing.wire import CrashedError, Moment, Wire
from interlock.workers.engine.builtin import BUILTIN
from interlock.workers.engine.system import Definition, load
from interlock.workers.engine.work import EffectWork, Handler, Outcome
from interlock.workflow.decorators import DONE, ending_as, finished, is_async
from interlock.workflow.names import after_end, families_of
from interlock.workflow.parts import Cleanup, StepPart
from interlock.workflow.steps import cleanup_of, handler_of
from interlock.workflow.workflow import Workflow

POINTS = ("call", "commit")  # before and after which a worker may be lost
LOST_REPLY = "lost reply"
AT_COMMIT: dict[str, Moment] = {
    "before commit": "before",
    "after commit": "after",
    LOST_REPLY: "reply",
}


class StepsAtWork:
    """The steps of workflows. Each attempt asks here which function it calls, and whether it dies.

    A step is known by `machine.step`. `called` counts the calls of functions, by record and step.
    """

    def __init__(
        self, flows: Iterable[Workflow[Any]], wire: Wire, pause: Callable[[], None]
    ) -> None:
        self._wire = wire
        self._pause = pause  # called where a step waits for what others have reserved
        self._names: dict[str, str] = {}  # of steps, by `machine.step`
        self._fakes: dict[str, Callable[..., Any]] = {}
        self._faults: dict[str, list[str]] = {}
        self.called: Counter[tuple[str, str]] = Counter()
        self.failure: BaseException | None = None  # of the test, within a step
        self.handlers: dict[str, Handler] = {}
        for flow in flows:
            self._add(flow)

    def found(self, step: str) -> str:
        """Return the `machine.step` that a test means by that, or by the step's name alone.

        Raises KitError, with the steps that there are, for a name of none or of several.
        """
        if step in self._names:
            return step
        one_of("step", step, sorted(set(self._names.values())))
        found = [full for full, name in self._names.items() if name == step]
        if len(found) > 1:
            raise KitError(f"several workflows have a step {step!r}: say {' or '.join(found)}")
        return found[0]

    def calls(self, record: Record, step: str) -> int:
        """Return how often the function of a step of its workflow was called for a record."""
        own = [name for full, name in self._names.items() if full == f"{record.machine}.{name}"]
        one_of(f"step of {record.machine}", step, sorted(own))
        return self.called[record.id, f"{record.machine}.{step}"]

    def raise_failure(self) -> None:
        """Raise what a fake has asserted in vain, or what is to end the test."""
        if failure := self.failure:
            self.failure = None
            raise failure

    def take_over(self, earlier: StepsAtWork) -> None:
        """Go on with the fakes, faults and counts of an earlier version of the workflows."""
        self._fakes, self._faults, self.called = earlier._fakes, earlier._faults, earlier.called

    def fail(self, step: str, moment: str) -> None:
        """Let the next attempt at a step fail; one after the other if this is asked twice."""
        self._faults.setdefault(self.found(step), []).append(moment)

    def replace(self, fakes: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Call these functions in place of the steps' own; return those that were there before."""
        named = {self.found(step): fake for step, fake in fakes.items()}
        for step, fake in fakes.items():
            if not (callable(fake) and taken_by(fake)):
                may = "give a function of the data, or of the data and the work"
                raise KitError(f"{step} cannot be replaced by {fake!r}: {may}")
        before, self._fakes = self._fakes, {**self._fakes, **named}
        return before

    def restore(self, fakes: dict[str, Callable[..., Any]]) -> None:
        """Call these functions in place of the steps' own, and no others."""
        self._fakes = fakes

    def _add(self, flow: Workflow[Any]) -> None:
        own = {**flow.handlers}
        for name, part in flow.declared.states.items():
            if isinstance(part, StepPart):
                self._names[f"{flow.name}.{name}"] = name
                own[name] = self._handler(part, flow)
        for end, cleanup in flow.declared.cleanups.items():
            name = after_end(end)
            self._names[f"{flow.name}.{name}"] = name
            own[name] = self._cleanup(cleanup, flow)
        common: dict[str, Handler] = load(f"{BUILTIN.effects}:HANDLERS")
        for effect in flow.machine.effects:
            self.handlers[f"{flow.name}.{effect}"] = own.get(effect) or common[effect]

    def moment(self, part: StepPart, flow: Workflow[Any], work: EffectWork) -> str:
        """Return when the worker is lost in an attempt that begins, '' if it is not."""
        del work
        return self._next_fault(f"{flow.name}.{part.name}")

    def _next_fault(self, step: str) -> str:
        faults = self._faults.get(step, [])
        return faults.pop(0) if faults else ""

    def _handler(self, part: StepPart, flow: Workflow[Any]) -> Handler:
        def run(work: EffectWork) -> Outcome | None:
            moment, function = self.moment(part, flow, work), self.function(part, flow)
            called = self._called(function, work.record.id, f"{flow.name}.{part.name}")
            counted = replace(part, function=called, takes_work=True)
            return self._perform(handler_of(counted, flow.declared), work, moment)

        return run

    def _cleanup(self, part: Cleanup, flow: Workflow[Any]) -> Handler:
        step = f"{flow.name}.{after_end(part.end)}"

        def run(work: EffectWork) -> Outcome | None:
            fake = self._fakes.get(step)
            function = taking(fake or part.function, taken_by(fake or part.function))
            called = self._called(function, work.record.id, step)
            counted = replace(part, function=called, takes_work=True)
            return self._perform(cleanup_of(counted, flow.declared), work, self._next_fault(step))

        return run

    def _perform(self, handler: Any, work: EffectWork, moment: str) -> Outcome | None:
        if moment == "before call":
            raise CrashedError
        work.pause = lambda _: self._pause()
        ended = handler(work)
        outcome: Outcome | None = awaited(work, ended) if inspect.iscoroutine(ended) else ended
        if moment == "after call":
            raise CrashedError
        if moment:
            self._wire.fail_at_commit(AT_COMMIT[moment])
        return outcome

    def function(self, part: StepPart, flow: Workflow[Any]) -> Callable[..., Any]:
        """Return what is called: the step's own function or a fake, given the data and the work."""
        fake = self._fakes.get(f"{flow.name}.{part.name}")
        function = fake or part.function
        if fake and flow.declared.above:
            function = ending_as(DONE, fake)
        return taking(function, taken_by(fake) if fake else 1 + part.takes_work)

    def _called(
        self, function: Callable[..., Any], record_id: str, step: str
    ) -> Callable[..., Any]:
        """Return a function whose calls are counted; what a fake asserts ends the test."""
        if is_async(function):

            @wraps(function)
            async def run_async(*arguments: Any) -> Any:
                with self._calling(record_id, step):
                    return await function(*arguments)

            return run_async

        @wraps(function)
        def run(*arguments: Any) -> Any:
            with self._calling(record_id, step):
                return function(*arguments)

        return run

    @contextmanager
    def _calling(self, record_id: str, step: str) -> Iterator[None]:
        self.called[record_id, step] += 1
        try:
            yield
        except BaseException as error:
            asserted = isinstance(error, AssertionError) and step in self._fakes
            if not (asserted or isinstance(error, endings())):
                raise
            self.failure = error
            raise CrashedError from error


def taking(function: Callable[..., Any], taken: int) -> Callable[..., Any]:
    """Return a function of the data and the work, of which another one takes so many."""
    if is_async(function):

        @wraps(function)
        async def run_async(*arguments: Any) -> Any:
            return await finished(function, *arguments[:taken])

        return run_async

    @wraps(function)
    def run(*arguments: Any) -> Any:
        return function(*arguments[:taken])

    return run


def taken_by(fake: Callable[..., Any]) -> int:
    """Return 1 if a function may be called with the data, 2 if it needs the work too, else 0."""
    try:
        signature = inspect.signature(fake)
    except (TypeError, ValueError):  # of what is built in, or an AsyncMock
        return 1
    for number in (1, 2):
        with suppress(TypeError):
            signature.bind(*("data", "work")[:number])
            return number
    return 0


def endings() -> tuple[type[BaseException], ...]:
    """Return what pytest ends a test with: with anything else, a step fails."""
    pytest: Any = sys.modules.get("pytest")
    return (pytest.fail.Exception, pytest.skip.Exception) if pytest else ()


def awaited(work: EffectWork, action: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Return what an async handler returns, and cancel it if its work is ordered to stop."""

    async def run() -> Outcome:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(action)

        def cancel_if_stopped() -> None:
            if work.stopped.is_set():
                loop.call_soon_threadsafe(task.cancel)

        work.call_on_order(cancel_if_stopped)
        return await task

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    with ThreadPoolExecutor(1) as thread:  # the test is inside of another async step
        return thread.submit(asyncio.run, run()).result()


def with_children(flows: Iterable[Definition[Any]]) -> list[Workflow[Any]]:
    """Return workflows and those of their children, the first of each name. Raises KitError."""
    found: dict[str, Workflow[Any]] = {}
    pending = list(flows)
    for flow in pending:
        if not isinstance(flow, Workflow):
            raise KitError(f"a kit takes a Workflow, and not {flow!r}")
        if flow.name not in found:
            found[flow.name] = flow
            pending += [family.child for family in families_of(flow.declared).values()]
    return list(found.values())
