"""Prints records of every system, and reports about a store, for operators."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.text import Text

from interlock.workers.systems import SYSTEMS
from interlock.workers.terminal.cards import cards
from interlock.workers.terminal.screen import (
    age,
    clock,
    counts_text,
    grid,
    one_line,
    out,
    program,
    short,
    state_text,
)
from interlock.workers.threads.screen import runs

# The fields of a record's data that are shown if they are set, in this order.
SHOWN_FIELDS = tuple(name for system in SYSTEMS for name in system.shown)


def record(value: Mapping[str, Any]) -> None:
    """Print one record."""
    head = Text.assemble((str(value["id"]), "bold"), "  ", state_text(value["state"]))
    head.append(f"  version {value['version']}", style="dim")
    if value["paused"]:
        head.append("  paused", style="yellow")
    out.print(head)
    facts = grid("", "")
    for name, text in shown_fields(value["data"]):
        facts.add_row(name, text)
    if value["children"]:
        facts.add_row("children", ", ".join(value["children"][:10]))
    for name, amount in sorted(value["counters"].items()):
        facts.add_row(
            name, f"{amount / 1e6:.6f} $" if "spent" in name or name == "cap" else str(amount)
        )
    for entry in value["entries"]:
        facts.add_row("effect", f"{entry['name']} {entry['state']}, attempt {entry['attempts']}")
    out.print(facts)
    reason = str((value["data"].get("failure") or {}).get("reason", "")).strip()
    if reason != short(reason):
        # Such as the output of a command, of which lists show the first line.
        out.print(Text.assemble(("why  ", "dim"), reason), soft_wrap=True, highlight=False)
    cards(value["cards"])
    if value["runs"]:
        runs(value["runs"])


def shown_fields(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields that people look for: title, proposals, deadline, results."""
    inciting = data.get("inciting") or data
    yield "about", inciting.get("title") or data.get("task") or data.get("name") or "(no title)"
    for phase, proposal in (data.get("proposals") or {}).items():
        shown = "taken back" if proposal.get("cleared") else short(proposal["payload"])
        yield phase, f"{shown}  ({proposal['confidence']:.2f}, {proposal['id']})"
    claim = data.get("claim") or {}
    if claim.get("deadline_s"):
        reasons = "; ".join(claim.get("deadline_reasons", ()))
        yield "deadline", f"{data.get('deadline_s') or claim['deadline_s']} s: {reasons}"
    yield from ((name, short(data[name])) for name in SHOWN_FIELDS if data.get(name))


