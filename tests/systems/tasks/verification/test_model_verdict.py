"""A model's verdict passes the work only if it is plain, in time, and in favour of the work."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.systems.tasks.verification.model_verdict import (
    UNCONFIGURED,
    AskModel,
    Judgement,
    ModelVerdict,
    UnansweredError,
    ask_judge,
    ask_reviewer,
)
from tests.any_text import any_text

SOON_S = 0.01
NEVER_S = 60.0


def answering(answer: object) -> AskModel:
    async def ask(instruction: str) -> object:
        del instruction
        return answer

    return ask


async def raises(instruction: str) -> object:
    raise LookupError(instruction)


async def has_none(instruction: str) -> object:
    raise UnansweredError(f"{instruction}\nIt is closed.")


async def gives_up(instruction: str) -> object:
    raise asyncio.CancelledError(instruction)


async def hangs(instruction: str) -> object:
    await asyncio.Event().wait()
    return instruction


async def hangs_and_raises(instruction: str) -> object:
    try:
        return await hangs(instruction)
    except asyncio.CancelledError:
        raise LookupError(instruction) from None


def reviewed(ask: AskModel | None, *, within_s: float = NEVER_S) -> ModelVerdict:
    return asyncio.run(ask_reviewer(ask, "is it good?", within_s=within_s))


def judged(ask: AskModel | None, *, within_s: float = NEVER_S) -> ModelVerdict:
    return asyncio.run(ask_judge(ask, "is it good?", within_s=within_s))


@pytest.mark.parametrize("answer", ["PASS", " PASS\n"])
def test_the_word_pass_alone_passes_a_review(answer: str) -> None:
    assert reviewed(answering(answer)) == ModelVerdict(passed=True, detail="PASS")


@pytest.mark.parametrize(
    "answer",
    [
        *[
            "FAIL",
            "",
            "pass",
            "PASS or FAIL",
            "PASS, but look again",
            "I cannot PASS this",
            "PASSED",
        ],
        *[None, True, b"PASS", {"PASS": True}, ["PASS"], PurePosixPath("PASS")],
    ],
)
def test_any_other_answer_fails_a_review(answer: object) -> None:
    verdict = reviewed(answering(answer))

    assert not verdict.passed
    assert verdict.detail.startswith("the answer is not PASS: ")
    assert verdict.confidence is None
    assert not verdict.flagged


def test_the_model_is_asked_with_the_instruction() -> None:
    instructions = []

    async def ask(instruction: str) -> object:
        instructions.append(instruction)
        return "PASS"

    reviewed(ask)

    assert instructions == ["is it good?"]


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (None, UNCONFIGURED),
        (has_none, "gave no answer: is it good? It is closed."),
        (raises, "failed: LookupError: is it good?"),
        (gives_up, "gave up"),
        (hangs, "did not answer within 0.01 s"),
        (hangs_and_raises, "did not answer within 0.01 s"),
        (lambda _: "PASS", "failed: TypeError: object str can't be used in 'await' expression"),
    ],
)
def test_a_missing_answer_counts_against_the_work(ask: Any, why: str) -> None:
    review, judgement = reviewed(ask, within_s=SOON_S), judged(ask, within_s=SOON_S)

    assert review == ModelVerdict(passed=False, detail=f"the reviewer {why}")
    assert judgement == ModelVerdict(passed=False, detail=f"retry: the judge {why}", confidence=0.0)
    assert judgement.flagged


def test_an_answer_that_comes_too_late_does_not_count() -> None:
    async def late(instruction: str) -> object:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "PASS"
        return instruction

    assert not reviewed(late, within_s=SOON_S).passed


def test_an_error_that_comes_too_late_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gc.collect()  # what other tests left may log too
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        reviewed(hangs_and_raises, within_s=SOON_S)
        gc.collect()

    assert not caplog.records


def test_a_model_that_does_not_answer_is_cancelled() -> None:
    stopped = []

    async def ask(instruction: str) -> object:
        try:
            return await hangs(instruction)
        finally:
            stopped.append(instruction)

    reviewed(ask, within_s=SOON_S)

    assert stopped


def test_cancelling_the_question_cancels_the_model() -> None:
    stopped = []

    async def cancelled() -> None:
        asking = asyncio.Event()

        async def ask(instruction: str) -> object:
            asking.set()
            try:
                return await hangs(instruction)
            finally:
                stopped.append(instruction)

        task = asyncio.create_task(ask_reviewer(ask, "a", within_s=NEVER_S))
        await asking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped

    asyncio.run(cancelled())


@pytest.mark.parametrize(
    ("answer", "passed", "flagged"),
    [
        (Judgement(verdict="accept", confidence=1), True, False),
        (Judgement(verdict="accept", confidence=0.7), True, False),
        (Judgement(verdict="accept", confidence=0.69), True, True),
        (Judgement(verdict="retry", confidence=0.9), False, False),
        (Judgement(verdict="retry", confidence=0.0), False, True),
    ],
)
def test_a_judgement_counts_and_is_flagged_if_the_judge_is_not_sure(
    answer: Judgement,
    passed: bool,  # noqa: FBT001 - a case
    flagged: bool,  # noqa: FBT001 - a case
) -> None:
    verdict = judged(answering(answer))

    assert (verdict.passed, verdict.flagged) == (passed, flagged)
    assert verdict.confidence == answer.confidence
    assert verdict.detail == f"{answer.verdict} with confidence {answer.confidence:g}"


def test_a_judges_reason_is_kept() -> None:
    answer = Judgement(verdict="retry", confidence=0.8, reason="no\ntest")

    assert judged(answering(answer)).detail == "retry with confidence 0.8: no test"


@pytest.mark.parametrize("answer", ["accept", "", None, 7, {"verdict": "accept", "confidence": 1}])
def test_an_answer_that_is_no_judgement_is_a_retry_without_confidence(answer: object) -> None:
    verdict = judged(answering(answer))

    assert (verdict.passed, verdict.confidence, verdict.flagged) == (False, 0.0, True)
    assert verdict.detail.startswith("retry: the judge gave no judgement: ")


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"confidence": confidence} for confidence in (1.01, -0.1, "1", True, float("nan"))],
        *[{"verdict": verdict} for verdict in ("ACCEPT", ["accept"], None)],
    ],
)
def test_a_judgement_has_a_verdict_and_a_probability(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Judgement.model_validate({"verdict": "accept", "confidence": 1, **wrong})


@given(any_text() | st.binary() | st.dictionaries(any_text(), any_text()))
def test_an_arbitrary_answer_never_passes(answer: object) -> None:
    async def both() -> list[ModelVerdict]:
        ask: Callable[[str], Awaitable[object]] = answering(answer)
        return [await ask_reviewer(ask, "", within_s=1), await ask_judge(ask, "", within_s=1)]

    assert not [one for one in asyncio.run(both()) if one.passed]
