"""The reports of a model's codon: lines of JSON, among them one of each booking."""

from __future__ import annotations

import json
import os
from collections import Counter

from pydantic_ai.usage import RequestUsage

from interlock.system.files import plain_text

# A line holds 64 KiB, and one character may take six bytes of it.
_LINE_ROOM_BYTES = 60_000
_LENGTH_ALWAYS_FITTING = 8_000
# In a report of usage two kinds of tokens have other names than in one of total costs.
IN_USAGE = {"input_tokens": "tokens_in", "output_tokens": "tokens_out"}
RETRY_AFTER_S_MAX = 86_400  # no report may name a longer delay


class ReportWriter:
    """Writes reports, one line each, to the codon's supervisor."""

    def __init__(self, descriptor: int | None) -> None:
        """Write to a file descriptor; with None every report is dropped."""
        self._descriptor = descriptor

    def write(self, kind: str, **fields: object) -> None:
        """Write one report. Raises BrokenPipeError where the reader is gone."""
        left = json.dumps({"type": kind, **fields}, ensure_ascii=False).encode() + b"\n"
        while left and self._descriptor is not None:
            left = left[os.write(self._descriptor, left) :]

    def write_text(self, kind: str, field: str, text: str) -> None:
        """Write a report with one text, cut to the length that a line can hold."""
        self.write(kind, **{field: cut_to_report(text)})

    def write_failed(self, error: str, *, retry_after_s: float | None) -> None:
        """Write that the agent failed, and after which time trying again may succeed."""
        fields: dict[str, object] = {"error": cut_to_report(error)}
        if retry_after_s is not None and 0 <= retry_after_s <= RETRY_AFTER_S_MAX:
            fields["retry_after_s"] = -int(-retry_after_s // 1)
        self.write("failed", **fields)


class BookingReports:
    """Reports each booking of a question, with its tokens by kind."""

    def __init__(self, reports: ReportWriter) -> None:
        self._reports = reports
        self._cost_micro = 0
        self.tokens = Counter[str]()

    def report(self, cost_micro: int, usage: RequestUsage | None, text: str) -> None:
        """Report the text and the costs of a request; without its usage it may be billed."""
        if text:
            self._reports.write_text("message", "text", text)
        tokens = tokens_of(usage) if usage is not None else Counter[str]()
        self._cost_micro += cost_micro
        self.tokens += tokens
        named = {IN_USAGE.get(name, name): number for name, number in tokens.items()}
        self._reports.write("usage", cost_micro=cost_micro, **named)

    def report_total(self) -> None:
        """Report the sum of all bookings."""
        self._reports.write("final_costs", cost_micro=self._cost_micro, tokens=self.tokens)


def tokens_of(usage: RequestUsage) -> Counter[str]:
    """Return the tokens of a request by kind.

    A provider counts the tokens of its cache as input too, so they are subtracted from it.
    """
    created = min(max(0, usage.cache_write_tokens), usage.input_tokens)
    read = min(max(0, usage.cache_read_tokens), usage.input_tokens - created)
    return Counter(
        input_tokens=usage.input_tokens - created - read,
        output_tokens=usage.output_tokens,
        cache_creation_tokens=created,
        cache_read_tokens=read,
    )


def cut_to_report(text: str) -> str:
    """Return a text that JSON can carry, cut to the length that a line can hold."""
    plain = plain_text(text)
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    return (
        plain if size <= _LINE_ROOM_BYTES else plain_text(text, length_max=_LENGTH_ALWAYS_FITTING)
    )
