"""What people see in a terminal: tables and sentences made of plain data. It fetches nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from interlock.kernel.event import Event, Note

# Where nobody looks at a terminal, nothing is cut or broken at its usual width.
WIDE = 240
out = Console(width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True)

SHORT = 100
# What of a record's data is shown where it is there, in this order.
SHOWN = (
    "result",
    "summary",
    "failure",
    "blocked_on",
    "lost",
    "end",
    "handed_off",
    "tally",
    "reason",
    "role",
    "command",
    "identity",
    "successes",
    "violations",
)
COLOURS = {
    "done": "green",
    "done_cleanup_successful": "green",
    "dismissed": "bright_black",
    "handed_off": "cyan",
    "monitoring": "blue",
    "executing": "magenta",
    "closed": "green",
    "failed": "red",
    "in_progress": "magenta",
    "blocked": "yellow",
    "pending_approval": "yellow",
    "planned": "yellow",
    "success": "green",
    "canceled": "bright_black",
    "running": "magenta",
    "reviewing": "magenta",
    "review_required": "cyan",
    "approval_required": "yellow",
    "intervention_required": "yellow",
    "suspended": "yellow",
    "paused": "yellow",
    "draft": "bright_black",
}


def error(sentence: str) -> None:
    """Say what is wrong."""
    # Not folded: a sentence is one line for whoever greps.
    err.print(f"[bold red]error[/] {escape(sentence)}", highlight=False, soft_wrap=True)


def state_text(state: str) -> Text:
    """Return a state in its colour: green for an end, yellow where a person is asked."""
    asks = state.startswith("awaiting_") and state != "awaiting_inference"
    asks = asks or state == "done_cleanup_unsuccessful"
    return Text(state, style="yellow" if asks else COLOURS.get(state, "white"))


def grid(*columns: str, title: str = "") -> Table:
    """Return an empty table in the house style."""
    table = Table(
        title=title or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
        expand=True,
        show_header=any(columns),
    )
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    # The last column takes what is left of the terminal's width.
    table.add_column(columns[-1], no_wrap=True, overflow="ellipsis", ratio=1)
    return table


def submissions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show what became of each submission."""
    table = grid("id", "answer")
    for row in rows:
        said = "refused" if row["error"] else "known already" if row["replayed"] else "accepted"
        table.add_row(row["id"] or "-", Text(said, style="red" if row["error"] else "green"))
    out.print(table)
    for row in (one for one in rows if one["error"]):
        error(f"{row['id']}: {row['error']}" if row["id"] else row["error"])


def record(value: Mapping[str, Any]) -> None:
    """Show one record."""
    head = Text.assemble((str(value["id"]), "bold"), "  ", state_text(value["state"]))
    head.append(f"  version {value['version']}", style="dim")
    if value["paused"]:
        head.append("  paused", style="yellow")
    out.print(head)
    facts = grid("", "")
    for name, told in known(value["data"]):
        facts.add_row(name, escape(told))
    if value["children"]:
        facts.add_row("children", ", ".join(value["children"][:10]))
    for name, amount in sorted(value["counters"].items()):
        facts.add_row(
            name, f"{amount / 1e6:.6f} $" if "spent" in name or name == "cap" else str(amount)
        )
    for entry in value["entries"]:
        facts.add_row("effect", f"{entry['name']} {entry['state']}, attempt {entry['attempts']}")
    out.print(facts)
    if value["card"]:
        cards([value["card"]])
    if value["runs"]:
        runs(value["runs"])


