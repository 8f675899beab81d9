"""Decides how a codon ended, from the facts that are known when its process is over. Pure.

The first row that fits decides. Finished work counts even where a limit or a person would have
ended the codon, because its cost is paid already.

|    | fact                                                     | the codon is             |
|----|----------------------------------------------------------|--------------------------|
|  1 | a person stopped it                                      | failed, not tried again  |
|  2 | it reported its result, and the process ended with 0     | completed                |
|  3 | the context is full, and a full context ends its loop    | completed                |
|  4 | the budget is used up, and its policy is to complete     | completed                |
|  5 | a person skipped it, and it had reported its result      | completed                |
|  6 | a person skipped it, and it had reported no result       | skipped                  |
|  7 | it was killed because it took too long or was silent     | failed: timeout          |
|  8 | the budget is used up, and its policy is to fail         | failed, not tried again  |
|  9 | the context is full                                      | failed, not tried again  |
| 10 | the exit code is not 0                                   | failed, see failure.py   |
| 11 | it reported no result                                    | failed, see failure.py   |

An exit code of -1 means that no process was started, 1 a failure of any kind, 130 an interrupt.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum, auto

from interlock.system.text import one_line
from interlock.systems.runs.failure import CodonFailure, classify_failure
from interlock.systems.runs.machines.values import FailureType
from interlock.systems.runs.plan.model import BudgetPolicy

NO_PROCESS = -1
_SIGNAL_EXIT_CODE_BASE = 128
_SIGNAL_NAMES = {number.value: number.name for number in signal.Signals}


class CodonEnd(StrEnum):
    """The three ends of a codon."""

    COMPLETED = auto()
    SKIPPED = auto()
    FAILED = auto()


class TimeLimit(StrEnum):
    """The limits of time that end a process: on its whole duration, and on its silence."""

    WHOLE = auto()
    IDLE = auto()


_TIME_LIMIT_MESSAGES = {
    TimeLimit.WHOLE: "the agent was ended because it took too long",
    TimeLimit.IDLE: "the agent was ended because it was silent for too long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """The facts about a codon when its process is over.

    `budget_exceeded` is the policy of the budget that is used up, `time_limit_passed` the limit
    because of which the process was killed; each is None where it does not apply. `error` is the
    error that the agent or its provider reported.
    """

    stopped: bool
    exit_code: int
    result_received: bool
    session_opened: bool
    context_exceeded: bool
    context_may_end: bool
    budget_exceeded: BudgetPolicy | None
    skip_requested: bool
    time_limit_passed: TimeLimit | None
    error: str = ""
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CodonOutcome:
    """The end of a codon, and the reason where it is a failure."""

    status: CodonEnd
    failure: CodonFailure | None = None


def outcome_of(facts: EndFacts) -> CodonOutcome:
    """Return how a codon ended, by the table at the top of this module."""
    if facts.stopped:
        return CodonOutcome(CodonEnd.FAILED, _final_failure("the codon was stopped"))
    done = facts.result_received and facts.exit_code == 0
    full = facts.context_exceeded and facts.context_may_end
    if done or full or facts.budget_exceeded is BudgetPolicy.COMPLETE:
        return CodonOutcome(CodonEnd.COMPLETED)
    if facts.skip_requested:
        return CodonOutcome(CodonEnd.COMPLETED if facts.result_received else CodonEnd.SKIPPED)
    return CodonOutcome(CodonEnd.FAILED, _failure(facts))


def exit_code_of(code: int) -> int:
    """Return the exit code of a process as shells show it: 128 and the number of a signal.

    `code` is negative where a signal ended the process. -1 stays free for "no process".
    """
    return code if code >= 0 else _SIGNAL_EXIT_CODE_BASE - code


def _failure(facts: EndFacts) -> CodonFailure:
    if facts.time_limit_passed is not None:
        return CodonFailure(
            FailureType.TIMEOUT,
            retriable=True,
            message=_TIME_LIMIT_MESSAGES[facts.time_limit_passed],
        )
    if facts.budget_exceeded is BudgetPolicy.FAIL:
        return _final_failure("the codon's budget is exceeded")
    if facts.context_exceeded:
        error = facts.error or "the conversation is longer than the model's context window"
        return CodonFailure(FailureType.API_ERROR, retriable=False, message=one_line(error))
    return classify_failure(
        facts.error or _exit_message(facts.exit_code),
        session_opened=facts.session_opened,
        retry_after_ms=facts.retry_after_ms,
    )


def _final_failure(message: str) -> CodonFailure:
    return CodonFailure(FailureType.UNKNOWN, retriable=False, message=message)


def _exit_message(exit_code: int) -> str:
    if exit_code == NO_PROCESS:
        return "there was no process"
    if exit_code == 0:
        return "the agent ended without a result"
    name = _SIGNAL_NAMES.get(exit_code - _SIGNAL_EXIT_CODE_BASE)
    return f"the agent ended with {exit_code}" + (f", which is {name}" if name else "")
