"""Calls the HTTP API. Each call is repeated until it is answered, or has failed some times."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import JsonValue, TypeAdapter, ValidationError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
)

from interlock.kernel.errors import InvalidPayloadError, StoreDownError
from interlock.kernel.store import codec
from interlock.workers.config import SettingsError, read_settings
from interlock.workers.engine.trace_context import current_traceparent
from interlock.workers.gateways.server import LOOPBACK
from interlock.workers.remote.problems import RemoteError, error_of
from interlock.workers.up_file import api_of_up, read_token

T = TypeVar("T")
TIMEOUT_S = 30.0
ATTEMPTS_MAX = 4
PAUSE_S_MAX = 10
BUSY = (429, 503)  # a call that is answered so may be repeated
BODY_BYTES_MAX = codec.PAYLOAD_BYTES_MAX
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class NearbyUp:
    """The `interlock up` of the same user, to whose API calls without a token may go."""

    home: Path

    @classmethod
    def of(cls, url: str) -> NearbyUp | None:
        """Return what may be at an address; None if it is at no address of an `up`.

        That is never a name: `localhost` may lead to a program of another user.
        """
        if url and urlsplit(url).hostname != LOOPBACK:
            return None
        return cls(read_settings(is_final=False).home)

    @property
    def address(self) -> str:
        """The address of its API, '' if it does not run."""
        return api_of_up(self.home)

    def token(self, url: str) -> str:
        """Return the token for a call to an address; '' if that is not its own."""
        address = self.address
        if not address or urlsplit(address)[:2] != urlsplit(url)[:2]:
            return ""
        with suppress(SettingsError):  # it asks for no token, or for those of holders
            return read_token(self.home)
        return ""


class ApiConnection:
    """The address of an API, and what each call shows of its caller."""

    def __init__(self, url: str, token: str, actor: str, http: httpx2.Client | None) -> None:
        """Call nothing yet. `actor` is a claimed name, for who shows no token of a holder.

        Without an address it is that of the `interlock up` that runs here. Raises SettingsError.
        """
        self._up = None if token else NearbyUp.of(url)
        # An HTTP client that is given may know the address.
        self.url = url.rstrip("/") if url or http else self._address_here()
        # A proxy, which the environment may name, would read the token of `up`.
        self.http = http or httpx2.Client(timeout=TIMEOUT_S, mounts={f"all://{LOOPBACK}": None})
        self._token, self._actor = token, actor

    @property
    def headers(self) -> dict[str, str]:
        """What a call shows: a token, or a claimed name, which `interlock up` takes with its own.

        A token of `up` is read for each call, as each start of `up` makes another.
        """
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        token = self._up.token(self.url) if self._up else ""
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        return {"X-Interlock-Actor": self._actor, **shown}

    def _address_here(self) -> str:
        address = self._up.address if self._up else ""
        if not address:
            raise SettingsError("no API runs here: start `interlock up`, or name its address")
        return address

    def call(
        self,
        read: Callable[[Any], T],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> T:
        """Call the API, and return what `read` makes of its answer. Raises KernelError."""
        sent = {**self.headers, **(headers or {})} | ({"Idempotency-Key": key} if key else {})
        if span := current_traceparent():
            sent["traceparent"] = span
        _check_headers(sent)
        content = None
        if body is not None:
            content = encoded(body)
            sent["Content-Type"] = "application/json"
        try:
            answer = _repeated(
                self.http.request,
                method,
                f"{self.url}{path}",
                content=content,
                headers=sent,
                params=query,
            )
        except httpx2.HTTPError as fault:
            raise StoreDownError(f"{self.url} does not answer: {fault}") from fault
        return self.parsed(read, self._value(answer))

    def parsed(self, read: Callable[[Any], T], value: Any) -> T:
        """Return what `read` reads from an answer of the API. Raises RemoteError if it cannot."""
        try:
            return read(value)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
            said, _, _ = str(fault).partition("\n")  # a shape that is refused has many lines
            raise self._other_shape(f"{type(fault).__name__}: {said}") from fault

    def _other_shape(self, why: str) -> RemoteError:
        return RemoteError(
            f"{self.url} answers in another shape than the API of Interlock does ({why}): another"
            " program, or another version of Interlock, is at this address; correct"
            " INTERLOCK_API_URL or the address that HttpClient was given"
        )

    def stream(
        self, path: str, headers: Mapping[str, str], query: Mapping[str, Any], *, kind: str = EVENTS
    ) -> httpx2.Response:
        """Begin to read an answer of this type part by part, and return it. Raises KernelError."""
        sent = {**self.headers, **headers}
        _check_headers(sent)
        request = self.http.build_request("GET", f"{self.url}{path}", headers=sent, params=query)
        try:
            answer: httpx2.Response = _repeated(self.http.send, request, stream=True)
        except httpx2.HTTPError as fault:
            raise StoreDownError(f"{self.url} does not answer: {fault}") from fault
        if not answer.is_success:
            with closing(answer):
                answer.read()
            self._value(answer)
        found = answer.headers.get("Content-Type", "")
        if not found.startswith(kind):
            answer.close()
            raise self._other_shape(f"{found or 'no type'} where {kind} is expected")
        return answer

    def _value(self, answer: httpx2.Response) -> Any:
        """Return the value of an answer. Raises the error that it stands for."""
        try:
            value = answer.json()
        except ValueError as fault:
            raise RemoteError(
                f"{self.url} is no API of Interlock: it sent no JSON; correct the address"
            ) from fault
        if not answer.is_success:
            raise error_of(value if isinstance(value, dict) else {})
        return value


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise InvalidPayloadError for a name, a key or a position that no header can have."""
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            shown = "the token" if name == "Authorization" else repr(value)
            problem = f"{shown} has other characters than the visible ones of ASCII"
            raise InvalidPayloadError(f"the header {name}", [problem])


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON of at most BODY_BYTES_MAX. Raises InvalidPayloadError.

    All keys must be text: JSON would make text of others in silence.
    """
    try:
        value = _JSON.validate_python(body)
    except ValidationError as refusal:
        raise InvalidPayloadError("the body", ["it is not JSON"]) from refusal
    return codec.encode(value, "the body", BODY_BYTES_MAX)


def _pause_s(state: RetryCallState) -> float:
    """Return the seconds to wait: as the API asks, if that is not long, or about half a one."""
    done = state.outcome
    asked = "" if done is None or done.failed else done.result().headers.get("Retry-After", "")
    if asked.isdecimal():
        return min(int(asked[:9]), PAUSE_S_MAX)  # Python reads no number of thousands of digits
    return random.uniform(0.2, 1.2)  # noqa: S311 - no secret


def _is_busy(answer: httpx2.Response) -> bool:
    return answer.status_code in BUSY


_JSON = TypeAdapter(dict[str, JsonValue])
# After the last attempt, its answer is returned or its error is raised.
_repeated = Retrying(
    retry=retry_if_exception_type(httpx2.TransportError) | retry_if_result(_is_busy),
    wait=_pause_s,
    stop=stop_after_attempt(ATTEMPTS_MAX),
    retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
)
