"""How long a task may take, by its size and the history of its role. Pure.

The factors, limits, seconds for a file and confidences are those of Bernstein's
src/bernstein/core/orchestration/adaptive_timeout.py (github.com/sipyourdrink-ltd/bernstein,
Apache-2.0). The limit for subtasks and the reasons in words are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from math import isfinite
from typing import Any


class Scope(StrEnum):
    """How large a task is."""

    SMALL = auto()
    MEDIUM = auto()
    LARGE = auto()
    XL = auto()


class Complexity(StrEnum):
    """How hard a task is."""

    LOW = auto()
    MEDIUM = auto()
    HIGH = auto()


SCOPE_S: Mapping[Scope, int] = {
    Scope.SMALL: 900,
    Scope.MEDIUM: 1800,
    Scope.LARGE: 3600,
    Scope.XL: 7200,
}
FACTOR_OF_COMPLEXITY: Mapping[Complexity, float] = {
    Complexity.LOW: 0.7,
    Complexity.MEDIUM: 1.0,
    Complexity.HIGH: 1.5,
}
FACTOR_OF_FAMILY: Mapping[str, float] = {"haiku": 0.5, "sonnet": 1.0, "opus": 1.5}
OWNED_FILE_S = 30
HISTORY_FACTOR = 1.5
DEADLINE_S_MIN = 300
DEADLINE_S_MAX = 7200
# What a try of a subtask takes beside its work: the wait before it, its start, verification, merge.
AROUND_S = 600
SUBTASKS_S_MIN = 1_800
SUBTASKS_S_MAX = 604_800
CONFIDENCE_ALONE = 0.5
CONFIDENCE_WITH_HISTORY = 0.8


@dataclass(frozen=True, slots=True)
class Deadline:
    """Seconds from the start of the work, how sure they are (0 to 1), and a line for each step."""

    seconds: int
    confidence: float
    reasons: tuple[str, ...]


def deadline(
    *,
    scope: Scope,
    complexity: Complexity,
    model: str | None,
    owned_files: int,
    durations_s: Iterable[float],
) -> Deadline:
    """Return the longer of two times, within limits: by the task's size, and by its role's history.

    `model` is a model's id, long or short; `owned_files` is a count; `durations_s` are the seconds
    that finished tasks of the same role took. Those that are not positive numbers are ignored.
    """
    assert owned_files >= 0
    sized_s, reasons = _sized(scope, complexity, model, owned_files)
    recorded = [taken for taken in durations_s if taken > 0 and isfinite(taken)]
    wanted_s = sized_s
    if recorded:
        mean_s = sum(recorded) / len(recorded)
        wanted_s = max(sized_s, HISTORY_FACTOR * mean_s)
        relation = "more" if wanted_s > sized_s else "not more"
        reasons.append(
            f"tasks of its role took {mean_s:.0f} s on average ({len(recorded)} of them), and "
            f"{HISTORY_FACTOR} times that is {relation} than the {sized_s:.0f} s of its size"
        )
    seconds = round(min(max(wanted_s, DEADLINE_S_MIN), DEADLINE_S_MAX))
    if wanted_s < DEADLINE_S_MIN:
        reasons.append(f"never less than {DEADLINE_S_MIN} s")
    if wanted_s > DEADLINE_S_MAX:
        reasons.append(f"never more than {DEADLINE_S_MAX} s")
    confidence = CONFIDENCE_WITH_HISTORY if recorded else CONFIDENCE_ALONE
    return Deadline(seconds, confidence, tuple(reasons))


def subtasks_limit_s(subtasks: Iterable[Mapping[str, Any]]) -> int:
    """Return the seconds in which all subtasks of a task should end, where nobody set a limit.

    How many agents work on them at once is not known. So this is the time of one agent that works
    on one after the other, and needs every try that each may have. A subtask is given as the fields
    that it is created from.
    """
    wanted_s = 0
    for subtask in subtasks:
        one_try = deadline(
            scope=Scope(subtask.get("scope", Scope.MEDIUM)),
            complexity=Complexity(subtask.get("complexity", Complexity.MEDIUM)),
            model=subtask.get("model"),
            owned_files=len(subtask.get("owned_files", ())),
            durations_s=(),
        )
        wanted_s += (one_try.seconds + AROUND_S) * (int(subtask.get("max_retries", 0)) + 1)
    return min(max(wanted_s, SUBTASKS_S_MIN), SUBTASKS_S_MAX)


def _sized(
    scope: Scope, complexity: Complexity, model: str | None, owned_files: int
) -> tuple[float, list[str]]:
    size_s = float(SCOPE_S[scope])
    reasons = [f"scope {scope}: {SCOPE_S[scope]} s"]
    hard, (family, dear) = FACTOR_OF_COMPLEXITY[complexity], _family(model or "")
    if hard != 1:
        size_s *= hard
        reasons.append(f"complexity {complexity}: times {hard}")
    if dear != 1:
        size_s *= dear
        reasons.append(f"model family {family}: times {dear}")
    if owned_files:
        size_s += OWNED_FILE_S * owned_files
        reasons.append(f"owned files: {owned_files}, {OWNED_FILE_S} s each")
    return size_s, reasons


def _family(model: str) -> tuple[str, float]:
    # A family is found as a substring, so that a full id counts. Of two families in one id the
    # slower one counts: to wait costs less than to cut work off.
    found = [pair for pair in FACTOR_OF_FAMILY.items() if pair[0] in model.lower()]
    return max(found, key=lambda pair: pair[1], default=("", 1.0))
