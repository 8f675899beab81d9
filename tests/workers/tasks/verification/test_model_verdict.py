"""What a model says of the work counts only if it is plain, in time, and for the work."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.tasks.verification.model_verdict import (
    UNCONFIGURED,
    Asked,
    Opinion,
    UnansweredError,
    judge_says,
    reviewer_says,
)

SOON_S = 0.01
NEVER_S = 60.0


def answering(answer: object) -> Asked:
    async def asked(instruction: str) -> object:
        del instruction
        return answer

    return asked


async def errs(instruction: str) -> object:
    raise LookupError(instruction)


async def has_none(instruction: str) -> object:
    raise UnansweredError(f"{instruction}\nIt is closed.")


async def gives_up(instruction: str) -> object:
    raise asyncio.CancelledError(instruction)


async def hangs(instruction: str) -> object:
    await asyncio.Event().wait()
    return instruction


async def hangs_on(instruction: str) -> object:
    try:
        return await hangs(instruction)
    except asyncio.CancelledError:
        raise LookupError(instruction) from None


def reviewed(asked: Asked | None, *, within_s: float = NEVER_S) -> Opinion:
    return asyncio.run(reviewer_says(asked, "is it good?", within_s=within_s))


def judged(asked: Asked | None, *, within_s: float = NEVER_S) -> Opinion:
    return asyncio.run(judge_says(asked, "is it good?", within_s=within_s))


@pytest.mark.parametrize("answer", ["PASS", " PASS\n"])
def test_the_one_word_passes_a_review(answer: str) -> None:
    assert reviewed(answering(answer)) == Opinion(passed=True, detail="PASS")


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
    opinion = reviewed(answering(answer))

    assert not opinion.passed
    assert opinion.detail.startswith("the answer is not PASS: ")
    assert opinion.confidence is None
    assert not opinion.flagged


def test_the_instruction_is_what_is_asked() -> None:
    heard = []

    async def asked(instruction: str) -> object:
        heard.append(instruction)
        return "PASS"

    reviewed(asked)

    assert heard == ["is it good?"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (None, UNCONFIGURED),
        (has_none, "gave no answer: is it good? It is closed."),
        (errs, "failed: LookupError: is it good?"),
        (gives_up, "gave up"),
        (hangs, "did not answer within 0.01 s"),
        (hangs_on, "did not answer within 0.01 s"),
        (lambda _: "PASS", "failed: TypeError: object str can't be used in 'await' expression"),
    ],
)
def test_no_answer_speaks_against_the_work(asked: Any, why: str) -> None:
    review, judgement = reviewed(asked, within_s=SOON_S), judged(asked, within_s=SOON_S)

    assert review == Opinion(passed=False, detail=f"the reviewer {why}")
    assert judgement == Opinion(passed=False, detail=f"retry: the judge {why}", confidence=0.0)
    assert judgement.flagged


def test_an_answer_that_comes_too_late_does_not_count() -> None:
    async def late(instruction: str) -> object:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "PASS"
        return instruction

    assert not reviewed(late, within_s=SOON_S).passed


def test_an_error_that_comes_too_late_is_not_logged_as_overlooked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        reviewed(hangs_on, within_s=SOON_S)
        gc.collect()

    assert not caplog.records


def test_who_does_not_answer_is_told_to_stop() -> None:
    stopped = []

    async def asked(instruction: str) -> object:
        try:
            return await hangs(instruction)
        finally:
            stopped.append(instruction)

    reviewed(asked, within_s=SOON_S)

    assert stopped


def test_cancelling_stops_who_is_asked() -> None:
    stopped = []

    async def cancelled() -> None:
        asking = asyncio.Event()

        async def asked(instruction: str) -> object:
            asking.set()
            try:
                return await hangs(instruction)
            finally:
                stopped.append(instruction)

        task = asyncio.create_task(reviewer_says(asked, "a", within_s=NEVER_S))
        await asking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped

    asyncio.run(cancelled())


@pytest.mark.parametrize("said", [lambda one: one, json.dumps])
@pytest.mark.parametrize(
    ("answer", "passed", "flagged"),
    [
        ({"verdict": "accept", "confidence": 1}, True, False),
        ({"verdict": "accept", "confidence": 0.7}, True, False),
        ({"verdict": "accept", "confidence": 0.69}, True, True),
        ({"verdict": "retry", "confidence": 0.9}, False, False),
        ({"verdict": "retry", "confidence": 0.0}, False, True),
    ],
)
def test_a_judgement_counts_as_it_is_said_and_is_flagged_if_unsure(
    said: Callable[[Any], object],
    answer: dict[str, Any],
    passed: bool,  # noqa: FBT001 - a case
    flagged: bool,  # noqa: FBT001 - a case
) -> None:
    opinion = judged(answering(said(answer)))

    assert (opinion.passed, opinion.flagged) == (passed, flagged)
    assert opinion.confidence == answer["confidence"]
    assert opinion.detail == f"{answer['verdict']} with confidence {answer['confidence']:g}"


def test_a_judges_reason_is_kept() -> None:
    answer = {"verdict": "retry", "confidence": 0.8, "reason": "no\ntest"}

    assert judged(answering(answer)).detail == "retry with confidence 0.8: no test"


@pytest.mark.parametrize(
    "answer",
    [
        *["accept", "", "{", "[" * 50_000, "null", '{"verdict": "accept"}', None, 7, []],
        '{"verdict": "accept", "confidence": NaN}',
        'Sure! {"verdict": "accept", "confidence": 1}',
        '{"verdict": "accept", "confidence": 1}' + " " * 70_000,
        {"verdict": "accept", "confidence": 1.01},
        {"verdict": "accept", "confidence": -0.1},
        {"verdict": "accept", "confidence": "1"},
        {"verdict": "accept", "confidence": True},
        {"verdict": "ACCEPT", "confidence": 1},
        {"verdict": ["accept"], "confidence": 1},
        {"confidence": 1},
    ],
    ids=lambda answer: repr(answer)[:40],
)
def test_a_judgement_that_cannot_be_read_is_a_retry_without_confidence(answer: object) -> None:
    opinion = judged(answering(answer))

    assert (opinion.passed, opinion.confidence, opinion.flagged) == (False, 0.0, True)
    assert opinion.detail.startswith("retry: the judgement cannot be read: ")


@given(st.text() | st.binary() | st.dictionaries(st.text(), st.text()))
def test_rubbish_never_passes(answer: object) -> None:
    async def both() -> list[Opinion]:
        asked: Callable[[str], Awaitable[object]] = answering(answer)
        return [await reviewer_says(asked, "", within_s=1), await judge_says(asked, "", within_s=1)]

    assert not [one for one in asyncio.run(both()) if one.passed]
