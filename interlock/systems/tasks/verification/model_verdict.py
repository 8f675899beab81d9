"""Asks a model whether work is good, within a time limit; any doubt counts against the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from interlock.system.text import one_line

CONFIDENCE_MIN = 0.7
REASON_LENGTH_MAX = 2_000  # characters of the reason of a verdict
_STOP_S = 1.0

UNCONFIGURED = (
    "is not configured: set INTERLOCK_JUDGE_MODEL to a language model, for the embedded one cannot"
)

# A function that asks a model with an instruction. A reviewer answers PASS or anything else; a
# judge answers a Judgement. It raises UnansweredError if it knows why there is no answer.
AskModel: TypeAlias = Callable[[str], Awaitable[object]]


class UnansweredError(Exception):
    """The model gave no answer. The message says why, to the person who reads the result."""


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """Whether the work is good, and how sure the model is of that. `detail` is one sentence."""

    passed: bool
    detail: str
    confidence: float | None = None

    @property
    def flagged(self) -> bool:
        """Whether the model was not sure, so that a person should look at the work."""
        return self.confidence is not None and self.confidence < CONFIDENCE_MIN


async def ask_reviewer(
    reviewer: AskModel | None, instruction: str, *, within_s: float
) -> ModelVerdict:
    """Ask a model to review the work. Only the answer PASS accepts it; an exception rejects it."""
    answer, problem = await _answer(reviewer, instruction, within_s=within_s)
    if problem:
        return ModelVerdict(passed=False, detail=f"the reviewer {problem}")
    if isinstance(answer, str) and answer.strip() == "PASS":
        return ModelVerdict(passed=True, detail="PASS")
    return ModelVerdict(passed=False, detail=one_line(f"the answer is not PASS: {_quoted(answer)}"))


async def ask_judge(judge: AskModel | None, instruction: str, *, within_s: float) -> ModelVerdict:
    """Ask a model to judge the work. Without a judgement it is a retry with confidence 0."""
    answer, problem = await _answer(judge, instruction, within_s=within_s)
    if problem:
        return ModelVerdict(passed=False, detail=f"retry: the judge {problem}", confidence=0.0)
    return _verdict_of(answer)


async def _answer(
    ask_model: AskModel | None, instruction: str, *, within_s: float
) -> tuple[object, str]:
    """Return the answer and '', or None and why there is no answer."""
    if ask_model is None:
        return None, UNCONFIGURED

    async def ask() -> object:
        return await ask_model(instruction)

    task = asyncio.ensure_future(ask())
    try:
        await asyncio.wait({task}, timeout=within_s)
        if not task.done():
            return None, f"did not answer within {within_s:g} s"
    finally:
        task.cancel()
        # With a limit: the function asked may ignore that it is cancelled.
        await asyncio.wait({task}, timeout=_STOP_S)
        if task.done() and not task.cancelled():
            # Retrieve a late exception, so that asyncio does not log it as never retrieved.
            task.exception()
    if task.cancelled():
        return None, "gave up"
    error = task.exception()
    if isinstance(error, UnansweredError):
        return None, one_line(f"gave no answer: {error}")
    if error is not None:
        return None, one_line(f"failed: {type(error).__name__}: {error}")
    return task.result(), ""


class Judgement(BaseModel):
    """What the model answers when it judges."""

    verdict: Literal["accept", "retry"]
    # Strict: a confidence of true or "0.9" says that the model did not mean a probability.
    confidence: Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
    reason: Annotated[str, Field(max_length=REASON_LENGTH_MAX)] = ""


def _verdict_of(answer: object) -> ModelVerdict:
    if not isinstance(answer, Judgement):
        detail = one_line(f"retry: the judge gave no judgement: {_quoted(answer)}")
        return ModelVerdict(passed=False, detail=detail, confidence=0.0)
    because = f": {answer.reason}" if answer.reason.strip() else ""
    detail = one_line(f"{answer.verdict} with confidence {answer.confidence:g}{because}")
    return ModelVerdict(
        passed=answer.verdict == "accept", detail=detail, confidence=answer.confidence
    )


def _quoted(answer: object) -> str:
    text = answer.strip() if isinstance(answer, str) else repr(answer)
    return text or "nothing"
