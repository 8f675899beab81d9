"""A kit whose attempts and messages go as a walk decides: each asks the walk what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial, wraps
from typing import Any

from interlock.kernel.machine import Machine
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.leases import Shortage
from interlock.testing.kit import PAUSE_MS, Kit
from interlock.testing.outside import OUTSIDE
from interlock.testing.stand_ins import Standing, standings_of, values_of
from interlock.testing.steps import LOST_REPLY, StepsAtWork
from interlock.testing.store import KitStore
from interlock.testing.wire import CrashedError, Moment, Wire
from interlock.testing.worker import Messages
from interlock.workers.config import Settings
from interlock.workers.engine.work import EffectWork, Handler, Outcome, OverBudgetError
from interlock.workflow.decorators import is_async
from interlock.workflow.names import after_end
from interlock.workflow.parts import StepPart
from interlock.workflow.steps import cleanup_of
from interlock.workflow.work import Work
from interlock.workflow.workflow import Workflow

# What an attempt does that reaches no outcome: it raises once, or always, or within `work.once`.
RAISE, FAIL, RAISE_IN_ONCE, OVER = "raise", "fail", "raise-in-once", "over-budget"
RUN = "run"  # the function itself decides what comes of it
CRASH_IN_ONCE = "crash-in-once"
TOO_SLOW = "too-slow"  # it takes longer than its timeout
MEANWHILE = "-meanwhile"
# The faults of an attempt by their names in a walk: when the worker is lost, or a reply.
MOMENTS = {
    "crash-before-call": "before call",
    "crash-after-call": "after call",
    "crash-before-commit": "before commit",
    "crash-after-commit": "after commit",
    "lost-reply": LOST_REPLY,
}
AT_COMMIT: dict[str, Moment] = {
    "crash-before-commit": "before",
    "crash-after-commit": "after",
    "lost-reply": "reply",
}
LOST, DOUBLED = "lost", "doubled"  # what becomes of a message
COPIES = {LOST: 0, DOUBLED: 2}


class ExploredError(RuntimeError):
    """A walk lets a step fail."""


@dataclass(frozen=True, slots=True)
class WalkAttempt:
    """An attempt at a `machine.step`: what comes of it, and the fault that it meets, or ''."""

    step: str
    record_id: str
    entered: int  # the version with which the record entered the state
    outcome: str
    fault: str


class Course(ABC):
    """Decides what comes of attempts and messages, and is told of calls."""

    @abstractmethod
    def attempt(self, part: StepPart, flow: Workflow[Any], work: EffectWork) -> WalkAttempt:
        """Return what comes of an attempt that begins."""

    @abstractmethod
    def aside(self, machine: str, record_id: str, place: str, faults: tuple[str, ...]) -> str:
        """Return which of the faults a message or an effect of Interlock's own meets, or ''."""

    @abstractmethod
    def note_call(self, attempt: WalkAttempt, part: StepPart, name: str, stay: str) -> None:
        """Note that a function was called: of a step, or the one that `work.once` names."""

    @abstractmethod
    def meanwhile(self, record_id: str, call: str) -> None:
        """Call a record whose step is at work."""

    @abstractmethod
    def take(self, time: timedelta) -> None:
        """Let time pass while a step is at work."""


