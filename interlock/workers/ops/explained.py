"""Says why a record waits, since when and until when, and what would move it.

That is what `interlock explain` prints of a record, and `interlock fire` without a trigger.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from interlock.kernel.decision import Explanation
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import PERSON as PERSON_IN_THE_WAY
from interlock.kernel.record import SLOT, root_of
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.table import PERSON, PRODUCER
from interlock.kernel.timer import Timer
from interlock.workers.client import Client
from interlock.workers.engine.system import load
from interlock.workers.ops.description import describe
from interlock.workers.systems import systems

if TYPE_CHECKING:  # it takes long to import, and most commands do without it
    from interlock.workers.remote.client import HttpClient

Fields = Mapping[str, Any]


def explained(client: Client | HttpClient, record_id: str) -> dict[str, Any]:
    """Return what a record waits for, and the triggers that its state takes, as plain data."""
    if isinstance(client, Client):
        found = describe(client, record_id)
    else:
        found = client.describe(record_id)
    commands = commands_of(found)
    machine = MACHINES.get(found["machine"])
    ends = machine.cancel_triggers if machine else ()
    triggers = [
        {
            "trigger": each.trigger,
            "target": each.target,
            "by": list(each.by),
            "sentence": each.sentence,
            "command": commands.get(each.trigger) or _fire_line(machine, found, each.trigger)
            if by_hand(each)
            else "",
            "cancels": each.trigger in ends,
        }
        for each in client.explain_all(record_id)
        if each.by
    ]
    ended = not triggers
    return {
        "id": record_id,
        "machine": found["machine"],
        "state": found["state"],
        "since_ms": found["since_ms"],
        "ended": ended,
        "outlook": found["outlook"],
        "family": found["family"],
        "failures": found["failures"],
        "waits": list(_waits(found)),
        "triggers": triggers,
        "again": commands.get("", "") if ended else "",
    }


def by_hand(found: Explanation) -> bool:
    """Whether a person or a program may fire a trigger in the state that the record has."""
    return not {PERSON, PRODUCER}.isdisjoint(found.by)


def commands_of(found: Fields) -> dict[str, str]:
    """Return the command lines that fire triggers of a record; that of '' begins its work anew.

    An answer to its card is given as the card says; the others are named by the record's system.
    """
    record_id, machine = found["id"], found["machine"]
    named: dict[str, str] = {}
    for source in filter(None, (system.by_hand for system in systems())):
        for name, command in load(source).items():
            of_machine, _, trigger = name.partition(".")
            if of_machine == machine:
                line = command.format(id=record_id, root=root_of(record_id))
                named[trigger] = f"interlock {line}"
    offers = [offer for card in found["cards"] for offer in card["affordances"]]
    return named | {offer["trigger"]: offer["command"] for offer in offers if offer["trigger"]}


def _fire_line(machine: Machine | None, found: Fields, trigger: str) -> str:
    """Return the command line that fires a trigger, with what the table wants of it."""
    line = f"interlock fire {found['id']} {trigger}"
    if machine is None:
        return line
    if trigger in machine.cancel_triggers:
        return f"interlock cancel {found['id']}"
    if any(row.names_proposal for row in machine.rows(found["state"], trigger)):
        line += f" --version {found['entered']}"
    model = machine.payloads.get(trigger)
    fields = model.model_fields.items() if model else ()
    needed = {name: "..." for name, field in fields if field.is_required() and name != "by"}
    return f"{line} --payload {shlex.quote(json.dumps(needed))}" if needed else line


def _waits(found: Fields) -> Iterator[dict[str, Any]]:
    """Yield what a record waits for, each with since when and until when, in ms or None."""
    since = found["since_ms"]
    if found["paused"]:
        what = f"a person who resumes it: `interlock resume {found['id']}`; no effect starts before"
        yield _wait(what)
    for card in found["cards"]:
        deadline, who = card["deadline"], " or ".join(card["deciders"]) or "a person"
        then = f" Then {deadline['trigger']} -> {deadline['target']}." if deadline else ""
        until = deadline["due_ms"] if deadline else None
        yield _wait(f"{who}: {card['question']}{then}", card["since_ms"], until)
    for entry in found["entries"]:
        if wait := _of_effect(entry, since, paused=found["paused"]):
            yield wait
    machine = MACHINES.get(found["machine"])
    stage = shown_stage(machine, found["state"]) if machine else None
    timers = {timer.name: timer for timer in stage.timers} if stage else {}
    for entry in found["timers"]:
        until = None if found["paused"] else entry["due_at"]
        yield _wait(f"time: {_of_timer(entry['name'], timers.get(entry['name']))}", until=until)


def _of_effect(entry: Fields, since: int, *, paused: bool) -> dict[str, Any] | None:
    """Return the wait for an effect; None where a card or the outlook has it."""
    effect = f"the effect {entry['name']}, attempt {entry['attempts'] + (entry['state'] == 'owed')}"
    match entry["state"]:
        case "owed" if not paused and entry["holder"] not in (SLOT, PERSON_IN_THE_WAY):
            until = entry["not_before"] or None
            return _wait(f"{effect}, which a worker will begin", since, until)
        case "leased":
            what = f"{effect}, which {entry['holder']} does and has a lease for"
            return _wait(what, since, entry["lease_until"])
        case "lapsed":
            return _wait(f"{effect}, whose worker was lost: a sweep decides what follows", since)
        case "draining":
            return _wait(f"{effect}, which was stopped and has yet to end", since, entry["kill_by"])
    return None


def _of_timer(name: str, timer: Timer | None) -> str:
    if timer is None:
        return name
    return f"{name} fires {timer.trigger}" if timer.trigger else f"{name} is a reminder"


def _wait(what: str, since: int | None = None, until: int | None = None) -> dict[str, Any]:
    return {"what": what, "since_ms": since, "until_ms": until}
