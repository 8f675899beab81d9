"""The classification of failures by texts that programs and providers print."""

from __future__ import annotations

import pytest

from interlock.systems.runs.failure import (
    CodonFailure,
    classify_failure,
    is_context_exceeded,
    sentinel_load_failure,
)
from interlock.systems.runs.machines.limits import RETRY_AFTER_MS_MAX
from interlock.systems.runs.machines.values import FailureReason, FailureType

LIMIT, API = FailureType.RATE_LIMIT, FailureType.API_ERROR
LATE, UNKNOWN = FailureType.TIMEOUT, FailureType.UNKNOWN
TOO_LONG = (
    "API Error: 400 prompt is too long: 210000 tokens > 200000 maximum",
    "openai:x refused with status 400 (This model's maximum context length is 128000 tokens)",
    "context_length_exceeded",
    "the request exceeds the available context size",
    "Context window exceeded",
    "prompt_too_long",
)


@pytest.mark.parametrize(
    ("text", "kind", "retriable"),
    [
        ("You have hit your rate limit.", LIMIT, True),
        ('{"type":"rate_limit_error"}', LIMIT, True),
        ("Too Many Requests", LIMIT, True),
        ("40000 tokens per minute are used", LIMIT, True),
        ("You exceeded your current quota, please check your plan", API, False),
        ("Error code: 429 - insufficient_quota", API, False),
        ("Your credit balance is too low to access the API", API, False),
        ("402 of the API: billing is not set up", API, False),
        ("Bedrock: the security token included in the request is expired", API, False),
        ("ExpiredTokenException: renew it", API, False),
        ("Could not load the default credentials.", API, False),
        ("Request timed out.", LATE, True),
        ("connect ETIMEDOUT 10.0.0.1:443", LATE, True),
        ("ReadTimeout", LATE, True),
        ("openai:x did not answer within 120 s.", LATE, True),
        ("HTTP 504", LATE, True),
        ("openai:x refused with status 401 (no such key) after 1 request.", API, False),
        ("API Error: 403 {}", API, False),
        ("authentication_error", API, False),
        ("Incorrect API key provided", API, False),
        ("status_code: 400, model_name: x", API, False),
        ("invalid_request_error", API, False),
        *((text, API, False) for text in TOO_LONG),
        ("Error code: 429", LIMIT, True),
        ('{"code": 429}', LIMIT, True),
        ("read ECONNRESET", API, True),
        ("Connection error.", API, True),
        ("TypeError: fetch failed", API, True),
        ("openai:x could not be reached or understood after 1 request: x", API, True),
        ("API Error: 529 {}", API, True),
        ("HTTP/1.1 503", API, True),
        ("Overloaded", API, True),
        ("internal server error", API, True),
    ],
)
def test_a_text_is_a_failure_of_its_kind(text: str, kind: FailureType, *, retriable: bool) -> None:
    for opened in (True, False):
        failure = classify_failure(text, session_opened=opened)

        assert (failure.type, failure.retriable) == (kind, retriable)
        assert failure.message == text


@pytest.mark.parametrize(
    ("text", "kind", "retriable"),
    [
        ("rate limit reached: add credits", LIMIT, True),
        ("billing: the request timed out", API, False),
        ("no AWS credentials: timed out", API, False),
        ("timed out with status 401", LATE, True),
        ("status 401 while status 400", API, False),
        ("status 400 behind status 429", API, False),
        ("status 429 on a lost connection", LIMIT, True),
    ],
)
def test_of_two_kinds_the_one_that_is_looked_for_first_counts(
    text: str, kind: FailureType, *, retriable: bool
) -> None:
    failure = classify_failure(text, session_opened=True)

    assert (failure.type, failure.retriable) == (kind, retriable)


@pytest.mark.parametrize(
    "text",
    ["", "Traceback: KeyError 'x'", "401 rows were read, 429 written", "line 500", "accreditation"],
)
def test_what_is_of_no_kind_is_tried_again_only_where_a_session_was(text: str) -> None:
    assert classify_failure(text, session_opened=True) == CodonFailure(
        UNKNOWN, retriable=True, message=text or "no reason was given"
    )
    assert not classify_failure(text, session_opened=False).retriable


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("rate limit; retry-after: 30", 30_000),
        ('rate limit {"retry_after": 2.5}', 2_500),
        ("rate limit. Please try again in 6.5s.", 6_500),
        ("rate limit, retry after 250ms", 250),
        ("rate limit, try again in 2 minutes", 120_000),
        ("rate limit, try again in 3 min", 180_000),
        ("rate limit, retry after 3600 seconds", RETRY_AFTER_MS_MAX),
        ("rate limit, retry after 3601 seconds", None),
        ("rate limit, try again later", None),
        ("your quota is used up, try again in 5 s", None),
    ],
)
def test_a_delay_in_the_text_is_read_up_to_an_hour(text: str, delay_ms: int | None) -> None:
    assert classify_failure(text, session_opened=True).retry_after_ms == delay_ms


@pytest.mark.parametrize(
    ("named_ms", "delay_ms"), [(0, 0), (1_500, 1_500), (RETRY_AFTER_MS_MAX + 1, None), (-1, None)]
)
def test_a_delay_beside_the_text_counts_before_the_text(
    named_ms: int, delay_ms: int | None
) -> None:
    text = "rate limit, retry after 9 s"

    failure = classify_failure(text, session_opened=True, retry_after_ms=named_ms)

    assert failure.retry_after_ms == delay_ms


def test_a_failure_has_the_shape_that_a_record_takes() -> None:
    waits = classify_failure("rate\n limit" * 4_000, session_opened=True, retry_after_ms=7)
    unloaded = sentinel_load_failure(("a", "b"), why="no such file")

    assert FailureReason.model_validate(waits.payload).retry_after_ms == 7
    assert "\n" not in waits.message
    assert len(waits.message) <= 500
    failure = FailureReason.model_validate(unloaded.payload)
    assert failure.type is FailureType.SENTINEL_LOAD_FAILURE
    assert not failure.retriable
    assert list(failure.sentinel_refs or ()) == ["a", "b"]
    assert failure.message == "these sentinels cannot be loaded: a, b: no such file"


@pytest.mark.parametrize("text", TOO_LONG)
def test_too_long_a_conversation_is_recognised_by_its_text(text: str) -> None:
    assert is_context_exceeded(text)


@pytest.mark.parametrize(
    "text",
    ["", "it took too long", "40000 tokens per minute", "the context is clear", "status 400"],
)
def test_other_texts_speak_of_no_full_context(text: str) -> None:
    assert not is_context_exceeded(text)
