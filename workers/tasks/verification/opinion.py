"""What a model thinks of the work: asked within a time, and weighed; doubt speaks against it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from interlock.workers.text import sentence

CONFIDENCE_LEAST = 0.7
ANSWER_LENGTH_MAX = 64 * 1024
_STOP_S = 1.0

UNCONFIGURED = (
    "is not configured: set INTERLOCK_JUDGE_MODEL to a language model, for the embedded one cannot"
)

# Asked with an instruction. A reviewer answers PASS or anything else; a judge answers
# {"verdict": "accept" or "retry", "confidence": 0 to 1}, as a mapping or as its JSON text, and
# may add a "reason". Where there is no answer, and why is known, UnansweredError says so.
Asked: TypeAlias = Callable[[str], Awaitable[object]]


class UnansweredError(Exception):
    """Who was asked has no answer. The message says why, to the person who reads the result."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """Whether the work is good, and how sure a judge is of that. `detail` is one sentence."""

    passed: bool
    detail: str
    confidence: float | None = None

    @property
    def flagged(self) -> bool:
        """A judge was not sure, whatever it said: a person should look."""
        return self.confidence is not None and self.confidence < CONFIDENCE_LEAST


async def reviewer_says(reviewer: Asked | None, instruction: str, *, within_s: float) -> Opinion:
    """Ask a reviewer. Only the one word PASS passes; never raises for what it does."""
    answer, problem = await _answer(reviewer, instruction, within_s=within_s)
    if problem:
        return Opinion(passed=False, detail=f"the reviewer {problem}")
    if isinstance(answer, str) and answer.strip() == "PASS":
        return Opinion(passed=True, detail="PASS")
    return Opinion(passed=False, detail=sentence(f"the answer is not PASS: {_quoted(answer)}"))


async def judge_says(judge: Asked | None, instruction: str, *, within_s: float) -> Opinion:
    """Ask a judge. What cannot be read is a retry with no confidence; never raises for it."""
    answer, problem = await _answer(judge, instruction, within_s=within_s)
    if problem:
        return Opinion(passed=False, detail=f"retry: the judge {problem}", confidence=0.0)
    return _judgement(answer)


async def _answer(asked: Asked | None, instruction: str, *, within_s: float) -> tuple[object, str]:
    """Return the answer, or None and why there is none."""
    if asked is None:
        return None, UNCONFIGURED

    async def ask() -> object:
        return await asked(instruction)

    task = asyncio.ensure_future(ask())
    try:
        await asyncio.wait({task}, timeout=within_s)
        if not task.done():
            return None, f"did not answer within {within_s:g} s"
    finally:
        task.cancel()
        # Bounded: what is asked is not ours and may not care about being cancelled.
        await asyncio.wait({task}, timeout=_STOP_S)
        if task.done() and not task.cancelled():
            # Looked at, so that what was raised too late is not logged as overlooked.
            task.exception()
    if task.cancelled():
        return None, "gave up"
    error = task.exception()
    if isinstance(error, UnansweredError):
        return None, sentence(f"gave no answer: {error}")
    if error is not None:
        return None, sentence(f"failed: {type(error).__name__}: {error}")
    return task.result(), ""


def _judgement(answer: object) -> Opinion:
    said = _mapping(answer)
    verdict, confidence = said.get("verdict"), said.get("confidence")
    if (
        not isinstance(verdict, str)
        or verdict not in {"accept", "retry"}
        or isinstance(confidence, bool)
        or not isinstance(confidence, int | float)
        # NaN is neither more nor less than anything, so it is refused as well.
        or not 0 <= confidence <= 1
    ):
        detail = sentence(f"retry: the judgement cannot be read: {_quoted(answer)}")
        return Opinion(passed=False, detail=detail, confidence=0.0)
    reason = said.get("reason")
    because = f": {reason}" if isinstance(reason, str) and reason.strip() else ""
    detail = sentence(f"{verdict} with confidence {confidence:g}{because}")
    return Opinion(passed=verdict == "accept", detail=detail, confidence=float(confidence))


def _mapping(answer: object) -> Mapping[object, object]:
    if isinstance(answer, str) and len(answer) <= ANSWER_LENGTH_MAX:
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            return {}
    return answer if isinstance(answer, Mapping) else {}


def _quoted(answer: object) -> str:
    text = answer.strip() if isinstance(answer, str) else repr(answer)
    return text or "nothing"
