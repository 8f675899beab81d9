"""Records of every system, and reports about a store, as commands show them to operators."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.kernel.amounts import MONEY, dollars
from interlock.kernel.question import inner
from interlock.kernel.record import parent_of
from interlock.kernel.store.counts import COUNT_MAX
from interlock.workers.processes.sandbox import Sandbox
from interlock.workers.systems import plain_request, systems, words_of
from interlock.workers.terminal.cards import cards
from interlock.workers.terminal.page import (
    Link,
    Part,
    Section,
    Sentence,
    StateName,
    Table,
    Time,
    Verbatim,
)
from interlock.workers.terminal.screen import counted, counts_text, program
from interlock.workers.text import LINE_LENGTH_MAX, duration, is_said, moment, one_line

# What `doctor` says of the agents of a computer.
SAID_OF = {
    Sandbox.BUBBLEWRAP: "in a sandbox of bubblewrap",
    Sandbox.NONE: "in no sandbox: they can do what the user of the worker can, also answer cards",
}
OPEN_STORE = ", but the store asks for no password, so they can answer cards: give it one"
RUNS = "runs"  # the key of what `describe` finds in the log
ENQUEUE = {"fused": "in the commit (fused)", "plain": "after the commit (plain)"}
# What counters of a record and all below it say, by what comes before the name in theirs.
TREE, RESERVED = "tree", "reserved"
KINDS = {
    "cap": "{} at most",
    TREE: "{}, with all below it",
    RESERVED: "{} reserved for work that goes on",
    "residue": "{} that lost work may have used",
}
# The names of counters that these and their own name do not explain.
TIME = "time_ms"
COUNTERS = {
    TIME: "time at work",
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


def record(value: Mapping[str, Any]) -> Iterator[Part]:
    """Yield what is known of one record."""
    version = f"  version {value['version']}"
    if value["entered"] != value["version"]:
        version += f", in this state since version {value['entered']}"
    paused = Sentence("  paused" if value["paused"] else "", "ask")
    state = StateName(value["machine"], value["state"], asks=bool(value["cards"]))
    yield Sentence((Link(value["id"]), "  ", state, Sentence(version, "soft"), paused))
    questions = [card["question"] for card in value["cards"]]
    reasons = [reason for reason in failure_reasons(value) if not is_said(reason, questions)]
    yield record_facts(value, [*questions, *reasons])
    if value["outlook"]:
        yield Sentence(value["outlook"])
    for reason in reasons:
        yield Sentence((Sentence("why  ", "soft"), reason))
    yield from cards(value["cards"], otherwise=f"{value['id']} itself asks nobody anything")
    if value[RUNS]:
        yield runs(value[RUNS])


def runs(found: Iterable[Mapping[str, Any]]) -> Table:
    """Return the start, the steps and the end of each run of an effect."""
    rows = [
        (run["effect"], part.removesuffix("s"), Time(row["at_ms"]), _detail(row))
        for run in found
        for part in ("started", "steps", "finished")
        for row in run[part]
    ]
    return Table(("Run", "What", "When", "Detail"), rows)


def _detail(row: Mapping[str, Any]) -> str:
    return one_line(
        {name: value for name, value in row.items() if name != "at_ms"}, length_max=LINE_LENGTH_MAX
    )


def record_facts(value: Mapping[str, Any], said_below: Sequence[str]) -> Mapping[str, object]:
    """Return the fields of a record, but not why it failed where a text below says that whole."""
    details = value["details"]
    facts = dict(details.items() if details else shown_fields(value["machine"], value["data"]))
    if is_said(facts.get("why", ""), said_below):
        facts.pop("why", "")
    if value["place"]:
        facts["part of"] = f"{parent_of(value['id'])}, {value['place']}"
    facts["family"] = value["family"]
    for label, (name, amount) in counters_shown(value["counters"]).items():
        facts[label] = counter_text(name, amount)
    effects = (
        effect_text(entry, failed=entry["suffix"] in value["failures"])
        for entry in value["entries"]
    )
    return {**facts, "effects": "; ".join(effects)}


def failure_reasons(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a record failed, and why its effects did, as far as no line above says it whole."""
    reason = str(inner(value["data"], "failure").get("reason", "")).strip()
    if reason != one_line(reason, length_max=LINE_LENGTH_MAX):
        # Such as the output of a command, of which lists show the first line.
        yield reason
    if not value["cards"]:
        yield from value["failures"].values()