@dataclass(frozen=True)
class Scene:
    """What all walks of an exploration share. `flows` begin with the one that is explored."""

    flows: tuple[Workflow[Any], ...]
    store: KitStore
    settings: Mapping[str, str] = field(default_factory=dict)
    fakes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    real: bool = False
    once: frozenset[str] = frozenset()  # each `machine.step` that must not be called twice
    standings: dict[tuple[str, str], dict[str, Standing]] = field(default_factory=dict)
    values: dict[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def walked(self) -> tuple[Workflow[Any], ...]:
        """The workflow that is explored, and those of its children."""
        known = {flow.name: flow for flow in self.flows}
        found = [self.flows[0]]
        for flow in found:
            below = (known[kind.machine] for kind in flow.machine.children)
            found += [child for child in below if child not in found]
        return tuple(found)

    def is_real(self, step: str) -> bool:
        """Whether a function is called for a `machine.step`: its own, or a fake of the test."""
        return self.real or step in self.fakes

    def standing(self, part: StepPart, flow: Workflow[Any]) -> dict[str, Standing]:
        """Return the outcomes of what stands in for a step."""
        key = (flow.name, part.name)
        if key not in self.standings:
            self.standings[key] = standings_of(part, flow)
        return self.standings[key]

    def values_of(self, flow: Workflow[Any]) -> dict[str, Any]:
        """Return the values that stand-ins set."""
        if flow.name not in self.values:
            self.values[flow.name] = values_of(flow)
        return self.values[flow.name]


def scene_of(
    flows: Iterable[Workflow[Any]],
    store: KitStore,
    settings: Mapping[str, str] | None,
    fakes: Mapping[str, Callable[..., Any]] | None,
    once: Collection[str],
    *,
    real: bool,
) -> Scene:
    """Return the scene of walks. Raises KitError, with the steps that there are, for another."""
    steps = StepsAtWork(flows, Wire(""), pause=lambda: None)
    return Scene(
        tuple(flows),
        store,
        settings=settings or {},
        fakes={steps.found(step): fake for step, fake in (fakes or {}).items()},
        real=real,
        once=frozenset(map(steps.found, once)),
    )


class WalkMessages(Messages):
    """The messages of a walk, of which some are lost, and some come twice."""

    def __init__(self, settings: Settings, machines: Mapping[str, Machine], course: Course) -> None:
        super().__init__(settings, machines)
        self._course = course
        self.sent: list[EffectMessage] = []

    def copies_of(self, message: EffectMessage) -> int:
        """Return how often a message comes, as the walk decides."""
        self.sent.append(message)
        record_id = message.key.partition(":")[0]
        faults = (LOST, DOUBLED)
        fault = self._course.aside(message.machine, record_id, f"send.{message.name}", faults)
        return COPIES.get(fault, 1)


class WalkSteps(StepsAtWork):
    """The steps of a walk: it decides what comes of each attempt, and stand-ins are called."""

    def __init__(
        self,
        flows: Iterable[Workflow[Any]],
        wire: Wire,
        pause: Callable[[], None],
        *,
        scene: Scene,
        course: Course,
    ) -> None:
        self._scene, self._course = scene, course
        self._attempt = WalkAttempt("", "", 0, "", "")
        super().__init__(flows, wire, pause)
        self.replace(dict(scene.fakes))

    def moment(self, part: StepPart, flow: Workflow[Any], work: EffectWork) -> str:
        """Return when the worker is lost in an attempt that begins, '' if it is not."""
        self._attempt = self._course.attempt(part, flow, work)
        return MOMENTS.get(self._attempt.fault, "")

    def function(self, part: StepPart, flow: Workflow[Any]) -> Callable[..., Any]:
        """Return what is called in an attempt: a stand-in, or the function if it is to be real."""
        attempt = self._attempt  # others may begin before this one ends
        if not self._scene.is_real(attempt.step):
            return self._stand_in(attempt, part, flow)
        given = super().function(part, flow)

        if is_async(given):

            @wraps(given)
            async def run_async(data: Any, work: Work) -> Any:
                self._begin(attempt, part, work)
                return await given(data, work)

            return run_async

        @wraps(given)
        def run(data: Any, work: Work) -> Any:
            self._begin(attempt, part, work)
            return given(data, work)

        return run

    def _stand_in(
        self, attempt: WalkAttempt, part: StepPart, flow: Workflow[Any]
    ) -> Callable[..., Any]:
        standing = self._scene.standing(part, flow).get(attempt.outcome)

        def stand_in(data: Any, work: Work) -> str:
            self._begin(attempt, part, work)
            if part.marks_once:
                work.once(part.name, lambda: True)
            assert standing, "a walk chooses among the outcomes"
            return standing.apply(data, self._scene.values_of(flow))

        return stand_in

    def _begin(self, attempt: WalkAttempt, part: StepPart, work: Work) -> None:
        """Do what comes before the function: note the call, let others call, let it fail."""
        self._course.note_call(attempt, part, "", work.key)
        if attempt.fault.endswith(MEANWHILE):
            self._course.meanwhile(attempt.record_id, attempt.fault.removesuffix(MEANWHILE))
        if attempt.fault == TOO_SLOW:
            self._course.take(2 * part.timeout)
        if attempt.outcome in (RAISE, FAIL):
            raise ExploredError("the walk lets it fail")
        if attempt.outcome == OVER:
            raise OverBudgetError(Shortage(work.id, "tokens", 1, 0, 0, may_pass=False))
        for name in ("once", "once_async"):
            once = getattr(work, name)
            is_awaited = name == "once_async"
            counted = self._counting(attempt, part, once, work.key, is_awaited=is_awaited)
            work.__dict__[name] = counted

    def _counting(
        self,
        attempt: WalkAttempt,
        part: StepPart,
        once: Callable[..., Any],
        stay: str,
        *,
        is_awaited: bool,
    ) -> Callable[..., Any]:
        """Return `work.once` as a walk has it: its call is noted, and may end the worker."""

        @contextmanager
        def calling(name: str) -> Iterator[None]:
            self._course.note_call(attempt, part, name, stay)
            if attempt.outcome == RAISE_IN_ONCE:
                raise ExploredError("the walk lets it fail")
            yield
            if attempt.fault == CRASH_IN_ONCE:
                raise CrashedError

        def counted(name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
            def called(*given: Any, **named: Any) -> Any:
                with calling(name):
                    return call(*given, **named)

            async def called_async(*given: Any, **named: Any) -> Any:
                with calling(name):
                    return await call(*given, **named)

            return once(name, called_async if is_awaited else called, *given, **named)

        return counted

    def _add(self, flow: Workflow[Any]) -> None:
        """Let the effects of Interlock's own meet faults too. No cleanup is called if none is real.

        A cleanup removes files or rows of the world, which stand-ins have not made.
        """
        super()._add(flow)
        for end, part in flow.declared.cleanups.items():
            step = f"{flow.name}.{after_end(end)}"
            if not self._scene.is_real(step):
                nothing = replace(part, function=lambda _: None, takes_work=False)
                self.handlers[step] = cleanup_of(nothing, flow.declared)
        for effect in flow.machine.effects.keys() - flow.declared.states.keys():
            name = f"{flow.name}.{effect}"
            self.handlers[name] = self._aside(flow.name, effect, self.handlers[name])

    def _aside(self, machine: str, effect: str, handler: Handler) -> Handler:
        def run(work: EffectWork) -> Outcome | None:
            record_id, place = str(work.record.id), f"effect.{effect}"
            fault = self._course.aside(machine, record_id, place, tuple(AT_COMMIT))
            if fault:
                self._wire.fail_at_commit(AT_COMMIT[fault])
            ended: Any = handler(work)
            outcome: Outcome | None = ended
            return outcome

        return run


class WalkKit(Kit[Any]):
    """The kit of one walk."""

    def __init__(self, scene: Scene, course: Course) -> None:
        self._scene, self._course = scene, course
        super().__init__(*scene.flows, OUTSIDE, store=scene.store, settings=scene.settings)

    def _new_steps(self, flows: Iterable[Workflow[Any]]) -> StepsAtWork:
        pause = partial(self._pass, PAUSE_MS)
        return WalkSteps(flows, self._wire, pause, scene=self._scene, course=self._course)

    def _new_messages(self, machines: Mapping[str, Machine]) -> Messages:
        self.messages = WalkMessages(self._settings, machines, self._course)
        return self.messages

    def cancel_now(self, record_id: str, op_id: str) -> None:
        """Cancel a record; a step at work is ordered to stop."""
        self.client.cancel(record_id, op_id=op_id)
        self._worker.go_on()

    def pass_until(self, at_ms: int) -> None:
        """Let time pass up to this time, and what is due happen then."""
        self._clock.set(max(at_ms, self._clock.now_ms))
        self._run_what_is_due()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due, now or ever."""
        found = self._due()
        return not found.now and found.next is None

    def send_again(self) -> None:
        """Let all messages that were ever sent come once more."""
        self.messages.waiting.extend([*self.messages.sent])
        self._run_what_is_due()

    def faults_in(self, record_ids: list[str]) -> list[str]:
        """Return how records differ from what their logs say."""
        from interlock.workers.ops.verify import verify_all  # noqa: PLC0415 - as in `check`

        faults: list[str] = verify_all(self._dispatch, record_ids)["faults"]
        return faults
