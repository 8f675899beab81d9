"""Runs and codons as plain values, for programs and for pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.system.tables import Record, dollars
from interlock.system.text import duration
from interlock.systems.runs.history import history, record_number
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.codon_types import (
    Codon,
    CompletedCodon,
    FailedCodon,
    LoadedSentinels,
    PreparingCodon,
    SkippedCodon,
    codon_cost,
    codon_of,
    codon_tokens,
)
from interlock.systems.runs.machines.run.payloads import RunData, RunEndData
from interlock.systems.runs.machines.run.table import State
from interlock.systems.runs.plan.model import RunPlan
from interlock.systems.runs.sequence import progress

Row = Mapping[str, Any]
SHA_LENGTH_SHOWN = 10
BUDGET_TEXTS: Mapping[str, Callable[[int], str]] = {
    "cost": dollars,
    "duration": duration,
    "output_tokens": lambda count: f"{count:,}",
}


def run_value(
    run: Record[RunData], codons: Sequence[Record[CodonData]], now_ms: int
) -> dict[str, Any]:
    """Return a run with its progress and its executions, as plain values."""
    plan = RunPlan.of(run.data["plan"])
    executions, start_index = history(run, codons)
    done, total = progress(plan, executions, start_index=start_index)
    starting, ended = run.data["starting"], run.data.get("ended", RunEndData())
    return {
        "id": run.id,
        "state": run.state,
        "plan": plan.name,
        "folder": run.data["folder"],
        "host": run.data["host"],
        "done": done,
        "total": total,
        "began_ms": run.created_ms,
        "now_ms": now_ms if run.state == State.RUNNING else run.since_ms,
        "cost": run.counters.get("tree.cost", 0),
        "spent": run.counters.get("tree.spent", 0),
        "began_as": start_text(starting) if starting["kind"] != "fresh" else "",
        "rescued": run.data.get("rescued") or "",
        "why": ended.get("reason") or ended.get("detail") or "",
        "codons": [codon_value(codon, now_ms) for codon in codons],
    }


def codon_value(record: Record[CodonData], now_ms: int) -> dict[str, Any]:
    """Return one execution, as plain values."""
    codon = codon_of(record)
    until_ms = getattr(codon, "end_time", now_ms)
    return {
        "number": record_number(record.id),
        "id": record.id,
        "codon": codon.codon_id,
        "state": record.state,
        "took_ms": until_ms - codon.start_time,
        "cost": codon_cost(codon),
        "tokens": codon_tokens(codon).model_dump(),
        "messages": getattr(codon, "assistant_message_count", None) or 0,
        "sentinels": _sentinels(codon),
        "log": getattr(codon, "log_path", None) or "",
        "why": _why(codon, record),
    }


def _sentinels(codon: Codon) -> str:
    if isinstance(codon, PreparingCodon) or codon.sentinels is None:
        return ""
    sentinels = codon.sentinels
    states = sentinels.loaded if isinstance(sentinels, LoadedSentinels) else sentinels.executed
    return sentinels_text([state.model_dump(mode="json", exclude_none=True) for state in states])


def _why(codon: Codon, record: Record[CodonData]) -> str:
    match codon:
        case FailedCodon():
            ignored = "; the run goes on" if codon.ignored else ""
            return f"while {codon.failed_during}: {codon.failure_reason.message}{ignored}"
        case SkippedCodon():
            return f"while {codon.skipped_during}"
        case CompletedCodon() if codon.budget_exceeded:
            over = codon.budget_exceeded
            written = BUDGET_TEXTS[over.currency]
            used, limit = written(over.used), written(over.limit)
            return f"its {over.currency} budget was used up: {used} of {limit}"
        case CompletedCodon() if codon.context_exceeded:
            return "its context was full"
        case _:
            return "to be skipped" if record.data.get("skip_requested") else ""


def start_text(starting: Row) -> str:
    """Return the text of how a run started."""
    if starting["kind"] == "fresh":
        return "starts"
    source = starting["source"]
    after = source.get("after_codon")
    where = f"after {after}" if after else "from the start"
    return (
        f"continues ({starting['reason']}) from run {source['run_id'].partition('/')[2]}, {where}, "
        f"at {source['checkpoint_sha'][:SHA_LENGTH_SHOWN]}"
    )


def sentinels_text(states: Sequence[Row]) -> str:
    """Return the text of the states of sentinels."""
    return ", ".join(
        f"{state['id']} called {state['llm_call_count']}x"
        + (f", {state['failed_llm_calls']} failed" if state["failed_llm_calls"] else "")
        + (f", {state['unload_reason']}" if state.get("unload_reason") else "")
        for state in states
    )