def effect_text(entry: Mapping[str, Any], *, failed: bool) -> str:
    """Return what an effect is doing; if it failed, also when it is tried again."""
    text = f"{entry['name']} {entry['state']}, attempt {entry['attempts']}"
    if failed and entry["state"] == "owed":
        text += f", which failed; tried again at {moment(entry['not_before'])}"
    return text


def counters_shown(counters: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return the counters that people are shown, with their names, by what they are called.

    What a record has used with all below it is left out where it used all of that itself; money is
    not left out. A reservation is left out once nothing is reserved.
    """
    found: dict[str, tuple[str, int]] = {}
    for name, amount in sorted(counters.items()):
        kind, _, counted = name.rpartition(".")
        if kind == RESERVED and not amount:
            continue
        if kind != TREE or counted == MONEY or counters.get(counted) != amount:
            label = KINDS.get(kind, "{}").format(COUNTERS.get(counted, counted))
            found[COUNTERS.get(name, label)] = (name, amount)
    return found


def counter_text(name: str, amount: int) -> str:
    """Return the amount of a counter: millionths of a dollar, ms, or what else its name says."""
    if name.endswith(TIME):
        return duration(amount)
    return dollars(amount) if MONEY in name else str(amount)


def shown_fields(machine: str, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields that people look for: title, proposals, results."""
    words = words_of(machine, data)
    title = words.request.partition("\n\n")[0]
    if about := title or data.get("title") or data.get("name"):
        yield "about", str(about)
    yield from words.proposals.items()
    names = dict.fromkeys(name for system in systems() for name in system.shown)
    yield from (
        (name, one_line(data[name], length_max=LINE_LENGTH_MAX)) for name in names if data.get(name)
    )


def records(value: Mapping[str, Any]) -> Iterator[Part]:
    """Yield a list of records, and for each machine how many are in each state."""
    rows = [
        (
            Link(row["id"]),
            row["machine"],
            StateName(row["machine"], row["state"], asks=row["waits_for_person"]),
            Time(row["since_ms"]),
            one_line(row["title"], length_max=LINE_LENGTH_MAX),
        )
        for row in value["records"]
    ]
    yield Table(("Id", "Machine", "State", "Since", "Title"), rows)
    for machine, counts in value["counts"].items():
        yield Sentence(f"{machine}: {counts_text(counts) or 'no records'}", "soft")
    if not value["counts"]:
        yield Sentence("no records", "soft")
    if value["more"]:
        more = f"counted {COUNT_MAX:,} records, and there are more: name further conditions"
        yield Sentence(more, "soft")


def up(
    addresses: Mapping[str, str], home: Path, *, named: bool, has_own: bool = False
) -> Iterator[Part]:
    """Yield the addresses of a deployment that was started; `named`: INTERLOCK_HOME has its home.

    `has_own`: it has workflows of its users, who hand records in from programs of theirs.
    Commands in the same folder find a home that was not named by themselves.
    """
    api = addresses["api"]
    where = f" at {api}" if api else ""
    yield Sentence(f"Interlock is up{where}; Ctrl-C ends it.", "good")
    if addresses["console"] != api:
        console = f"{program()} console"
        yield Sentence(f"The console, for one browser; `{console}` prints another such link:")
        yield Sentence(("  ", Sentence(addresses["console"], "strong")))
    yield {
        "store and broker": addresses["store"],
        "console": api,
        "HTTP API": f"{api}/v1" if api else "",
        "Flower": f"{addresses['flower']}, and with its login in {addresses['login']}",
        "logs": addresses["logs"],
    }
    chosen = f"export INTERLOCK_HOME={shlex.quote(str(home))}"
    plain = None if has_own else plain_request()
    submit = f"{program()} {plain.command if plain else 'cards'}"
    lines = (chosen, submit) if named else (submit, f"{chosen}    # first, from another folder")
    yield Sentence("in another terminal:" if named else "in another terminal, in this folder:")
    for line in lines:
        yield Sentence(Verbatim(line))


def machines(value: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    """Yield the tables of machines."""
    for machine in value:
        states = [
            (
                state["name"],
                state["kind"],
                state["entry_effect"] or "",
                ", ".join(timer["name"] for timer in state["timers"]),
            )
            for state in machine["states"]
        ]
        columns: tuple[str, ...] = ("State", "Kind", "Effect", "Timers")
        yield Section(f"{machine['name']}: states", [Table(columns, states)])
        rows = [
            (row["source"], row["trigger"], row["target"], ", ".join(row["by"]), row["why_ours"])
            for row in machine["rows"]
        ]
        columns = ("Source", "Trigger", "Target", "Fired by", "Ours")
        yield Section(f"{machine['name']}: rows", [Table(columns, rows)])


def verification(report: Mapping[str, Any]) -> Iterator[Sentence]:
    """Yield whether logs and records agree."""
    for fault in report["faults"]:
        yield Sentence((Sentence("fault ", "bad"), fault))
    faults = len(report["faults"])
    agreement = counted(faults, "fault") if faults else "every record agrees with its log"
    seen = f"{counted(report['records'], 'record')}, {counted(report['transitions'], 'transition')}"
    yield Sentence(f"{seen}: {agreement}")


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


def diagnosis(value: Mapping[str, Any]) -> Iterator[Part | Section]:
    """Yield whether all is well, the durability, the depths of queues, and the counts by state."""
    well = value["workers"] and not value["problems"]
    yield Sentence(verdict(value), "good" if well else "bad")
    yield Sentence((Sentence(value["level"], "strong"), f"  {value['promise']}"))
    counts = {name: counts_text(each) for name, each in value["machines"].items() if each}
    facts: dict[str, object] = {
        **{name: str(fact) for name, fact in value["store"].items()},
        "messages are sent": ENQUEUE[value["enqueue"]],
        **value["systems"],
        **{DEPTHS[name]: str(depth) for name, depth in value["depths"].items()},
        "waits for a slot": "; ".join(value["slots"]),
        **{f"rejected: {kind}": str(count) for kind, count in value["rejected"].items()},
        **{f"records: {machine}": said for machine, said in counts.items()},
        **dict(_of_computers(value)),
        "workers": ", ".join(value["workers"]) or "none",
    }
    yield facts
    if value["rejected_messages"]:
        rows = [
            (
                message["kind"],
                one_line(message["reason"], length_max=LINE_LENGTH_MAX),
                one_line(message["body"], length_max=LINE_LENGTH_MAX),
            )
            for message in value["rejected_messages"]
        ]
        columns = ("Rejected", "Why", "Message")
        yield Section("the newest rejected messages", [Table(columns, rows)])
    for problem in value["problems"]:
        yield Sentence(problem, "bad")


def _of_computers(value: Mapping[str, Any]) -> Iterator[tuple[str, Sentence]]:
    for name, why in value["left_out"].items():
        yield f"capability left out: {name}", Sentence(why, "bad")
    for host, level in value["sandboxes"].items():
        is_none = level == Sandbox.NONE
        is_open = not is_none and not value["asks_password"]
        said = f"{SAID_OF[level]}{OPEN_STORE if is_open else ''}"
        yield (
            f"agents of {host} run",
            Sentence(said, "bad" if is_none or is_open else ""),
        )


def capabilities(value: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the capabilities with what they need, then those that are left out."""
    rows = [
        (
            found["name"],
            ", ".join(found["parameters"].get("required", ())),
            found["irreversibility"],
            found["description"],
        )
        for found in value["capabilities"]
    ]
    yield Table(("Capability", "Needs", "Irreversibility", "What it does"), rows)
    if value["named"] is None:
        named = "INTERLOCK_CAPABILITIES is not set, and no `interlock up` with it runs here yet"
        yield Sentence(named, "ask")
    for name, why in value["left_out"].items():
        left_out = Sentence("left out ", "bad")
        yield Sentence((left_out, Sentence(f"{name}: ", "strong"), why))
