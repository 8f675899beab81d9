"""Prints records of every system, and reports about a store, for operators."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from interlock.kernel.amounts import MONEY
from interlock.kernel.event import words_of
from interlock.kernel.question import inner
from interlock.kernel.record import parent_of
from interlock.kernel.store.counts import COUNT_MAX
from interlock.workers.engine.work_sandbox import NONE, OPEN_STORE, SAID_OF
from interlock.workers.systems import systems
from interlock.workers.terminal.cards import cards
from interlock.workers.terminal.screen import (
    Grid,
    age,
    clock,
    counted,
    counts_text,
    grid,
    one_line,
    out,
    program,
    short,
    state_text,
)
from interlock.workers.text import dollars
from interlock.workers.threads.screen import proposal_text, runs

ENQUEUE = {"fused": "in the commit (fused)", "plain": "after the commit (plain)"}
# What counters of a record and all below it say, by what comes before the name in theirs.
TREE = "tree"
KINDS = {
    "cap": "{} at most",
    TREE: "{}, with all below it",
    "reserved": "{} reserved for work that goes on",
    "residue": "{} that lost work may have used",
}
# The names of counters that these and their own name do not explain.
COUNTERS = {
    "cap.spent": "may spend at most",
    "reserved.spent": "reserved for work that goes on",
    "residue.spent": "may have been spent by lost work",
    "tokens_in": "tokens of questions",
    "tokens_out": "tokens of answers",
}
DEPTHS = {
    "effects": "effects owed or at work",
    "timers": "timers that are set",
    "waits": "records that wait for a person",
}
REASON_LENGTH_MAX = 400
# The fields of an event's payload that a person or model said: sentences, and values with a name.
SENTENCES = ("detail", "text", "feedback", "reason")
ANSWERS = ("intent", "item_ids", "capability", "parameters", "values")
# Notes that only say how the work was carried out.
ROUTINE_NOTES = ("claim", "card_withdrawn")
# Notes that say where a card is: to people who are told of it, or for those who look.
CARD_NOTES = ("card_delivered", "card_listed")


def record(value: Mapping[str, Any]) -> None:
    """Print one record."""
    head = Text.assemble((str(value["id"]), "bold"), "  ", state_text(value["state"]))
    head.append(f"  version {value['version']}", style="dim")
    if value["entered"] != value["version"]:
        head.append(f", in this state since version {value['entered']}", style="dim")
    if value["paused"]:
        head.append("  paused", style="yellow")
    out.print(head)
    questions = [card["question"] for card in value["cards"]]
    reasons = [reason for reason in failure_reasons(value) if not is_said(reason, questions)]
    out.print(record_facts(value, [*questions, *reasons]))
    if value["outlook"]:
        out.print(Text(value["outlook"]), soft_wrap=True, highlight=False)
    for reason in reasons:
        out.print(Text.assemble(("why  ", "dim"), reason), soft_wrap=True, highlight=False)
    cards(value["cards"], otherwise=f"{value['id']} itself asks nobody anything")
    if value["runs"]:
        runs(value["runs"])


def record_facts(value: Mapping[str, Any], said_below: Sequence[str]) -> Grid:
    """Return the fields of a record, but not why it failed where a text below says that whole."""
    facts = grid("", "")
    # Folded, so that no path and no command is cut.
    facts.columns[-1].no_wrap, facts.columns[-1].overflow = False, "fold"
    details = value["details"]
    for name, text in details.items() if details else shown_fields(value["data"]):
        if name != "why" or not is_said(text, said_below):
            facts.add_row(name, text)
    if value["place"]:
        facts.add_row("part of", f"{parent_of(value['id'])}, {value['place']}")
    if value["family"]:
        facts.add_row("family", value["family"])
    for label, (name, amount) in counters_shown(value["counters"]).items():
        facts.add_row(label, counter_text(name, amount))
    for entry in value["entries"]:
        facts.add_row("effect", effect_text(entry, failed=entry["suffix"] in value["failures"]))
    return facts


def failure_reasons(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a record failed, and why its effects did, as far as no line above says it whole."""
    reason = str(inner(value["data"], "failure").get("reason", "")).strip()
    if reason != short(reason):
        # Such as the output of a command, of which lists show the first line.
        yield reason
    if not value["cards"]:
        yield from value["failures"].values()


