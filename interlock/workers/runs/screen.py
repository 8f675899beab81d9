"""Runs of codons as people see them in a terminal, and as plain values for both outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.text import Text

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
from interlock.workers.runs.history import history, record_number
from interlock.workers.runs.plan.model import RunPlan
from interlock.workers.runs.sequence import progress
from interlock.workers.terminal.screen import age, clock, grid, one_line, out, short, state_text

Row = Mapping[str, Any]
MICRO = 1_000_000
SHA_LENGTH_SHOWN = 10


def run(value: Row) -> None:
    """Print one run: its progress, its costs, and its executions."""
    head = grid("run", value["id"])
    head.add_row("state", state_text(value["state"]))
    total = "?" if value["total"] is None else value["total"]
    head.add_row("plan", f"{value['plan']}: {value['done']} of {total} codons done")
    head.add_row("workspace", value["folder"])
    head.add_row("since", f"{clock(value['began_ms'])}, {age(value['now_ms'] - value['began_ms'])}")
    head.add_row("cost", f"{dollars(value['cost'])} of codons, {dollars(value['spent'])} spent")
    if value["began_as"]:
        head.add_row("began", one_line(value["began_as"]))
    if value["rescued"]:
        sha = value["rescued"][:SHA_LENGTH_SHOWN]
        head.add_row("rescued", f"the files before it: interlock run rollback --to {sha}")
    if value["why"]:
        head.add_row("ended", one_line(value["why"]))
    out.print(head)
    if value["codons"]:
        codons(value["codons"])


def codons(rows: Sequence[Row]) -> None:
    """Print the executions of a run, the oldest first."""
    table = grid("#", "codon", "state", "took", "cost", "messages", "sentinels", "why")
    for row in rows:
        table.add_row(
            str(row["number"]),
            row["codon"],
            state_text(row["state"]),
            age(row["took_ms"]),
            dollars(row["cost"]),
            str(row["messages"] or "-"),
            row["sentinels"] or "-",
            one_line(row["why"]),
        )
    out.print(table)


def costs(value: Row) -> None:
    """Print costs."""
    table = grid("what", "codons", "spent")
    table.add_row("the last run", dollars(value["run"]), dollars(value["run_spent"]))
    if "since" in value:
        since = f"run {value['since_run']} and newer"
        table.add_row(since, dollars(value["since"]), dollars(value["since_spent"]))
    table.add_row("all runs", dollars(value["total"]), dollars(value["total_spent"]))
    if value["run_late"]:
        table.add_row("the last run, reported too late", "-", dollars(value["run_late"]))
    out.print(table)
    if value.get("codons"):
        tokens = grid("codon", "cost", "input", "output", "cache written", "cache read")
        for row in value["codons"]:
            kinds = row["tokens"]
            tokens.add_row(
                row["codon"],
                dollars(row["cost"]),
                f"{kinds['input_tokens']:,}",
                f"{kinds['output_tokens']:,}",
                f"{kinds['cache_creation_tokens']:,}",
                f"{kinds['cache_read_tokens']:,}",
            )
        out.print(tokens)


def checkpoints(rows: Sequence[Row]) -> None:
    """Print checkpoints, the oldest first."""
    table = grid("checkpoint", "run", "codon", "type", "continues after")
    for row in rows:
        number = row["run"].partition("/")[2]
        table.add_row(
            row["sha"][:SHA_LENGTH_SHOWN],
            number,
            row["codon"] or "-",
            row["type"],
            row["after"] or "-",
        )
    out.print(table)


def event(value: Row) -> None:
    """Print one event in one line."""
    data = value["event"]["data"]
    subject = data.get("codon_id") or f"run {data['run_id'].partition('/')[2]}"
    out.print(
        Text.assemble((f"{clock(value['at_ms'])} ", "dim"), f"{subject:<24} ", event_text(value))
    )


def event_text(value: Row) -> Text:
    """Return the text of an event."""
    kind, data = value["event"]["type"], value["event"]["data"]
    if kind == "CodonTransitioned":
        why = data["metadata"].get("failure_reason", {}).get("message", "")
        arrow = Text.assemble(data["from"], " -> ", state_text(data["to"]))
        return Text.assemble(arrow, f": {short(why)}" if why else "")
    if kind in ENDS:
        why = data.get("reason", "")
        return Text.assemble(state_text(ENDS[kind]), f": {short(why)}" if why else "")
    return Text(EVENT_TEXTS[kind](data))


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


def dollars(micro: int) -> str:
    """Return an amount in dollars with six decimals, because a codon may cost less than a cent."""
    return f"${micro / MICRO:.6f}" if micro else "$0"


ENDS = {"RunCompleted": "completed", "RunFailed": "failed", "RunCrashed": "crashed"}
EVENT_TEXTS: Mapping[str, Callable[[Row], str]] = {
    "RunStarted": lambda data: start_text(data["starting_conditions"]),
    "CodonStarted": lambda _: "is started",
    "CostsIncremented": lambda data: f"costs {dollars(data['cost_delta'])} more",
    "CostsUpdated": lambda data: f"costs {dollars(data['cost'])} so far",
    "CodonFinalCostSet": lambda data: f"cost {dollars(data['final_cost'])} in the end",
    "AssistantMessageCountUpdated": lambda data: f"{data['new_count']} messages",
    "SentinelStatesUpdated": lambda data: f"sentinels: {sentinels_text(data['sentinel_states'])}",
    "CheckpointCreated": lambda data: (
        f"checkpoint {data['sha'][:SHA_LENGTH_SHOWN]} ({data['checkpoint_type']})"
    ),
    "InitialCheckpointSet": lambda data: f"checkpoint {data['sha'][:SHA_LENGTH_SHOWN]} (initial)",
}


def validation(value: Row) -> None:
    """Print the findings of a validation, and the repairs."""
    for repaired in value["repairs"]:
        out.print(Text.assemble(("repaired ", "green"), repaired))
    for kind, style in (("errors", "red"), ("warnings", "yellow")):
        for finding in value[kind]:
            head = Text.assemble((finding["type"], style), " ", (finding["where"], "bold"))
            out.print(Text.assemble(head, ": ", finding["message"]))
    if value["valid"]:
        out.print(Text("valid: records, logs, costs and checkpoints agree", "green"))


def exported(value: Row) -> None:
    """Print the result of an export."""
    _print_warnings(value)
    out.print(Text(f"{value['records']} records are in {value['file']}"))


def imported(value: Row) -> None:
    """Print the result of an import."""
    _print_warnings(value)
    existing = f", {value['there']} existed already" if value["there"] else ""
    out.print(Text(f"{value['written']} records were restored from {value['file']}{existing}"))


def _print_warnings(value: Row) -> None:
    for warning in value["warnings"]:
        out.print(Text.assemble(("warning ", "yellow"), warning))


def run_value(run: Record, codons: Sequence[Record], now_ms: int) -> dict[str, Any]:
    """Return a run with its progress and its executions, as plain values."""
    plan = RunPlan.of(run.data["plan"])
    executions, start_index = history(run, codons)
    done, total = progress(plan, executions, start_index=start_index)
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
        "began_as": start_text(starting) if starting["kind"] != "fresh" else "",
        "rescued": run.data.get("rescued") or "",
        "why": str(ended.get("reason") or ended.get("detail") or ""),
        "codons": [codon_value(codon, now_ms) for codon in codons],
    }


def codon_value(record: Record, now_ms: int) -> dict[str, Any]:
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
        "why": _why(codon, record.data),
    }


def _sentinels(codon: Codon) -> str:
    if isinstance(codon, PreparingCodon) or codon.sentinels is None:
        return ""
    sentinels = codon.sentinels
    states = sentinels.loaded if isinstance(sentinels, LoadedSentinels) else sentinels.executed
    return sentinels_text([state.model_dump(mode="json", exclude_none=True) for state in states])


def _why(codon: Codon, data: Mapping[str, Any]) -> str:
    match codon:
        case FailedCodon():
            ignored = "; the run goes on" if codon.ignored else ""
            return f"while {codon.failed_during}: {codon.failure_reason.message}{ignored}"
        case SkippedCodon():
            return f"while {codon.skipped_during}"
        case CompletedCodon() if codon.budget_exceeded:
            over = codon.budget_exceeded
            return f"its {over.currency} budget was used up: {over.used} of {over.limit}"
        case CompletedCodon() if codon.context_exceeded:
            return "its context was full"
        case _:
            return "to be skipped" if data.get("skip_requested") else ""
