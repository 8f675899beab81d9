"""The reports of a model's codon on what it costs: one of each booking."""

from __future__ import annotations

from collections import Counter

from pydantic_ai.usage import RequestUsage

from interlock.system.agents import ReportWriter

# In a report of usage two kinds of tokens have other names than in one of total costs.
IN_USAGE = {"input_tokens": "tokens_in", "output_tokens": "tokens_out"}


class BookingReports:
    """Reports each booking of a question, with its tokens by kind."""

    def __init__(self, reports: ReportWriter) -> None:
        self._reports = reports
        self._cost_micro = 0
        self.tokens = Counter[str]()

    def report(self, cost_micro: int, usage: RequestUsage | None, text: str) -> None:
        """Report the text and the costs of a request; without its usage it may be billed."""
        if text:
            self._reports.write("message", text=text)
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
