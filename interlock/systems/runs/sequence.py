"""Decides which codon of a run comes next, from its plan and its history alone. Pure.

Each codon has a runtime id: its own id, and in a loop also the iteration, as in `clean#0`. The last
execution of a runtime id decides whether that codon is done. Attempts are counted in the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import TypeAlias, assert_never

from interlock import CallError
from interlock.systems.runs.machines.limits import RETRY_AFTER_MS_MAX
from interlock.systems.runs.machines.values import LoopContext
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.plan.model import (
    RETRY_DELAY_MS_MAX,
    FailurePolicy,
    PlannedCodon,
    PlannedLoop,
    RunPlan,
    SessionChoice,
)


class StrangeHistoryError(CallError):
    """A history has an execution of a codon that is not in the plan. Pass the plan of that run."""

    def __init__(self, runtime_id: str) -> None:
        super().__init__(f"the plan has no codon for {runtime_id!r}; give the run's own plan")
        self.runtime_id = runtime_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution that has ended; `iteration` counts from 0 and is None outside of loops.

    `ignored` marks a failure after which the run went on. `retriable` and `retry_after_ms` are set
    for failures only. `record` is the id of the execution's record.
    """

    codon_id: str
    iteration: int | None
    status: CodonEnd
    record: str = ""
    session_id: str | None = None
    messages: int = 0
    context_exceeded: bool = False
    budget_exceeded: bool = False
    ignored: bool = False
    retriable: bool = False
    retry_after_ms: int | None = None

    @property
    def runtime_id(self) -> str:
        """Return the runtime id of the codon that was executed."""
        return runtime_id(self.codon_id, self.iteration)


@dataclass(frozen=True, slots=True)
class PlanPosition:
    """A codon at one position in the order of a run."""

    codon: PlannedCodon
    loop_context: LoopContext | None

    @property
    def runtime_id(self) -> str:
        """Return the runtime id of the executions at this position."""
        loop_context = self.loop_context
        return runtime_id(self.codon.id, None if loop_context is None else loop_context.iteration)


class HaltReason(StrEnum):
    """The reason why a run cannot go on without a person."""

    ABORTED = "aborted"
    NOT_RETRIABLE = "not_retriable"
    ATTEMPTS_USED = "attempts_used"
    NOTHING_TO_CONTINUE = "nothing_to_continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCodon:
    """The codon that the run executes next, after the delay.

    `previous_session_id` is the session that it continues; None is a new one.
    """

    position: PlanPosition
    previous_session_id: str | None
    delay_ms: int

    @property
    def codon(self) -> PlannedCodon:
        """Return the codon that starts."""
        return self.position.codon

    @property
    def runtime_id(self) -> str:
        """Return the runtime id of the execution that starts."""
        return self.position.runtime_id

    @property
    def loop_context(self) -> LoopContext | None:
        """Return its loop and iteration; None outside of loops."""
        return self.position.loop_context


@dataclass(frozen=True, slots=True)
class PlanFinished:
    """Every codon of the plan is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """The run cannot go on: the codon at this position failed, or cannot start."""

    position: PlanPosition
    cause: HaltReason
    reason: str


NextStep: TypeAlias = NextCodon | PlanFinished | Halted


def runtime_id(codon_id: str, iteration: int | None) -> str:
    """Return the runtime id of a codon; `iteration` is None outside of loops."""
    return codon_id if iteration is None else f"{codon_id}#{iteration}"


def next_step(plan: RunPlan, history: Sequence[Execution], *, start_index: int) -> NextStep:
    """Return how a run goes on after a history, whose oldest execution is first.

    The run's own executions start at `start_index`; those before it belong to the runs that it
    continues. A codon whose last failure there was not ignored counts as not tried yet.
    """
    codons = _CodonHistory(plan, history, start_index)
    previous: PlanPosition | None = None
    for position in codons.positions():
        if not codons.is_done(position):
            return _step_at(codons, position, previous)
        previous = position
    return PlanFinished()


def progress(
    plan: RunPlan, history: Sequence[Execution], *, start_index: int
) -> tuple[int, int | None]:
    """Return how many codons are done and how many there are.

    The second number is None while a loop goes on until a context is full.
    """
    codons = _CodonHistory(plan, history, start_index)
    done = 0
    for position in codons.positions():
        if not codons.is_done(position):
            return done, codons.total()
        done += 1
    return done, done


class _CodonHistory:
    """The executions of a run, by runtime id."""

    def __init__(self, plan: RunPlan, history: Sequence[Execution], start_index: int) -> None:
        assert 0 <= start_index <= len(history), "the run starts within its history"
        self._plan = plan
        is_in_loop = {
            codon.id: isinstance(step, PlannedLoop)
            for step in plan.steps
            for codon in (step.codons if isinstance(step, PlannedLoop) else (step,))
        }
        of_this_run: dict[str, list[Execution]] = defaultdict(list)
        last: dict[str, Execution] = {}
        for index, execution in enumerate(history):
            if is_in_loop.get(execution.codon_id) is not (execution.iteration is not None):
                raise StrangeHistoryError(execution.runtime_id)
            last[execution.runtime_id] = execution
            if index >= start_index:
                of_this_run[execution.runtime_id].append(execution)
        self._last, self._of_this_run = last, of_this_run

    def positions(self) -> Iterator[PlanPosition]:
        """Yield the positions in the order of the run.

        Whether a loop goes on is decided when the next position is asked for, so the caller must
        stop at the first codon that is not done.
        """
        for step in self._plan.steps:
            if isinstance(step, PlannedLoop):
                yield from self._iterations(step)
            else:
                yield PlanPosition(step, None)

    def last(self, position: PlanPosition) -> Execution | None:
        """Return the last execution at a position."""
        return self._last.get(position.runtime_id)

    def is_done(self, position: PlanPosition) -> bool:
        """Return whether the run goes on after the codon at this position."""
        last = self.last(position)
        if last is None:
            return False
        if last.status is not CodonEnd.FAILED or last.ignored:
            return True
        # A failure of an earlier run counts as done only if that run ignored it. A run that crashed
        # had not ignored the failure of its last codon.
        return position.codon.on_failure.policy is FailurePolicy.IGNORE and bool(
            self._of_this_run[position.runtime_id]
        )

    def failures(self, position: PlanPosition) -> int:
        """Return how many of this run's last executions at a position failed in a row."""
        failures = 0
        for execution in reversed(self._of_this_run[position.runtime_id]):
            if execution.status is not CodonEnd.FAILED:
                break
            failures += 1
        return failures

    def total(self) -> int | None:
        """Return how many codons the run has in all; None while the number is not known."""
        total = 0
        for step in self._plan.steps:
            if not isinstance(step, PlannedLoop):
                total += 1
                continue
            reached, over = self._reached(step)
            if not over and (step.until.context_exceeded or step.until.iterations is None):
                return None
            total += reached if over else (step.until.iterations or 0) * len(step.codons)
        return total

    def _reached(self, loop: PlannedLoop) -> tuple[int, bool]:
        """Return how many codons of a loop are done, and whether the loop is over."""
        reached = 0
        for position in self._iterations(loop):
            if not self.is_done(position):
                return reached, False
            reached += 1
        return reached, True

    def _iterations(self, loop: PlannedLoop) -> Iterator[PlanPosition]:
        maximum = loop.until.iterations
        for iteration in count() if maximum is None else range(maximum):
            for index, codon in enumerate(loop.codons):
                loop_context = LoopContext(loop_id=loop.id, iteration=iteration, index=index)
                position = PlanPosition(codon, loop_context)
                yield position
                if self._ends_loop(loop, position):
                    return

    def _ends_loop(self, loop: PlannedLoop, position: PlanPosition) -> bool:
        """Return whether a codon that is done ended its loop before the loop's usual end."""
        last = self.last(position)
        assert last is not None, "the codon at this position is done"
        return last.budget_exceeded or (loop.until.context_exceeded and last.context_exceeded)