def history(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print a whole log: one line for each event, its reasons below it, notes dimmed in between."""
    for line in lines:
        time = Text(f"{clock(line['at_ms'])}  ", style="dim")
        if line["line"] == "event":
            arrow = f"  {line['source']} -> " if line["source"] else "  -> "
            head = Text.assemble(f"{line['version']:>4}  ", time, (line["trigger"], "bold"), arrow)
            by = (f"  by {line['cause']['actor']}", "dim")
            out.print(Text.assemble(head, state_text(line["target"]), by))
            if why := reasons_of(line):
                out.print(Text(f"      {short(why, 160)}", style="dim italic"))
        else:
            detail = {name: value for name, value in line["detail"].items() if name != "effect"}
            text = f"{line['kind']}  {short(detail, 90)}"
            out.print(Text.assemble("      ", time, (text, "dim")))


def reasons_of(event: Mapping[str, Any]) -> str:
    """Return the caller's reason for an event, and the policy checks that failed."""
    checks = (event["explanation"] or {}).get("checks", [])
    failed = [check["why"] for check in checks if not check["passed"]]
    reason = event["cause"]["reason"]
    return "; ".join([reason, *failed] if reason else failed)


def records(value: Mapping[str, Any], now_ms: int) -> None:
    """Print a list of records and the counts by state."""
    table = grid("id", "state", "since", "title")
    for row in value["records"]:
        since = age(now_ms - row["since_ms"])
        table.add_row(row["id"], state_text(row["state"]), since, one_line(row["title"]))
    out.print(table)
    counts = counts_text(value["counts"])
    out.print(Text(counts or "no records", style="dim"))


def up(addresses: Mapping[str, str], home: Path) -> None:
    """Print the addresses of a deployment that was started."""
    out.print("Interlock is up; Ctrl-C ends it.", style="bold green")
    table = grid("", "")
    table.add_row("store and broker", addresses["store"])
    table.add_row("Flower", addresses["flower"])
    table.add_row("logs", addresses["logs"])
    out.print(table)
    out.print("in another terminal:")
    for line in (
        f"export INTERLOCK_HOME={shlex.quote(str(home))}",
        f"{program()} submit --title 'Call the dentist'",
    ):
        out.print(f"  {line}", style="cyan", highlight=False, markup=False, soft_wrap=True)


def machines(value: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables of machines."""
    for machine in value:
        states = grid("state", "kind", "effect", "timers", title=f"{machine['name']}: states")
        for state in machine["states"]:
            timers = ", ".join(timer["name"] for timer in state["timers"])
            states.add_row(state["name"], state["kind"], state["entry_effect"] or "", timers)
        out.print(states)
        rows = grid(
            "source", "trigger", "target", "fired by", "ours", title=f"{machine['name']}: rows"
        )
        for row in machine["rows"]:
            by = ", ".join(row["by"])
            rows.add_row(row["source"], row["trigger"], row["target"], by, row["why_ours"])
        out.print(rows)


def verification(report: Mapping[str, Any]) -> None:
    """Print whether logs and records agree."""
    for fault in report["faults"]:
        out.print(f"[red]fault[/] {escape(fault)}", highlight=False)
    verdict = (
        "every record agrees with its log"
        if not report["faults"]
        else f"{len(report['faults'])} faults"
    )
    out.print(
        f"{report['records']} records, {report['transitions']} transitions: {verdict}",
        highlight=False,
    )


def diagnosis(value: Mapping[str, Any]) -> None:
    """Print the level of durability, the depths of queues, and the counts by state."""
    out.print(Text.assemble((value["level"], "bold green"), f"  {value['promise']}"))
    table = grid("", "")
    for name, fact in {**value["store"], "enqueue": value["enqueue"]}.items():
        table.add_row(name, str(fact))
    for name, depth in value["depths"].items():
        table.add_row(name, str(depth))
    for kind, count in value["rejected"].items():
        table.add_row(f"rejected: {kind}", str(count))
    for machine, counts in value["machines"].items():
        table.add_row(machine, counts_text(counts) or "none")
    for name, why in value["left_out"].items():
        table.add_row(f"capability left out: {name}", Text(why, style="red"))
    table.add_row("workers", ", ".join(value["workers"]) or "none")
    out.print(table)
    if value["rejected_messages"]:
        table = grid("rejected", "why", "message", title="the newest rejected messages")
        for message in value["rejected_messages"]:
            table.add_row(message["kind"], one_line(message["reason"]), one_line(message["body"]))
        out.print(table)
    for problem in value["problems"]:
        out.print(Text(problem, style="bold red"), soft_wrap=True)


def capabilities(value: Mapping[str, Any]) -> None:
    """Print the capabilities with what they need, then those that are left out."""
    table = grid("capability", "needs", "irreversibility", "what it does")
    for found in value["capabilities"]:
        needs = ", ".join(found["parameters"].get("required", ())) or "-"
        risk = found["irreversibility"]
        table.add_row(found["name"], Text(needs), risk, Text(found["description"]))
    out.print(table)
    for name, why in value["left_out"].items():
        line = Text.assemble(("left out ", "bold red"), (f"{name}: ", "bold"), why)
        out.print(line, soft_wrap=True, highlight=False)
