"""Sums the tokens and costs that a process of Claude Code reports.

The stream has two rules. All assistant lines with one message id repeat the usage of one request,
so it counts once. A result line has the totals of the whole process, so only the excess over the
sum so far is new. It also corrects the output tokens, because assistant lines have their number
at the beginning of the answer. The program gives all costs; no price of a token is known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from math import isfinite
from operator import sub
from typing import Any

from interlock.workers.specs.json_line import COUNT_MAX, LineError, shown
from interlock.workers.supervision.reports import UsageAdded, UsageTotal, UsedTokens

MESSAGES_MAX = 1_000
_COST_USD_MAX = 1_000_000_000
# The fields in the order of UsedTokens: of one request, and of a model in the totals.
_REQUEST_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_MODEL_FIELDS = (
    "inputTokens",
    "outputTokens",
    "cacheCreationInputTokens",
    "cacheReadInputTokens",
)


class ClaudeUsage:
    """The sums of one session, and the size of its context window once a result gives it."""

    def __init__(self) -> None:
        self._model: object = None
        self._context_size: int | None = None
        self.restart()

    def restart(self) -> None:
        """Start from zero, because another session begins."""
        self._counted: dict[object, UsedTokens] = {}
        self._tokens_in = self._tokens_out = self._cost_micro = 0

    def of_message(self, message: Mapping[str, Any], *, main: bool) -> Iterator[UsageAdded]:
        """Report the usage that an assistant's message adds, if any. Raises LineError.

        Only a message of the main conversation says how full its context window is.
        """
        usage = message.get("usage")
        if not isinstance(usage, Mapping):
            return
        now = _sum([usage], _REQUEST_FIELDS)
        if main:
            self._model = message.get("model")
        added = self._added(message.get("id"), now)
        if added != UsedTokens():
            window = (now.all_input, self._context_size) if main else (None, None)
            yield UsageAdded(0, added, *window)

    def of_result(self, result: Mapping[str, Any]) -> Iterator[UsageTotal]:
        """Report the totals of a result line, if it has any. Raises LineError."""
        tokens, cost_micro = _total_tokens(result), _total_cost_micro(result)
        if tokens is not None or cost_micro is not None:
            added = UsageAdded(self._excess_cost(cost_micro), self._excess(tokens))
            yield UsageTotal(cost_micro, tokens or UsedTokens(), final=True, added=added)
        self._context_size = _window(result, self._model) or self._context_size

    def _added(self, message_id: object, now: UsedTokens) -> UsedTokens:
        key = message_id if isinstance(message_id, str) else None
        before = self._counted.pop(key, UsedTokens())
        highest = UsedTokens(*map(max, astuple(now), astuple(before)))
        self._counted[key] = highest
        if len(self._counted) > MESSAGES_MAX:
            del self._counted[next(iter(self._counted))]
        added = UsedTokens(*map(sub, astuple(highest), astuple(before)))
        self._tokens_in += added.all_input
        self._tokens_out += added.output_tokens
        return added

    def _excess(self, total: UsedTokens | None) -> UsedTokens:
        """Return how far the total exceeds the sum so far; its kinds of input are not known."""
        if total is None:
            return UsedTokens()
        tokens_in = max(0, total.all_input - self._tokens_in)
        tokens_out = max(0, total.output_tokens - self._tokens_out)
        self._tokens_in += tokens_in
        self._tokens_out += tokens_out
        return UsedTokens(tokens_in, tokens_out)

    def _excess_cost(self, total_micro: int | None) -> int:
        if total_micro is None:
            return 0
        before_micro, self._cost_micro = self._cost_micro, total_micro
        # A total that fell is that of another process, which continues the session.
        return total_micro - before_micro if total_micro >= before_micro else total_micro


def _total_tokens(result: Mapping[str, Any]) -> UsedTokens | None:
    models, usage = result.get("modelUsage"), result.get("usage")
    if isinstance(models, Mapping) and models:
        return _sum((used for used in models.values() if isinstance(used, Mapping)), _MODEL_FIELDS)
    return _sum([usage], _REQUEST_FIELDS) if isinstance(usage, Mapping) else None


def _total_cost_micro(result: Mapping[str, Any]) -> int | None:
    total_usd = result.get("total_cost_usd")
    if total_usd is None:
        return None
    if isinstance(total_usd, bool) or not isinstance(total_usd, int | float):
        raise LineError(f"total_cost_usd must be a number, it is {shown(total_usd)}")
    if not isfinite(total_usd) or not 0 <= total_usd <= _COST_USD_MAX:
        raise LineError(f"total_cost_usd cannot be {shown(total_usd)}")
    return round(total_usd * 1_000_000)


def _window(result: Mapping[str, Any], model: object) -> int | None:
    """Return the size of the context window of the main conversation's model, if it is known."""
    models = result.get("modelUsage")
    if not isinstance(models, Mapping):
        return None
    totals = models.get(model) if isinstance(model, str) else None
    if totals is None and len(models) == 1:
        totals = next(iter(models.values()))
    size = totals.get("contextWindow") if isinstance(totals, Mapping) else None
    return None if size is None else _count(size, "contextWindow", minimum=1)


def _sum(usages: Iterable[Mapping[str, Any]], names: tuple[str, ...]) -> UsedTokens:
    """Sum the fields of all usages; a field that is missing counts as 0. Raises LineError."""
    sums = [0] * len(names)
    for usage in usages:
        for index, name in enumerate(names):
            if (number := usage.get(name)) is not None:
                sums[index] += _count(number, name)
    _count(sum(sums), "the sum of tokens")
    return UsedTokens(*sums)


def _count(value: object, where: str, *, minimum: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= COUNT_MAX:
        span = f"{minimum} to {COUNT_MAX}"
        raise LineError(f"{where} must be a whole number {span}, it is {shown(value)}")
    return value
