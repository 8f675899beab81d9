"""The page of threads in the console: why people are asked, families, and the policy explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, TypeGuard

from interlock.kernel.event import Event, Note
from interlock.kernel.machines.threads.autonomy import AutonomyPolicy, parse
from interlock.kernel.machines.threads.thread.guards import policy_of
from interlock.kernel.machines.threads.thread.table import THREAD
from interlock.kernel.question import as_sentence
from interlock.kernel.record import Record, ancestors, root_of
from interlock.kernel.table import PERSON
from interlock.workers.client import Client
from interlock.workers.engine.card import question_of
from interlock.workers.engine.open_cards import OpenCards
from interlock.workers.terminal.page import (
    NamedCells,
    Part,
    Query,
    RecordLink,
    Section,
    Sentence,
    Since,
    StateName,
    SystemPage,
    Table,
)
from interlock.workers.terminal.screen import REASON_LENGTH_MAX, short
from interlock.workers.text import dollars
from interlock.workers.threads.screen import runs_of

ASKED_MAX = 50
LOG_MAX = 200
FAMILY_MAX = 200


def view(client: Client, query: Query) -> list[Section]:
    """Return who is asked about which thread, and because of what."""
    del query
    views = client.dispatch.views
    found, cursor = OpenCards(client.dispatch, {THREAD.name: THREAD}).records(ASKED_MAX)
    records = list(found)
    events = views.events((one.id, one.entered) for one in records)
    because = {str(event.record_id): _because(event) for event in events}
    rows = [
        (
            RecordLink(one.id, one.title),
            StateName(one.state),
            short(question_of(THREAD, one) or "", REASON_LENGTH_MAX),
            because.get(one.id, ""),
            Since(one.since_ms),
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


def panel(client: Client, record: Record) -> list[Section]:
    """Return the policy of a thread and what it decided, its family, and the runs of its action."""
    return [*_policy(client, record), *_family(client, record), *_runs(client, record)]


def _because(event: Event) -> str:
    """Return why a person is asked: what did not pass, and else the reason of the event."""
    checks = (event.explanation or {}).get("checks", ())
    failed = dict.fromkeys(str(check["why"]) for check in checks if not check["passed"])
    return "; ".join(failed) or event.says or event.because


def _policy(client: Client, record: Record) -> Iterator[Section]:
    views = client.dispatch.views
    above = views.records(ancestors(record.id)).items()
    own = parse(record.data["policy"])
    obeyed = policy_of(record.data, {one: found.data for one, found in above})
    parts: list[Part] = []
    entered = views.events([(record.id, record.entered)])
    for event in entered:
        if explanation := event.explanation:
            parts += _verdict(event, explanation)
    acts = [line for line in views.latest([record.id], LOG_MAX)[record.id] if _is_of_person(line)]
    if acts:
        decided = (f"{act.because}, by {act.cause.actor}" for act in reversed(acts))
        parts.append(Sentence(as_sentence(f"What people decided: {'; '.join(decided)}")))
    rows = {
        field.name.removesuffix("_micro").replace("_", " "): _axis(own, obeyed, field.name)
        for field in fields(AutonomyPolicy)
    }
    parts.append(NamedCells(rows))
    yield Section("Policy", parts)


def _verdict(event: Event, explanation: Mapping[str, Any]) -> Iterator[Part]:
    asks = not explanation.get("advance", not explanation.get("demanded"))
    # What the checks are about: the result of an action, or the proposal before it.
    what = "result" if "demanded" in explanation else "proposal"
    no_person = f"The {what} needed no person: every check passed."
    yield Sentence(f"Asked because {_because(event)}." if asks else no_person)
    rows = [
        (str(check["axis"]).replace("_", " "), _passed(check["passed"]), str(check["why"]))
        for check in explanation.get("checks", ())
    ]
    yield Table(("Check", "Result", "Why"), rows)


def _is_of_person(line: Event | Note) -> TypeGuard[Event]:
    """Whether a line of the log is a decision that only a person can have made."""
    if not isinstance(line, Event) or not line.source:
        return False
    rows = THREAD.rows(line.source, line.trigger)
    return any(row.by == (PERSON,) for row in rows if row.target == line.target)


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
    views, root = client.dispatch.views, root_of(record.id)
    holds, below = views.holds(root), views.below([root], limit=FAMILY_MAX)[root]
    if not below and not holds:
        return
    # By name a child can come before its cousin's parent: `a/b-1` is before `a/b/c`.
    members = [root, *sorted(below, key=lambda one: one.split("/"))][:FAMILY_MAX]
    records = views.records(members)
    rows = [
        (
            f"{'· ' * one.count('/')}{'this one' if one == record.id else ''}",
            RecordLink(one, records[one].title),
            records[one].machine,
            StateName(records[one].state),
            Since(records[one].since_ms),
        )
        for one in members
        if one in records and records[one].machine in client.machines
    ]
    parts: list[Part] = [Table(("", "Record", "Machine", "State", "For"), rows)]
    if holds:
        held = [(name, RecordLink(holder)) for name, holder in sorted(holds.items())]
        parts.append(Table(("Name that is held", "By"), held))
    if len(below) >= FAMILY_MAX:
        parts.append(Sentence("There are more; the search `parent:ID` finds them.", "soft"))
    yield Section("Family", parts)


def _runs(client: Client, record: Record) -> Iterator[Section]:
    views = client.dispatch.views
    found = runs_of(views.latest([record.id], FAMILY_MAX)[record.id][::-1])
    rows = [
        (run["effect"], part.removesuffix("s"), _detail(row), Since(row["at_ms"]))
        for run in found
        for part in ("started", "steps", "finished")
        for row in run[part]
    ]
    if rows:
        yield Section("Runs of its action", (Table(("Run", "What", "Detail", "When"), rows),))


def _detail(row: Mapping[str, Any]) -> str:
    return short({name: value for name, value in row.items() if name != "at_ms"})


PAGE = SystemPage(
    title="Threads",
    question="Why are people asked?",
    machines=(THREAD.name,),
    view=view,
    panels={THREAD.name: panel},
)
