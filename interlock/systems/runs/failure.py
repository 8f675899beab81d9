"""Classifies why a codon failed, by the text of its agent's or its provider's error. Pure.

The first row that fits decides:

| the text mentions                                    | type       | tried again             |
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

from interlock.system.text import one_line
from interlock.systems.runs.machines.limits import RETRY_AFTER_MS_MAX
from interlock.systems.runs.machines.values import FailureType

ERROR_LENGTH_READ = 16_000


@dataclass(frozen=True, slots=True)
class CodonFailure:
    """Why a codon failed, in one sentence, and whether trying again may succeed."""

    type: FailureType
    retriable: bool
    message: str
    retry_after_ms: int | None = None
    sentinel_refs: tuple[str, ...] = ()

    @property
    def payload(self) -> dict[str, Any]:
        """Return the fields that the record of a codon stores."""
        fields: dict[str, Any] = {
            "type": self.type.value,
            "retriable": self.retriable,
            "message": self.message,
        }
        if self.retry_after_ms is not None:
            fields["retry_after_ms"] = self.retry_after_ms
        if self.sentinel_refs:
            fields["sentinel_refs"] = list(self.sentinel_refs)
        return fields


def classify_failure(
    text: str, *, session_opened: bool, retry_after_ms: int | None = None
) -> CodonFailure:
    """Classify the text of an error by the table at the top of this module.

    `retry_after_ms` is the delay that a provider named beside its text; otherwise the text may name
    one. A delay of more than an hour is ignored, and a failure that is not retried has none.
    """
    examined = text[:ERROR_LENGTH_READ]
    failure_type, retriable = FailureType.UNKNOWN, session_opened
    for pattern, pattern_type, pattern_retriable in _KINDS:
        if pattern.search(examined):
            failure_type, retriable = pattern_type, pattern_retriable
            break
    delay_ms = _delay_ms(examined) if retry_after_ms is None else retry_after_ms
    usable = retriable and delay_ms is not None and 0 <= delay_ms <= RETRY_AFTER_MS_MAX
    message = one_line(text) or "no reason was given"
    return CodonFailure(failure_type, retriable, message, delay_ms if usable else None)


def is_context_exceeded(text: str) -> bool:
    """Return whether an error says that the conversation is longer than the model can read."""
    return _CONTEXT_EXCEEDED.search(text[:ERROR_LENGTH_READ]) is not None


def sentinel_load_failure(refs: tuple[str, ...], *, why: str) -> CodonFailure:
    """Return the failure of a codon whose sentinels cannot be loaded, which is not retried."""
    message = one_line(f"these sentinels cannot be loaded: {', '.join(refs)}: {why}")
    return CodonFailure(
        FailureType.SENTINEL_LOAD_FAILURE, retriable=False, message=message, sentinel_refs=refs
    )


def _delay_ms(text: str) -> int | None:
    found = _DELAY.search(text)
    if found is None:
        return None
    return round(float(found["number"]) * _UNITS_MS[(found["unit"] or "s").lower()[:2].strip()])


def _status(codes: str) -> str:
    """Return the pattern of a status code: a number of three digits after a word like "status"."""
    word = r"(?<![a-z])(?:status|error|code|http(?:/[\d.]+)?)"
    return rf"{word}(?:[\s:=_(]{{1,3}}(?:status|code)){{0,2}}[\s:=(\"']{{1,4}}{codes}\b"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# A delay without a unit is in seconds, as in HTTP.
_DELAY = re.compile(
    r"(?:retry[-_ ]?after|(?:try|retry) again (?:in|after)|retry in)[\"']?[\s:=]{0,3}"
    r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s?"
    r"(?P<unit>ms|milliseconds?|minutes?|mins?|m|seconds?|secs?|s)?\b",
    re.IGNORECASE,
)
_CONTEXT_EXCEEDED = _any(
    r"\b(?:prompt|input|conversation|request) is too long",
    r"\b(?:prompt|input)[-_ ]too[-_ ]long",
    r"\bcontext[-_ ](?:length|window|limit)[-_ ]?(?:is |was |has been )?(?:exceeded|exhausted)",
    r"\bexceed\w*\s(?:\S+\s){0,4}context[-_ ](?:length|window|limit|size)",
    r"\bmaximum context length\b",
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
          _CONTEXT_EXCEEDED.pattern),
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