def known(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name what of a record's data people ask for: what it is about, is proposed, came of it."""
    inciting = data.get("inciting") or data
    yield "about", inciting.get("title") or data.get("task") or data.get("name") or "(no title)"
    for phase, proposal in (data.get("proposals") or {}).items():
        shown = "taken back" if proposal.get("cleared") else short(proposal["payload"])
        yield phase, f"{shown}  ({proposal['confidence']:.2f}, {proposal['id']})"
    claim = data.get("claim") or {}
    if claim.get("deadline_s"):
        why = "; ".join(claim.get("deadline_reasons", ()))
        yield "deadline", f"{data.get('deadline_s') or claim['deadline_s']} s: {why}"
    yield from ((name, short(data[name])) for name in SHOWN if data.get(name))


def runs_of(lines: Sequence[Event | Note]) -> list[dict[str, Any]]:
    """Return the run record of each action: its start, its steps, its end, from the notes."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        if not isinstance(line, Note) or not line.kind.startswith("execution_"):
            continue
        detail = {name: value for name, value in line.detail.items() if name != "effect"}
        key = str(line.detail.get("effect"))
        kept = found.setdefault(key, {"effect": key, "started": [], "steps": [], "finished": []})
        part = {"execution_started": "started", "execution_step": "steps"}.get(
            line.kind, "finished"
        )
        kept[part].append({"at_ms": line.at_ms, **detail})
    return list(found.values())


def runs(found: Sequence[Mapping[str, Any]]) -> None:
    """Show the run records."""
    table = grid("run", "what", "detail")
    for one in found:
        for part in ("started", "steps", "finished"):
            for row in one[part]:
                detail = {name: value for name, value in row.items() if name != "at_ms"}
                table.add_row(one["effect"], part.removesuffix("s"), escape(short(detail)))
    out.print(table)


def history(lines: Sequence[Event | Note]) -> None:
    """Show a whole log: an event a line, its reasons below it; notes in between, dimmed."""
    for line in lines:
        at = Text(f"{clock(line.at_ms)}  ", style="dim")
        if isinstance(line, Event):
            arrow = f"  {line.source} -> " if line.source else "  -> "
            what = Text.assemble(f"{line.version:>4}  ", at, (line.trigger, "bold"), arrow)
            out.print(
                Text.assemble(what, state_text(line.target), (f"  by {line.cause.actor}", "dim"))
            )
            if why := because(line):
                out.print(Text(f"      {short(why, 160)}", style="dim italic"))
        else:
            detail = {name: value for name, value in line.detail.items() if name != "effect"}
            out.print(Text.assemble("      ", at, (f"{line.kind}  {short(detail, 90)}", "dim")))


def because(event: Event) -> str:
    """Return why an event happened: the caller's reason, and what the policy compared."""
    checks = (event.explanation or {}).get("checks", [])
    failed = [check["why"] for check in checks if not check["passed"]]
    return "; ".join([event.cause.reason, *failed] if event.cause.reason else failed)


def standing(value: Mapping[str, Any], now_ms: int) -> None:
    """Show a list of records and the counts."""
    table = grid("id", "state", "since")
    for row in value["records"]:
        table.add_row(row["id"], state_text(row["state"]), age(now_ms - row["since_ms"]))
    out.print(table)
    counts = "  ".join(f"{state} {n}" for state, n in value["counts"].items())
    out.print(Text(counts or "no records", style="dim"))


def cards(found: Sequence[Mapping[str, Any]]) -> None:
    """Show cards: what is asked, and how to answer."""
    if not found:
        out.print("nobody is asked anything", style="dim")
    for card in found:
        out.print(Text.assemble((card["title"], "bold"), "  ", state_text(card["state"])))
        out.print(f"  {escape(card['question'])}", highlight=False)
        seen = f"--proposal {card['proposal']}"
        for one in card["affordances"]:
            command = f"  interlock decide {card['record_id']} {one['name']} {seen}"
            out.print(Text(command, style="dim"), soft_wrap=True)


def up(places: Mapping[str, str]) -> None:
    """Show where everything is that is up."""
    out.print("Interlock is up; Ctrl-C ends it.", style="bold green")
    table = grid("", "")
    table.add_row("store and broker", places["store"])
    table.add_row("Flower", places["flower"])
    table.add_row("logs", places["logs"])
    table.add_row("try", "interlock submit --title 'Call the dentist'   (in another terminal)")
    out.print(table)


def moved(value: Mapping[str, Any]) -> None:
    """Show where a record stands now."""
    out.print(Text.assemble((value["id"], "bold"), " is ", state_text(value["state"])))


def flagged(value: Mapping[str, Any]) -> None:
    """Show the answer to pause, resume or retry."""
    out.print(Text.assemble((value["id"], "bold"), f": {value['answer']}"))


def machines(value: Sequence[Mapping[str, Any]]) -> None:
    """Show the tables."""
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
    """Show whether logs and records agree."""
    for fault in report["faults"]:
        out.print(f"[red]fault[/] {escape(fault)}", highlight=False)
    verdict = (
        "every log folds to its record"
        if not report["faults"]
        else f"{len(report['faults'])} faults"
    )
    out.print(
        f"{report['records']} records, {report['transitions']} transitions: {verdict}",
        highlight=False,
    )


def diagnosis(value: Mapping[str, Any]) -> None:
    """Show the promise in force, and what waits."""
    out.print(Text.assemble((value["level"], "bold green"), f"  {value['promise']}"))
    table = grid("", "")
    for name, fact in {**value["store"], "enqueue": value["enqueue"]}.items():
        table.add_row(name, str(fact))
    for name, depth in value["depths"].items():
        table.add_row(name, str(depth))
    for kind, count in value["rejected"].items():
        table.add_row(f"set aside: {kind}", str(count))
    for machine, counts in value["machines"].items():
        table.add_row(machine, "  ".join(f"{state} {n}" for state, n in counts.items()) or "none")
    out.print(table)


def short(value: Any, length_max: int = SHORT) -> str:
    """Return a value as one line."""
    if isinstance(value, Mapping):
        value = ", ".join(
            f"{name}={short(part, 60)}"
            for name, part in value.items()
            if part not in (None, "", {}, [])
        )
    text = " ".join(str(value).split())
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def clock(at_ms: int) -> str:
    """Return a time of day with milliseconds, UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]


def age(ms: int) -> str:
    """Return a duration as people say it."""
    seconds = max(ms, 0) // 1_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def plain(value: Any) -> None:
    """Print a value as lines of its fields, or say that there is none."""
    if not value:
        out.print("there is nothing to claim")
        return
    for name, one in value.items():
        out.print(Text.assemble((f"{name}: ", "dim"), short(one, SHORT)))
