"""How a codon that is a model reports on itself: lines, and a ledger that tells what it books."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from interlock.workers.gateways.llm.ledger import Bound, Ledger
from interlock.workers.specs.json_line import as_line
from interlock.workers.supervision.reports import WAIT_S_MAX
from interlock.workers.supervision.session_reports import TokenCounts, plain_text

# A line takes 64 KiB, and a character may become six bytes of it.
_LINE_ROOM_BYTES = 60_000
_CERTAIN_TO_FIT = 8_000


class Teller:
    """Writes reports, one line each, to whoever keeps the codon."""

    def __init__(self, descriptor: int | None) -> None:
        """Write to a descriptor; None is nobody."""
        self._descriptor = descriptor

    def tell(self, kind: str, **fields: object) -> None:
        """Write one report. Raises BrokenPipeError where nobody reads it any more."""
        left = as_line({"type": kind, **fields}).encode()
        while left and self._descriptor is not None:
            left = left[os.write(self._descriptor, left) :]

    def tell_text(self, kind: str, field: str, text: str) -> None:
        """Write a report that is a text, cut to what a line takes."""
        self.tell(kind, **{field: fitting(text)})

    def tell_failed(self, error: str, *, retry_after_s: float | None) -> None:
        """Write that the agent cannot go on."""
        fields: dict[str, object] = {"error": fitting(error)}
        if retry_after_s is not None and 0 <= retry_after_s <= WAIT_S_MAX:
            fields["retry_after_s"] = -int(-retry_after_s // 1)
        self.tell("failed", **fields)


class TellingLedger(Ledger):
    """A ledger of which each booking is reported, with its kinds of tokens."""

    def __init__(self, bound: Bound, teller: Teller) -> None:
        super().__init__(bound)
        self._teller = teller
        self._told_micro = 0
        self.tokens = TokenCounts()

    def unmeasured(self) -> None:
        """Book and report a request that may be billed, but whose usage is not known."""
        super().unmeasured()
        self._tell(TokenCounts())

    def measured(self, response: ModelResponse) -> None:
        """Book and report a response, and what it says."""
        unmeasured = self.usage.unmeasured
        super().measured(response)
        if response.text:
            self._teller.tell_text("message", "text", response.text)
        if self.usage.unmeasured == unmeasured:
            self._tell(kinds_of(response.usage))

    def tell_final(self) -> None:
        """Report the sum of all bookings."""
        self._teller.tell("final_costs", cost_micro=self.cost_micro, tokens=asdict(self.tokens))

    def _tell(self, tokens: TokenCounts) -> None:
        added_micro, self._told_micro = self.cost_micro - self._told_micro, self.cost_micro
        self.tokens = self.tokens.plus(tokens)
        self._teller.tell("usage", cost_micro=added_micro, **_in_usage(tokens))


def kinds_of(usage: RequestUsage) -> TokenCounts:
    """Return the tokens of a request by kind; a provider's input has those of its cache in it."""
    created = min(max(0, usage.cache_write_tokens), usage.input_tokens)
    read = min(max(0, usage.cache_read_tokens), usage.input_tokens - created)
    return TokenCounts(usage.input_tokens - created - read, usage.output_tokens, created, read)


def fitting(text: str) -> str:
    """Return the text as a report takes it."""
    told = plain_text(text)
    size = len(json.dumps(told, ensure_ascii=False).encode())
    return told if size <= _LINE_ROOM_BYTES else plain_text(text, length_max=_CERTAIN_TO_FIT)


def _in_usage(tokens: TokenCounts) -> Mapping[str, int]:
    return {
        "tokens_in": tokens.input_tokens,
        "tokens_out": tokens.output_tokens,
        "cache_creation_tokens": tokens.cache_creation_tokens,
        "cache_read_tokens": tokens.cache_read_tokens,
    }
