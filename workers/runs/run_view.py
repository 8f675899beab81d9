"""Runs as people are shown them: plain values made of records; it prints nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.machines.runs.codon_types import (
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
from interlock.kernel.record import Record
from interlock.workers.runs.history import history, number_of
from interlock.workers.runs.plan.model import Plan
from interlock.workers.runs.screen import began, watched
from interlock.workers.runs.sequence import progress


def run_shown(run: Record, codons: Sequence[Record], now_ms: int) -> dict[str, Any]:
    """Return a run with its executions, and how far it is."""
    plan = Plan.of(run.data["plan"])
    past, begins = history(run, codons)
    done, total = progress(plan, past, begins=begins)
    starting, ended = run.data["starting"], run.data.get("ended", {})
    return {
        "id": run.id,
        "state": run.state,
        "plan": plan.name,
        "folder": run.data["folder"],
        "host": run.data["host"],
        "done": done,
        "total": total,
        "began_ms": run.created_ms,
        "now_ms": now_ms if run.state == "running" else run.since_ms,
        "cost": run.counters.get("tree.cost", 0),
        "spent": run.counters.get("tree.spent", 0),
        "began_as": began(starting) if starting["kind"] != "fresh" else "",
        "why": str(ended.get("reason") or ended.get("detail") or ""),
        "codons": [codon_shown(one, now_ms) for one in codons],
    }


def codon_shown(record: Record, now_ms: int) -> dict[str, Any]:
    """Return one execution."""
    codon = codon_of(record)
    until_ms = getattr(codon, "end_time", now_ms)
    return {
        "number": number_of(record.id),
        "id": record.id,
        "codon": codon.codon_id,
        "state": record.state,
        "took_ms": until_ms - codon.start_time,
        "cost": codon_cost(codon),
        "tokens": codon_tokens(codon).model_dump(),
        "messages": getattr(codon, "assistant_message_count", None) or 0,
        "sentinels": _sentinels(codon),
        "log": getattr(codon, "log_path", None) or "",
        "why": _why(codon, record.data),
    }


def _sentinels(codon: Codon) -> str:
    if isinstance(codon, PreparingCodon) or codon.sentinels is None:
        return ""
    told = codon.sentinels
    states = told.loaded if isinstance(told, LoadedSentinels) else told.executed
    return watched([one.model_dump(mode="json", exclude_none=True) for one in states])


def _why(codon: Codon, data: Mapping[str, Any]) -> str:
    match codon:
        case FailedCodon():
            passed = "; the run goes on" if codon.ignored else ""
            return f"while {codon.failed_during}: {codon.failure_reason.message}{passed}"
        case SkippedCodon():
            return f"while {codon.skipped_during}"
        case CompletedCodon() if codon.budget_exceeded:
            over = codon.budget_exceeded
            return f"its {over.currency} budget was used up: {over.used} of {over.limit}"
        case CompletedCodon() if codon.context_exceeded:
            return "its context was full"
        case _:
            return "to be skipped" if data.get("skip_requested") else ""