def is_said(text: str, texts: Sequence[str]) -> bool:
    """Whether a text, or what was left of it when it was shortened, is part of one of the texts."""
    words = " ".join(text.removesuffix("…").split())
    return any(words in " ".join(other.split()) for other in texts)


def effect_text(entry: Mapping[str, Any], *, failed: bool) -> str:
    """Return what an effect is doing; if it failed, also when it is tried again."""
    text = f"{entry['name']} {entry['state']}, attempt {entry['attempts']}"
    if failed and entry["state"] == "owed":
        text += f", which failed; tried again at {clock(entry['not_before'])[:8]} UTC"
    return text


def counters_shown(counters: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return the counters that people are shown, with their names, by what they are called.

    What a record has used with all below it is left out where it used all of that itself; money is
    not left out.
    """
    found: dict[str, tuple[str, int]] = {}
    for name, amount in sorted(counters.items()):
        kind, _, counted = name.rpartition(".")
        if kind != TREE or counted == MONEY or counters.get(counted) != amount:
            label = KINDS.get(kind, "{}").format(COUNTERS.get(counted, counted))
            found[COUNTERS.get(name, label)] = (name, amount)
    return found


def counter_text(name: str, amount: int) -> str:
    """Return the amount of a counter; one of money counts millionths of a dollar."""
    return dollars(amount) if MONEY in name else str(amount)


def shown_fields(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields that people look for: title, proposals, results."""
    inciting = inner(data, "inciting") or data
    if about := inciting.get("title") or data.get("task") or data.get("name"):
        yield "about", str(about)
    for phase in inner(data, "proposals"):
        if "confidence" not in (proposal := inner(data, "proposals", phase)):
            continue
        shown = "taken back" if proposal.get("cleared") else short(proposal_text(phase, proposal))
        yield phase, f"{shown}  (confidence {proposal['confidence']:.2f})"
    names = dict.fromkeys(name for system in systems() for name in system.shown)
    yield from ((name, short(data[name])) for name in names if data.get(name))


def history(lines: Sequence[Mapping[str, Any]], *, everything: bool) -> None:
    """Print a log: a line for each event with its reasons below, and the notes in grey.

    Notes that only say how the work was carried out are left out unless `everything` is asked for.
    """
    shown = lines if everything else without_routine(lines)
    for line in shown:
        time = Text(f"{clock(line['at_ms'])}  ", style="dim")
        if line["line"] == "event":
            arrow = f"  {line['source']} -> " if line["source"] else "  -> "
            head = Text.assemble(f"{line['version']:>4}  ", time, (line["trigger"], "bold"), arrow)
            roles = [code[3:] for code in line["cause"]["codes"] if code.startswith("as:")]
            as_roles = f" as {', '.join(roles)}" if roles else ""
            by = (f"  by {line['cause']['actor']}{as_roles}", "dim")
            out.print(Text.assemble(head, state_text(line["target"]), by))
            reason = Text(short(reasons_of(line), REASON_LENGTH_MAX), style="dim italic")
            out.print(Padding(reason, (0, 0, 0, 6), expand=False))
        else:
            detail = {name: value for name, value in line["detail"].items() if name != "effect"}
            error = str(detail.pop("detail", "")) if line["kind"] == "effect_failed" else ""
            text = f"{line['kind']}  {short(detail, 90)}"
            out.print(Text.assemble("      ", time, (text, "dim")))
            if error:
                # Whole, because it is the reason why a person is asked in the end.
                out.print(Text(f"      {error}", style="dim italic"), soft_wrap=True)
    if left := len(lines) - len(shown):
        out.print(Text(f"{left} notes of workers and cards are left out: --all shows them", "dim"))


def without_routine(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines of a log but those of claims and withdrawn cards, each card's first only."""
    found: list[Mapping[str, Any]] = []
    cards_seen: set[str] = set()
    for line in lines:
        kind = line.get("kind")
        if line["line"] == "note" and kind in CARD_NOTES:
            proposal = str(line["detail"].get("proposal"))
            if proposal in cards_seen:
                continue
            cards_seen.add(proposal)
        if line["line"] == "event" or kind not in ROUTINE_NOTES:
            found.append(line)
    return found


def reasons_of(event: Mapping[str, Any]) -> str:
    """Return why an event happened: what its row says, what was said, policy checks that failed.

    Each sentence is in it once.
    """
    payload, checks = event["payload"] or {}, (event["explanation"] or {}).get("checks", [])
    texts = [str(payload[name]) for name in SENTENCES if payload.get(name)]
    told = words_of(payload, event["cause"]["reason"])  # they are in `because` already
    said = [short(text, REASON_LENGTH_MAX) for text in texts if text not in told]
    answers = {name: short(payload[name]) for name in ANSWERS if payload.get(name)}
    said += [f"{name}: {answer}" for name, answer in answers.items() if answer]
    failed = [check["why"] for check in checks if not check["passed"]]
    return "; ".join(dict.fromkeys((event["because"], *said, *failed)))


def records(value: Mapping[str, Any], now_ms: int) -> None:
    """Print a list of records, and for each machine how many are in each state."""
    table = grid("id", "machine", "state", "since", "title")
    for row in value["records"]:
        since, title = age(now_ms - row["since_ms"]), one_line(row["title"])
        table.add_row(row["id"], row["machine"], state_text(row["state"]), since, title)
    out.print(table)
    for machine, counts in value["counts"].items():
        out.print(Text(f"{machine}: {counts_text(counts) or 'no records'}", style="dim"))
    if not value["counts"]:
        out.print(Text("no records", style="dim"))
    if value["more"]:
        ended = f"counted {COUNT_MAX:,} records, and there are more: name further conditions"
        out.print(Text(ended, style="dim"))


def up(addresses: Mapping[str, str], home: Path, *, named: bool, has_own: bool = False) -> None:
    """Print the addresses of a deployment that was started; `named`: INTERLOCK_HOME has its home.

    `has_own`: it has workflows of its users, who hand records in from programs of theirs.
    Commands in the same folder find a home that was not named by themselves.
    """
    where = f" at {addresses['api']}" if addresses["api"] else ""
    out.print(f"Interlock is up{where}; Ctrl-C ends it.", style="bold green", soft_wrap=True)
    if addresses["console"] != addresses["api"]:
        sentence = f"The console, for one browser; `{program()} console` prints another such link:"
        out.print(sentence, highlight=False, markup=False, soft_wrap=True)
        out.print(f"  {addresses['console']}", style="cyan", highlight=False, soft_wrap=True)
    table = grid("", "")
    table.add_row("store and broker", addresses["store"])
    if addresses["api"]:
        table.add_row("HTTP API", f"{addresses['api']}/v1")
    table.add_row("Flower", f"{addresses['flower']}, and with its login in {addresses['login']}")
    table.add_row("logs", addresses["logs"])
    out.print(table)
    chosen = f"export INTERLOCK_HOME={shlex.quote(str(home))}"
    command = "cards" if has_own else "submit --title 'Call the dentist'"
    submit = f"{program()} {command}"
    lines = (chosen, submit) if named else (submit, f"{chosen}    # first, from another folder")
    out.print("in another terminal:" if named else "in another terminal, in this folder:")
    for line in lines:
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
    agreement = (
        "every record agrees with its log"
        if not report["faults"]
        else counted(len(report["faults"]), "fault")
    )
    out.print(
        f"{counted(report['records'], 'record')}, {counted(report['transitions'], 'transition')}:"
        f" {agreement}",
        highlight=False,
    )


def verdict(value: Mapping[str, Any]) -> str:
    """Return in one sentence whether a deployment is well."""
    waits = value["depths"]["waits"]
    asked = f"{counted(waits, 'record')} {'waits' if waits == 1 else 'wait'} for a person"
    workers = counted(len(value["workers"]), "worker")
    if value["problems"]:
        return f"{counted(len(value['problems']), 'problem')}, at the end; {asked}"
    if not value["workers"]:
        return f"no worker answers, and no work waits for one; {asked}"
    refused = sum(value["rejected"].values())
    more = [counted(refused, "rejected message")] if refused else []
    if value["left_out"]:
        more.append(f"{len(value['left_out'])} of the capabilities left out")
    return f"all is well: {', '.join((workers, 'sweeps on time', asked, *more))}"


def diagnosis(value: Mapping[str, Any]) -> None:
    """Print whether all is well, the durability, the depths of queues, and the counts by state."""
    style = "bold green" if value["workers"] and not value["problems"] else "bold red"
    out.print(Text(verdict(value), style=style))
    out.print(Text.assemble((value["level"], "bold"), f"  {value['promise']}"))
    table = grid("", "")
    sent = {"messages are sent": ENQUEUE[value["enqueue"]]}
    for name, fact in (value["store"] | sent | _canary(value["canary_ms"])).items():
        table.add_row(name, str(fact))
    depths = [(DEPTHS[name], str(depth)) for name, depth in value["depths"].items()]
    for row in (*depths, *(("waits for a slot", said) for said in value["slots"])):
        table.add_row(*row)
    for kind, count in value["rejected"].items():
        table.add_row(f"rejected: {kind}", str(count))
    for machine, counts in value["machines"].items():
        if counts:
            table.add_row(f"records: {machine}", counts_text(counts))
    for name, text in _of_computers(value):
        table.add_row(name, text)
    table.add_row("workers", ", ".join(value["workers"]) or "none")
    out.print(table)
    if value["rejected_messages"]:
        table = grid("rejected", "why", "message", title="the newest rejected messages")
        for message in value["rejected_messages"]:
            table.add_row(message["kind"], one_line(message["reason"]), one_line(message["body"]))
        out.print(table)
    for problem in value["problems"]:
        out.print(Text(problem, style="bold red"), soft_wrap=True)


def _of_computers(value: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    for name, why in value["left_out"].items():
        yield f"capability left out: {name}", Text(why, style="red")
    for host, level in value["sandboxes"].items():
        is_open = level != NONE and not value["asks_password"]
        said = f"{SAID_OF[level]}{OPEN_STORE if is_open else ''}"
        yield f"agents of {host} run", Text(said, style="red" if level == NONE or is_open else "")


def _canary(age_ms: int | None) -> dict[str, str]:
    return {} if age_ms is None else {"newest canary that is done": f"submitted {age(age_ms)} ago"}


def capabilities(value: Mapping[str, Any]) -> None:
    """Print the capabilities with what they need, then those that are left out."""
    table = grid("capability", "needs", "irreversibility", "what it does")
    for found in value["capabilities"]:
        needs = ", ".join(found["parameters"].get("required", ())) or "-"
        risk = found["irreversibility"]
        table.add_row(found["name"], Text(needs), risk, Text(found["description"]))
    out.print(table)
    if value["named"] is None:
        sentence = "INTERLOCK_CAPABILITIES is not set, and no `interlock up` with it runs here yet"
        out.print(Text(sentence, style="yellow"), soft_wrap=True)
    for name, why in value["left_out"].items():
        line = Text.assemble(("left out ", "bold red"), (f"{name}: ", "bold"), why)
        out.print(line, soft_wrap=True, highlight=False)
