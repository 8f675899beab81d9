"""Threads as people see them: why people are asked, families, and the policy explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from interlock import Client, Event
from interlock.system.pages import Link, Part, Section, Sentence, StateName, SystemPage, Table, Time
from interlock.system.tables import Record, as_sentence, dollars
from interlock.system.text import one_line
from interlock.systems.threads.machines.autonomy import AutonomyPolicy, parse
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.guards import policy_of
from interlock.systems.threads.machines.thread.table import THREAD
from interlock.systems.threads.timeline import timeline

ASKED_MAX = 50
REASON_LENGTH_MAX = 160
FAMILY_MAX = 200


def view(client: Client, query: Mapping[str, str]) -> list[Section]:
    """Return who is asked about which thread, and because of what."""
    del query
    records, cursor = client.open_cards.waiting(ASKED_MAX, machine=THREAD.name)
    events = client.records.views.events((one.id, one.entered) for one in records)
    questions = {card.proposal: card.question for card in client.open_cards.of(records)}
    because = {str(event.record_id): _because(event) for event in events}
    rows = [
        (
            Link(one.id, one.title),
            StateName.of(one),
            one_line(questions.get(one.proposal, ""), length_max=REASON_LENGTH_MAX),
            because.get(one.id, ""),
            Time(one.since_ms),
        )
        for one in records
    ]
    table = Table(
        ("Thread", "State", "Question", "Asked because", "For"),
        rows,
        "No thread waits for a person. The inbox shows the first that does.",
    )
    more = [Sentence("There are more: the inbox has all of them.", "soft")] if cursor else []
    return [Section("Threads that wait for a person", (table, *more))]


def panel(client: Client, record: Record[ThreadData]) -> list[Section]:
    """Return the policy of a thread and what it checked last, and its family."""
    return [*_policy(client, record), *_family(client, record)]


def _because(event: Event) -> str:
    """Return why a person is asked: what did not pass, and else the reason of the event."""
    checks = (event.explanation or {}).get("checks", ())
    failed = dict.fromkeys(str(check["why"]) for check in checks if not check["passed"])
    return "; ".join(failed) or event.says or event.because


def _policy(client: Client, record: Record[ThreadData]) -> Iterator[Section]:
    views = client.records.views
    above = views.records(record.ancestors).items()
    own = parse(record.data["policy"])
    obeyed = policy_of(record.data, {one: found.data for one, found in above})
    parts: list[Part] = []
    entered = views.events([(record.id, record.entered)])
    for event in entered:
        if explanation := event.explanation:
            parts += _verdict(event, explanation)
    rows = {
        field.name.removesuffix("_micro").replace("_", " "): _axis(own, obeyed, field.name)
        for field in fields(AutonomyPolicy)
    }
    parts.append(Section("For operators: what this policy allows", [rows], is_folded=True))
    yield Section("Policy", parts, is_reference=True)


def _verdict(event: Event, explanation: Mapping[str, Any]) -> Iterator[Part]:
    asks = not explanation.get("advance", not explanation.get("demanded"))
    # What the checks are about: the result of an action, or the proposal before it.
    what = "result of the action" if "demanded" in explanation else "proposal"
    passed = f"The policy checked the {what}, and every check passed."
    yield Sentence(as_sentence(f"Asked because {_because(event)}") if asks else passed)
    rows = [
        (str(check["axis"]).replace("_", " "), _passed(check["passed"]), str(check["why"]))
        for check in explanation.get("checks", ())
    ]
    yield Section(
        "For operators: each check", [Table(("Check", "Result", "Why"), rows)], is_folded=True
    )


def _passed(value: object) -> str:
    return "✓ passed" if value else "✗ asks a person"


def _axis(own: AutonomyPolicy, obeyed: AutonomyPolicy, name: str) -> str:
    """Return one axis of the policy, and what it would be without that of the parents."""
    found, alone = (_shown(name, getattr(one, name)) for one in (obeyed, own))
    return found if found == alone else f"{found} (its own: {alone}; its parents allow less)"


def _shown(name: str, value: object) -> str:
    if name == "budget_micro" and isinstance(value, int):
        return dollars(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset):
        return ", ".join(sorted(str(each).replace("_", " ") for each in value)) or "none"
    return str(value)


def _family(client: Client, record: Record) -> Iterator[Section]:
    """Yield the family of a thread that has one: with states, and the names that are held."""
    views, root = client.records.views, record.root
    holds, below = views.holds(root), views.below([root], limit=FAMILY_MAX)[root]
    if not below and not holds:
        return
    # By name a child can come before its cousin's parent: `a/b-1` is before `a/b/c`.
    members = [root, *sorted(below, key=lambda one: one.split("/"))][:FAMILY_MAX]
    records = views.records(members)
    rows = [
        (
            f"{'· ' * one.count('/')}{'this one' if one == record.id else ''}",
            Link(one, records[one].title),
            records[one].machine,
            StateName.of(records[one]),
            Time(records[one].since_ms),
        )
        for one in members
        if one in records and records[one].machine in client.machines
    ]
    parts: list[Part] = [Table(("", "Record", "Machine", "State", "For"), rows)]
    if holds:
        held = [(name, Link(holder)) for name, holder in sorted(holds.items())]
        parts.append(Table(("Name that is held", "By"), held))
    if len(below) >= FAMILY_MAX:
        parts.append(Sentence("There are more; the search `parent:ID` finds them.", "soft"))
    yield Section("Family", parts, is_reference=True)


PAGE = SystemPage(
    title="Threads",
    question="Why are people asked?",
    machines=(THREAD.name,),
    view=view,
    panels={THREAD.name: panel},
    timelines={THREAD.name: timeline},
)
