"""The answers of the API to calls that it refuses: problem details of RFC 9457."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from interlock.kernel.errors import KernelError
from interlock.kernel.payload import problem_of
from interlock.workers.remote.problems import HEAD, KINDS, NO_TOKEN, ProblemKind, kind_of

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
DETAIL_LENGTH_MAX = 2_000


NO_VERSION = ProblemKind(428, "no-version", "Say which version you saw")
WRONG_HOST = ProblemKind(421, "wrong-host", "This name is not one of this computer")
NOT_SIGNED_IN = ProblemKind(403, "not-signed-in", "You are not signed in")
OTHER_SITE = ProblemKind(403, "other-site", "A page of another site has sent this")
TOO_MANY_CALLS = ProblemKind(429, "too-many-calls", "You call too often", 1)
TOO_MANY_AT_ONCE = ProblemKind(429, "too-many-at-once", "You make too many calls at once", 1)
BUSY = ProblemKind(503, "busy", "Too many calls are at work here now", 1)
TOO_SLOW = ProblemKind(408, "too-slow", "The body did not come in time")
BAD_REQUEST = ProblemKind(
    422, "invalid-request", "The request has not the form that it should have"
)
TOO_MANY_LISTENERS = ProblemKind(503, "too-many-listeners", "No more can listen here now", 5)
# What starlette and FastAPI refuse by themselves, by status.
WRONG_METHOD = ProblemKind(405, "wrong-method", "This address has other methods")
OF_HTTP = {
    400: ProblemKind(400, "unreadable", "The body cannot be read"),
    404: ProblemKind(404, "unknown-address", "There is nothing at this address"),
    405: WRONG_METHOD,
}


_PROBLEM = {
    "description": "A problem of RFC 9457. docs/api.md lists the kinds.",
    "content": {
        MEDIA_TYPE: {
            "schema": {
                "type": "object",
                "required": ["type", "title", "status", "detail"],
                "properties": {
                    "type": {"type": "string"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string"},
                    "problems": {"type": "array", "items": {"type": "string"}},
                },
            }
        }
    },
}
# What the description for tools says of every address.
PROBLEMS: dict[int | str, dict[str, Any]] = {"4XX": _PROBLEM, "5XX": _PROBLEM}


class RefusedRequestError(Exception):
    """A request that the API refuses before it calls the kernel."""

    def __init__(self, kind: ProblemKind, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.kind, self.more = kind, more


def problem_data(kind: ProblemKind, detail: str, **more: Any) -> dict[str, Any]:
    """Return a problem as the body of an answer, or as part of one."""
    shown = detail[:DETAIL_LENGTH_MAX]
    head = {"type": f"{HEAD}{kind.name}", "title": kind.title, "status": kind.status}
    return {**head, "detail": shown, **more}


def answer(kind: ProblemKind, detail: str, **more: Any) -> JSONResponse:
    """Return a problem as the answer to a request."""
    headers = {"Retry-After": str(kind.retry_after_s)} if kind.retry_after_s else {}
    if kind is NO_TOKEN:
        headers["WWW-Authenticate"] = "Bearer"
    content = problem_data(kind, detail, **more)
    return JSONResponse(content, kind.status, headers, media_type=MEDIA_TYPE)


def answer_refusal(refusal: KernelError) -> JSONResponse:
    """Return an error of the kernel as the answer to a request."""
    kind = kind_of(refusal)
    if kind.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("a request failed", exc_info=refusal)
    return answer(kind, str(refusal), **_more(refusal))


def refusal_data(refusal: KernelError) -> dict[str, Any]:
    """Return an error of the kernel as a problem."""
    return problem_data(kind_of(refusal), str(refusal), **_more(refusal))


def add_problem_answers(app: FastAPI) -> None:
    """Let an app answer every refusal and every fault with a problem."""

    @app.exception_handler(KernelError)
    def refused(_: Request, refusal: KernelError) -> JSONResponse:
        return answer_refusal(refusal)

    @app.exception_handler(RefusedRequestError)
    def refused_here(_: Request, refusal: RefusedRequestError) -> JSONResponse:
        return answer(refusal.kind, str(refusal), **refusal.more)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, refusal: RequestValidationError) -> JSONResponse:
        found = [problem_of(error) for error in refusal.errors()]
        return answer(BAD_REQUEST, "; ".join(found), problems=found)

    @app.exception_handler(HTTPException)
    def by_http(request: Request, refusal: HTTPException) -> JSONResponse:
        kind = OF_HTTP.get(refusal.status_code, BAD_REQUEST)
        answered = answer(kind, str(refusal.detail))
        answered.headers.update(refusal.headers or {})
        if kind is WRONG_METHOD and (methods := _methods(request)):
            answered.headers["Allow"] = methods
        return answered

    @app.exception_handler(Exception)
    def failed(_: Request, fault: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=fault)
        return answer(KINDS[KernelError], "the log of this server has the error")


def _methods(request: Request) -> str:
    """Return the methods of an address. Starlette knows those of one of its functions only."""
    address = getattr(request.scope.get("route"), "path_format", "")
    return ", ".join(sorted(request.app.openapi()["paths"].get(address, ()))).upper()


def _more(refusal: KernelError) -> dict[str, Any]:
    problems = getattr(refusal, "problems", None)
    return {"problems": list(problems)} if problems else {}
