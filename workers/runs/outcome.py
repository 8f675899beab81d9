"""Which end a codon has, from what is known when its process is over; it looks at nothing itself.

The first line that fits decides. What was done counts, even where a limit or a person would have
ended it: no money comes back by throwing work away.

|    | what is known                                            | the codon is             |
|----|----------------------------------------------------------|--------------------------|
|  1 | it was stopped                                           | failed, not tried again  |
|  2 | the result came, and the process ended with 0            | completed                |
|  3 | the context is exceeded, where that is how the step ends | completed                |
|  4 | the budget is exceeded, and its policy is to complete    | completed                |
|  5 | a skip was asked for, and the result had come            | completed                |
|  6 | a skip was asked for, and no result came                 | skipped                  |
|  7 | it was ended for its time, or for its silence            | failed: timeout          |
|  8 | the budget is exceeded, and its policy is to fail        | failed, not tried again  |
|  9 | the context is exceeded                                  | failed, not tried again  |
| 10 | the exit code is not 0                                   | failed: as its error says|
| 11 | no result came                                           | failed: as its error says|

An exit code of -1 says that there was no process, 1 that it failed in general, 130 that it was
interrupted.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum, auto

from interlock.kernel.machines.runs.values import FailureType
from interlock.workers.runs.failure import Failure, failure_of
from interlock.workers.runs.plan.model import Exceeded
from interlock.workers.text import sentence

NO_PROCESS = -1
_OF_SIGNALS = 128
_NAMES = {number.value: number.name for number in signal.Signals}


class Ended(StrEnum):
    """How a codon has ended."""

    COMPLETED = auto()
    SKIPPED = auto()
    FAILED = auto()


class Patience(StrEnum):
    """Which limit of time was passed when the process was ended for it."""

    WHOLE = auto()
    IDLE = auto()


_OUT_OF_TIME = {
    Patience.WHOLE: "the agent was ended because it took too long",
    Patience.IDLE: "the agent was ended because it said nothing for too long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known of a codon when its process is over.

    `budget_exceeded` has the policy of the budget that is used up, `out_of_time` the limit for
    which the process was ended; None where neither is. `error` is what the agent or its provider
    said was wrong.
    """

    stopped: bool
    exit_code: int
    result_received: bool
    session_opened: bool
    context_exceeded: bool
    context_may_end: bool
    budget_exceeded: Exceeded | None
    skip_requested: bool
    out_of_time: Patience | None
    error: str = ""
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end, with the reason where it is a failure."""

    status: Ended
    failure: Failure | None = None


def verdict_on(ending: Ending) -> Verdict:
    """Return how a codon has ended, by the table above."""
    if ending.stopped:
        return Verdict(Ended.FAILED, _for_good("the codon was stopped"))
    done = ending.result_received and ending.exit_code == 0
    full = ending.context_exceeded and ending.context_may_end
    if done or full or ending.budget_exceeded is Exceeded.COMPLETE:
        return Verdict(Ended.COMPLETED)
    if ending.skip_requested:
        return Verdict(Ended.COMPLETED if ending.result_received else Ended.SKIPPED)
    return Verdict(Ended.FAILED, _failure(ending))


def exit_code_of(code: int) -> int:
    """Return the exit code of a process by which a signal is known as shells know it: 128 more.

    `code` is negative where a signal ended the process. So -1 is left for where there was none.
    """
    return code if code >= 0 else _OF_SIGNALS - code


def _failure(ending: Ending) -> Failure:
    if ending.out_of_time is not None:
        return Failure(
            FailureType.TIMEOUT, retriable=True, message=_OUT_OF_TIME[ending.out_of_time]
        )
    if ending.budget_exceeded is Exceeded.FAIL:
        return _for_good("the codon's budget is exceeded")
    if ending.context_exceeded:
        said = ending.error or "the conversation is longer than the model's context window"
        return Failure(FailureType.API_ERROR, retriable=False, message=sentence(said))
    return failure_of(
        ending.error or _without_words(ending.exit_code),
        session_opened=ending.session_opened,
        retry_after_ms=ending.retry_after_ms,
    )


def _for_good(said: str) -> Failure:
    return Failure(FailureType.UNKNOWN, retriable=False, message=said)


def _without_words(exit_code: int) -> str:
    if exit_code == NO_PROCESS:
        return "there was no process"
    if exit_code == 0:
        return "the agent ended without a result"
    name = _NAMES.get(exit_code - _OF_SIGNALS)
    return f"the agent ended with {exit_code}" + (f", which is {name}" if name else "")