def _step_at(
    codons: _CodonHistory, position: PlanPosition, previous: PlanPosition | None
) -> NextCodon | Halted:
    """Return how the run goes on at a position that is not done; `previous` is the one before."""
    failures, delay_ms = codons.failures(position), 0
    if failures:
        if halted := _refused_retry(codons, position, failures):
            return halted
        delay_ms = _delay_ms(codons, position, failures)
    if position.codon.continuation is SessionChoice.FRESH:
        return NextCodon(position=position, previous_session_id=None, delay_ms=delay_ms)
    session_id, problem = _session(codons, previous)
    if problem:
        reason = f"{position.runtime_id} is to continue the session before it, but {problem}"
        return Halted(position=position, cause=HaltReason.NOTHING_TO_CONTINUE, reason=reason)
    return NextCodon(position=position, previous_session_id=session_id, delay_ms=delay_ms)


def _refused_retry(codons: _CodonHistory, position: PlanPosition, failures: int) -> Halted | None:
    """Return why a codon that failed is not tried again; None if it is."""
    on_failure, last = position.codon.on_failure, codons.last(position)
    assert last is not None, "a codon that failed was executed"
    failed = f"{position.runtime_id} failed"
    match on_failure.policy:
        case FailurePolicy.IGNORE:
            raise AssertionError("a codon whose failures are ignored is done")
        case FailurePolicy.ABORT:
            cause, reason = HaltReason.ABORTED, f"{failed}, and on_failure is abort"
        case FailurePolicy.RETRY if not last.retriable:
            cause, reason = (
                HaltReason.NOT_RETRIABLE,
                f"{failed}, and trying again cannot repair that",
            )
        case FailurePolicy.RETRY if failures >= on_failure.attempts:
            cause = HaltReason.ATTEMPTS_USED
            reason = f"{failed} at attempt {failures} of {on_failure.attempts}"
        case FailurePolicy.RETRY:
            return None
        case _:
            assert_never(on_failure.policy)
    advice = "repair the cause, then `interlock run redo --as-is`"
    return Halted(position=position, cause=cause, reason=f"{reason}; {advice}")


def _delay_ms(codons: _CodonHistory, position: PlanPosition, failures: int) -> int:
    """Return the delay that the failure named; else one that doubles with each failure."""
    last = codons.last(position)
    delay_ms = None if last is None else last.retry_after_ms
    if delay_ms is None or delay_ms > RETRY_AFTER_MS_MAX:
        delay_ms = position.codon.on_failure.delay_ms << (failures - 1)
    return min(delay_ms, RETRY_DELAY_MS_MAX)


def _session(codons: _CodonHistory, previous: PlanPosition | None) -> tuple[str | None, str]:
    """Return the session that a codon continues, or None and why there is none."""
    last = None if previous is None else codons.last(previous)
    if previous is None or last is None:
        return None, "no codon comes before it; let it start a fresh session"
    subject = f"{previous.runtime_id}, which it follows,"
    if last.status is CodonEnd.FAILED:
        return (
            None,
            f"{subject} failed; let it start a fresh session, or do not ignore that failure",
        )
    if last.status is CodonEnd.SKIPPED and last.messages == 0:
        return None, f"{subject} was skipped before its first message; let it start a fresh session"
    if last.session_id is None:
        return None, f"{subject} reported no session; let it start a fresh session"
    return last.session_id, ""
