"""Which codon of a run comes next, told by its plan and history alone; it starts nothing.

Each codon has a runtime id: its own, in a loop with the iteration, as in `clean#0`. What an id has
come to is what its last execution came to. Nothing is counted anywhere else than in the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import TypeAlias, assert_never

from interlock.kernel.errors import CallError
from interlock.kernel.machines.runs.values import LoopContext
from interlock.workers.runs.outcome import Ended
from interlock.workers.runs.plan.model import (
    RETRY_DELAY_MS_MAX,
    Continuation,
    Plan,
    PlannedCodon,
    PlannedLoop,
    Policy,
)

RETRY_AFTER_MS_MAX = 3_600_000


class StrangeHistoryError(CallError):
    """A history has an execution of what the plan does not have. Give the plan it was made by."""

    def __init__(self, runtime_id: str) -> None:
        super().__init__(f"the plan has no codon for {runtime_id!r}; give the run's own plan")
        self.runtime_id = runtime_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution that has ended; `iteration` counts from 0 and is None outside of loops.

    `ignored` is a failure that the run went past. `retriable` and `retry_after_ms` are of failures.
    """

    codon_id: str
    iteration: int | None
    status: Ended
    record: str = ""  # its id
    session_id: str | None = None
    messages: int = 0
    context_exceeded: bool = False
    budget_exceeded: bool = False
    ignored: bool = False
    retriable: bool = False
    retry_after_ms: int | None = None

    @property
    def runtime_id(self) -> str:
        """Return the id of what was executed."""
        return runtime_id(self.codon_id, self.iteration)


@dataclass(frozen=True, slots=True)
class Turn:
    """A codon at its place in the order of a run."""

    codon: PlannedCodon
    loop_context: LoopContext | None

    @property
    def runtime_id(self) -> str:
        """Return the id that its executions have."""
        inside = self.loop_context
        return runtime_id(self.codon.id, None if inside is None else inside.iteration)


class Halt(StrEnum):
    """Why a run does not go on by itself."""

    ABORTED = "aborted"
    NOT_RETRIABLE = "not_retriable"
    ATTEMPTS_USED = "attempts_used"
    NOTHING_TO_CONTINUE = "nothing_to_continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start this codon after the delay, in the session of the one before if that is named."""

    turn: Turn
    previous_session_id: str | None
    delay_ms: int

    @property
    def codon(self) -> PlannedCodon:
        """Return what is to be started."""
        return self.turn.codon

    @property
    def runtime_id(self) -> str:
        """Return the id that the execution will have."""
        return self.turn.runtime_id

    @property
    def loop_context(self) -> LoopContext | None:
        """Return where in a loop it is."""
        return self.turn.loop_context


