"""Which failures of a provider are tried again, and after how long."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
    wait_random,
)

from interlock.workers.gateways.llm.options import Sleep

FIRST_WAIT_S = 0.5
STATUSES = frozenset({408, 425, 429})
SERVER_ERROR = 500


def is_timeout(error: BaseException | None) -> bool:
    """Whether the provider was too slow."""
    return isinstance(error, ModelRequestTimeout | ModelTimeoutError)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    match error:
        case ModelQuotaExceededError():
            # Often a 429 as well, but no wait adds credit to an account.
            return False
        case ModelHTTPError(provider_retry_hint=False):
            return False
        case ModelHTTPError(status_code=status):
            return status in STATUSES or status >= SERVER_ERROR
        case ModelRequestTimeout() | ModelConnectionError():
            return True
        case ModelRateLimitError() | ModelUnavailableError() | ModelServerError():
            return True
        case _:
            return False


def retrying(
    *,
    attempts_max: int,
    wait_s_max: float,
    time_s_max: float,
    may_retry: Callable[[], bool],
    sleep: Sleep,
) -> AsyncRetrying:
    """Return the loop of attempts around a model, with a limit of attempts and of total time.

    The loop ends instead of a wait that would last beyond the total time.
    """
    backoff = wait_exponential(FIRST_WAIT_S, wait_s_max) + wait_random(0, FIRST_WAIT_S)

    def wait_s(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, ModelAPIError) and error.retry_after is not None:
            return min(error.retry_after, wait_s_max)
        return min(backoff(state), wait_s_max)

    return AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(attempts_max) | stop_before_delay(time_s_max),
        wait=wait_s,
        retry=retry_if_exception(lambda error: may_retry() and is_transient(error)),
        reraise=True,
    )
