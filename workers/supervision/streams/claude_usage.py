"""Sums the tokens and costs that a process of Claude Code reports.

The stream has two rules. All assistant lines with one message id repeat the usage of one request,
so it counts once. A result line repeats the totals of the whole process, so only the excess over
the sum so far is new. It also corrects the output tokens, because assistant lines have their number
at the beginning of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from interlock.workers.specs.json_line import LineError, read_number, shown
from interlock.workers.supervision.reports import RejectedLine, TokensUsed

MESSAGES_MAX = 1_000
_COST_USD_MAX = 1_000_000_000
_INPUT_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MODEL_INPUT_FIELDS = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")


class ClaudeUsage:
    """The sums of one session, and the size of its context window once a result gives it."""

    def __init__(self) -> None:
        self._session: object = None
        self._counted: dict[object, tuple[int, int]] = {}
        self._tokens_in = self._tokens_out = self._cost_micro = 0
        self._model: object = None
        self._context_size: int | None = None

    def begin(self, session: object) -> None:
        """Start from zero, unless it is the same session."""
        if session != self._session:
            self._session = session
            self._counted = {}
            self._tokens_in = self._tokens_out = self._cost_micro = 0

    def of_message(
        self, message: Mapping[str, Any], *, main: bool
    ) -> TokensUsed | RejectedLine | None:
        """Return what an assistant's message adds, if anything.

        A message that is not of the main conversation says nothing of its context window.
        """
        try:
            return self._of_message(message, main=main)
        except LineError as error:
            return RejectedLine(str(error))

    def of_result(self, result: Mapping[str, Any]) -> TokensUsed | RejectedLine | None:
        """Return the usage that a result line adds to the sums so far, if it has totals."""
        try:
            return self._of_result(result)
        except LineError as error:
            return RejectedLine(str(error))

    def _of_message(self, message: Mapping[str, Any], *, main: bool) -> TokensUsed | None:
        usage = message.get("usage")
        if not isinstance(usage, Mapping):
            return None
        tokens_in, tokens_out = _sum(usage, _INPUT_FIELDS), _sum(usage, ("output_tokens",))
        if not tokens_in:
            # The program's own notices are messages of a model with a usage of zeros.
            return None
        added_in, added_out = self._added(message.get("id"), tokens_in, tokens_out)
        if main:
            self._model = message.get("model")
        if not added_in and not added_out:
            return None
        return TokensUsed(
            tokens_in=added_in,
            tokens_out=added_out,
            context_used=tokens_in if main else None,
            context_size=self._context_size if main else None,
        )

    def _of_result(self, result: Mapping[str, Any]) -> TokensUsed | None:
        totals = _totals(result)
        window = _window(result, self._model)
        cost_micro = self._added_cost(result.get("total_cost_usd"))
        if totals is None and window is None and cost_micro is None:
            return None
        self._context_size = window or self._context_size
        tokens_in = tokens_out = None
        if totals is not None:
            tokens_in = max(0, totals[0] - self._tokens_in)
            tokens_out = max(0, totals[1] - self._tokens_out)
            self._tokens_in += tokens_in
            self._tokens_out += tokens_out
        return TokensUsed(tokens_in, tokens_out, None, self._context_size, cost_micro)

    def _added(self, message: object, tokens_in: int, tokens_out: int) -> tuple[int, int]:
        key = message if isinstance(message, str) else None
        before_in, before_out = self._counted.pop(key, (0, 0))
        now = max(before_in, tokens_in), max(before_out, tokens_out)
        self._counted[key] = now
        if len(self._counted) > MESSAGES_MAX:
            del self._counted[next(iter(self._counted))]
        added = now[0] - before_in, now[1] - before_out
        self._tokens_in += added[0]
        self._tokens_out += added[1]
        return added

    def _added_cost(self, total_usd: object) -> int | None:
        if total_usd is None:
            return None
        if isinstance(total_usd, bool) or not isinstance(total_usd, int | float):
            raise LineError(f"total_cost_usd must be a number, it is {shown(total_usd)}")
        if not isfinite(total_usd) or not 0 <= total_usd <= _COST_USD_MAX:
            raise LineError(f"total_cost_usd cannot be {shown(total_usd)}")
        total_micro, before_micro = round(total_usd * 1_000_000), self._cost_micro
        self._cost_micro = total_micro
        # A total that fell is that of another process, which continues the session.
        return total_micro - before_micro if total_micro >= before_micro else total_micro


def _totals(result: Mapping[str, Any]) -> tuple[int, int] | None:
    models = result.get("modelUsage")
    if isinstance(models, Mapping) and models:
        usages = [usage for usage in models.values() if isinstance(usage, Mapping)]
        tokens_in = sum(_sum(usage, _MODEL_INPUT_FIELDS) for usage in usages)
        tokens_out = sum(_sum(usage, ("outputTokens",)) for usage in usages)
        return read_number(tokens_in, "all input"), read_number(tokens_out, "all output")
    usage = result.get("usage")
    if isinstance(usage, Mapping):
        return _sum(usage, _INPUT_FIELDS), _sum(usage, ("output_tokens",))
    return None


def _window(result: Mapping[str, Any], model: object) -> int | None:
    """Return the size of the context window of the main conversation's model, if it is known."""
    models = result.get("modelUsage")
    if not isinstance(models, Mapping):
        return None
    totals = models.get(model) if isinstance(model, str) else None
    if totals is None and len(models) == 1:
        totals = next(iter(models.values()))
    size = totals.get("contextWindow") if isinstance(totals, Mapping) else None
    return None if size is None else read_number(size, "contextWindow", minimum=1)


def _sum(usage: Mapping[str, Any], fields: tuple[str, ...]) -> int:
    given = ((field, usage.get(field)) for field in fields)
    total = sum(read_number(value, field) for field, value in given if value is not None)
    return read_number(total, "the sum of tokens")