@dataclass(frozen=True, slots=True)
class Finished:
    """All of the plan is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """The run does not go on: this codon failed, or cannot be started (`NOTHING_TO_CONTINUE`)."""

    turn: Turn
    halt: Halt
    reason: str


Step: TypeAlias = Start | Finished | Halted


def runtime_id(codon_id: str, iteration: int | None) -> str:
    """Return what a codon is called in a run; `iteration` is None outside of loops."""
    return codon_id if iteration is None else f"{codon_id}#{iteration}"


def next_step(plan: Plan, history: Sequence[Execution], *, begins: int) -> Step:
    """Return what follows a history, oldest first, of which this run's part begins at an index.

    A failure before that index, which was not ignored, counts as never tried.
    """
    past = _Past(plan, history, begins)
    before: Turn | None = None
    for turn in past.turns():
        if not past.is_done(turn):
            return _step(past, turn, before)
        before = turn
    return Finished()


def progress(plan: Plan, history: Sequence[Execution], *, begins: int) -> tuple[int, int | None]:
    """Return how many codons are done, and of how many: None while only a context can tell."""
    past = _Past(plan, history, begins)
    done = 0
    for turn in past.turns():
        if not past.is_done(turn):
            return done, past.total()
        done += 1
    return done, done


class _Past:
    """What has become of each runtime id."""

    def __init__(self, plan: Plan, history: Sequence[Execution], begins: int) -> None:
        assert 0 <= begins <= len(history), "a run begins within its history"
        self._plan = plan
        looping = {
            codon.id: isinstance(step, PlannedLoop)
            for step in plan.steps
            for codon in (step.codons if isinstance(step, PlannedLoop) else (step,))
        }
        own: dict[str, list[Execution]] = defaultdict(list)
        last: dict[str, Execution] = {}
        for index, one in enumerate(history):
            if looping.get(one.codon_id) is not (one.iteration is not None):
                raise StrangeHistoryError(one.runtime_id)
            last[one.runtime_id] = one
            if index >= begins:
                own[one.runtime_id].append(one)
        self._last, self._own = last, own

    def turns(self) -> Iterator[Turn]:
        """Yield the codons in the order of the run; loops go on only when they are asked again."""
        for step in self._plan.steps:
            if isinstance(step, PlannedLoop):
                yield from self._iterations(step)
            else:
                yield Turn(step, None)

    def last(self, turn: Turn) -> Execution | None:
        """Return the last execution of a codon at its place."""
        return self._last.get(turn.runtime_id)

    def is_done(self, turn: Turn) -> bool:
        """Tell whether the run goes on after this one."""
        last = self.last(turn)
        if last is None:
            return False
        if last.status is not Ended.FAILED or last.ignored:
            return True
        # Of an earlier run only what it went past is behind us: a crash is no failure to ignore.
        return turn.codon.on_failure.policy is Policy.IGNORE and bool(self._own[turn.runtime_id])

    def failures(self, turn: Turn) -> int:
        """Return how often this run has failed at it, since anything else came of it."""
        failures = 0
        for one in reversed(self._own[turn.runtime_id]):
            if one.status is not Ended.FAILED:
                break
            failures += 1
        return failures

    def total(self) -> int | None:
        """Return how many codons there are in all, None where nobody can know yet."""
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
        """Return how many codons of a loop are done, and whether it is over."""
        reached = 0
        for turn in self._iterations(loop):
            if not self.is_done(turn):
                return reached, False
            reached += 1
        return reached, True

    def _iterations(self, loop: PlannedLoop) -> Iterator[Turn]:
        bound = loop.until.iterations
        for iteration in count() if bound is None else range(bound):
            for index, codon in enumerate(loop.codons):
                inside = LoopContext(loop_id=loop.id, iteration=iteration, index=index)
                turn = Turn(codon, inside)
                yield turn
                if self._ends_loop(loop, turn):
                    return

    def _ends_loop(self, loop: PlannedLoop, turn: Turn) -> bool:
        """Tell whether a codon that is done was the last of its loop, whatever would follow."""
        last = self.last(turn)
        assert last is not None, "nobody asks what follows before it is done"
        return last.budget_exceeded or (loop.until.context_exceeded and last.context_exceeded)


def _step(past: _Past, turn: Turn, before: Turn | None) -> Start | Halted:
    """Return what becomes of a codon that is not done."""
    failures, delay_ms = past.failures(turn), 0
    if failures:
        if halted := _refused_retry(past, turn, failures):
            return halted
        delay_ms = _delay_ms(past, turn, failures)
    if turn.codon.continuation is Continuation.FRESH:
        return Start(turn=turn, previous_session_id=None, delay_ms=delay_ms)
    session_id, problem = _session(past, before)
    if problem:
        reason = f"{turn.runtime_id} is to continue the session before it, but {problem}"
        return Halted(turn=turn, halt=Halt.NOTHING_TO_CONTINUE, reason=reason)
    return Start(turn=turn, previous_session_id=session_id, delay_ms=delay_ms)


def _refused_retry(past: _Past, turn: Turn, failures: int) -> Halted | None:
    """Return why a codon that has failed is not tried again, or None if it is."""
    on_failure, last = turn.codon.on_failure, past.last(turn)
    assert last is not None, "what has failed has been executed"
    failed = f"{turn.runtime_id} failed"
    match on_failure.policy:
        case Policy.IGNORE:
            raise AssertionError("a failure of this run that is to be ignored is done with")
        case Policy.ABORT:
            halt, reason = Halt.ABORTED, f"{failed}, and on_failure is abort"
        case Policy.RETRY if not last.retriable:
            halt, reason = Halt.NOT_RETRIABLE, f"{failed} in a way that trying again cannot mend"
        case Policy.RETRY if failures >= on_failure.attempts:
            halt = Halt.ATTEMPTS_USED
            reason = f"{failed} at attempt {failures} of {on_failure.attempts}"
        case Policy.RETRY:
            return None
        case _:
            assert_never(on_failure.policy)
    advice = "mend the cause, then `interlock run redo --as-is`"
    return Halted(turn=turn, halt=halt, reason=f"{reason}; {advice}")


def _delay_ms(past: _Past, turn: Turn, failures: int) -> int:
    """Return how long to wait: as the failure told, or twice as long each time."""
    last = past.last(turn)
    told = None if last is None else last.retry_after_ms
    if told is None or told > RETRY_AFTER_MS_MAX:
        told = turn.codon.on_failure.delay_ms << (failures - 1)
    return min(told, RETRY_DELAY_MS_MAX)


def _session(past: _Past, before: Turn | None) -> tuple[str | None, str]:
    """Return the session that a codon goes on with, and otherwise what is wrong with it."""
    last = None if before is None else past.last(before)
    if before is None or last is None:
        return None, "nothing comes before it; let it begin fresh"
    whose = f"{before.runtime_id}, which it follows,"
    if last.status is Ended.FAILED:
        return None, f"{whose} failed; let it begin fresh, or do not ignore that"
    if last.status is Ended.SKIPPED and last.messages == 0:
        return None, f"{whose} was skipped before its first message; let it begin fresh"
    if last.session_id is None:
        return None, f"{whose} told no session; let it begin fresh"
    return last.session_id, ""
