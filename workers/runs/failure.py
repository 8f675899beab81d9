"""Why a codon failed, worked out from what its agent or its provider said; it tries nothing again.

The first line that fits decides:

| the text speaks of                                   | type       | tried again             |
|------------------------------------------------------|------------|-------------------------|
| a limit of requests                                  | rate-limit | yes                     |
| a bill, a quota, a credit                            | api-error  | no                      |
| the credentials of a cloud                           | api-error  | no                      |
| a time that ran out                                  | timeout    | yes                     |
| status 401 or 403, an authentication                 | api-error  | no                      |
| status 400, an invalid request, too long a prompt    | api-error  | no                      |
| status 429                                           | rate-limit | yes                     |
| a connection, a transport                            | api-error  | yes                     |
| status 500 to 599, an overload                       | api-error  | yes                     |
| anything else                                        | unknown    | if a session was opened |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from interlock.kernel.machines.runs.values import FailureType
from interlock.workers.supervision.session_reports import CONTEXT_EXCEEDED, ERROR_LENGTH_READ
from interlock.workers.text import sentence

RETRY_AFTER_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a codon failed, and whether the same may succeed later. The message is one sentence."""

    type: FailureType
    retriable: bool
    message: str
    retry_after_ms: int | None = None
    sentinel_refs: tuple[str, ...] = ()

    @property
    def payload(self) -> dict[str, Any]:
        """Return the shape that a codon's record takes."""
        told: dict[str, Any] = {
            "type": self.type.value,
            "retriable": self.retriable,
            "message": self.message,
        }
        if self.retry_after_ms is not None:
            told["retry_after_ms"] = self.retry_after_ms
        if self.sentinel_refs:
            told["sentinel_refs"] = list(self.sentinel_refs)
        return told


def failure_of(text: str, *, session_opened: bool, retry_after_ms: int | None = None) -> Failure:
    """Return the failure that an error's text tells.

    `retry_after_ms` is what a provider wished for beside its text; one above an hour is ignored,
    and so is one in the text. A failure that is not tried again has none.
    """
    looked_at = text[:ERROR_LENGTH_READ]
    kind, retriable = FailureType.UNKNOWN, session_opened
    for pattern, of, again in _KINDS:
        if pattern.search(looked_at):
            kind, retriable = of, again
            break
    wished = _wished_ms(looked_at) if retry_after_ms is None else retry_after_ms
    good = retriable and wished is not None and 0 <= wished <= RETRY_AFTER_MS_MAX
    said = sentence(text) or "no reason was given"
    return Failure(kind, retriable, said, wished if good else None)


def sentinels_not_loaded(refs: tuple[str, ...], *, why: str) -> Failure:
    """Return the failure of a codon whose sentinels cannot be loaded; trying again loads none."""
    named = ", ".join(refs)
    said = sentence(f"these sentinels cannot be loaded: {named}: {why}")
    return Failure(
        FailureType.SENTINEL_LOAD_FAILURE, retriable=False, message=said, sentinel_refs=refs
    )


def _wished_ms(text: str) -> int | None:
    found = _WISH.search(text)
    if found is None:
        return None
    return round(float(found["number"]) * _UNITS_MS[(found["unit"] or "s").lower()[:2].strip()])


def _status(codes: str) -> str:
    """Return the pattern of a status, which is not just any number of three digits."""
    word = r"(?<![a-z])(?:status|error|code|http(?:/[\d.]+)?)"
    return rf"{word}(?:[\s:=_(]{{1,3}}(?:status|code)){{0,2}}[\s:=(\"']{{1,4}}{codes}\b"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# A wait is in seconds where no unit is named, as in HTTP.
_WISH = re.compile(
    r"(?:retry[-_ ]?after|(?:try|retry) again (?:in|after)|retry in)[\"']?[\s:=]{0,3}"
    r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s?"
    r"(?P<unit>ms|milliseconds?|minutes?|mins?|m|seconds?|secs?|s)?\b",
    re.IGNORECASE,
)
_UNITS_MS = {"ms": 1, "mi": 60_000, "m": 60_000, "s": 1_000, "se": 1_000}
# fmt: off
_KINDS = (
    (_any(r"\brate[-_ ]?limit", r"\btoo[-_ ]many[-_ ]requests\b",
          r"\b(?:requests|tokens) per (?:minute|hour|day)\b", r"\bthrottl(?:ed|ing)"),
     FailureType.RATE_LIMIT, True),
    (_any(r"\bbilling\b", r"quota", r"\bcredits?\b", r"\bpayment required\b", _status("402")),
     FailureType.API_ERROR, False),
    (_any(r"\bbedrock\b.{0,200}\b(?:credential|token|profile|region)",
          r"\b(?:aws|cloud|gcp|azure|vertex)\b.{0,80}\bcredential",
          r"\b(?:load|find|locate|obtain)\b.{0,40}\bcredentials\b",
          r"\bexpired ?token", r"\bunrecognized ?client", r"\bsecurity token\b"),
     FailureType.API_ERROR, False),
    (_any(r"timed?[-_ ]?out", r"\bdeadline[-_ ]exceeded\b", r"\bdid not answer within\b",
          _status("(?:408|504)")),
     FailureType.TIMEOUT, True),
    (_any(_status("40[13]"), r"\bauthenticat", r"\bunauthori[sz]ed\b", r"\bforbidden\b",
          r"\bpermission[-_ ]denied\b", r"\b(?:invalid|incorrect|missing)\b.{0,20}\bapi[-_ ]?key",
          r"\bnot logged in\b"),
     FailureType.API_ERROR, False),
    (_any(_status("(?:400|413|422)"), r"\binvalid[-_ ]request", r"\bbad request\b",
          CONTEXT_EXCEEDED.pattern),
     FailureType.API_ERROR, False),
    (_any(_status("429")),
     FailureType.RATE_LIMIT, True),
    (_any(r"\bconnection\b", r"\bconnect(?:ed)? (?:to|error|failed)",
          r"\bECONN(?:RESET|REFUSED|ABORTED)\b", r"\bE(?:PIPE|NOTFOUND|AI_AGAIN|HOSTUNREACH)\b",
          r"\bsocket\b", r"\bbroken pipe\b", r"\bfetch failed\b", r"\btransport\b",
          r"\bnetwork (?:error|is|unreachable|failure)", r"\bcould not be reached\b",
          r"\bname (?:or service|resolution)\b", r"\b(?:ssl|tls)\b.{0,40}\b(?:error|fail)"),
     FailureType.API_ERROR, True),
    (_any(_status(r"5\d\d"), r"\boverloaded\b", r"\boverload", r"\binternal server error\b",
          r"\bbad gateway\b", r"\bservice (?:is )?(?:temporarily )?unavailable\b",
          r"\bserver[-_ ]error\b"),
     FailureType.API_ERROR, True),
)
# fmt: on
