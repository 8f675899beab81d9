"""How each of the last formats keeps a record: what leads from each to the next one, and back.

A step changes what is kept as its older or its newer format has it, and nothing else, so that it
may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from interlock.kernel.errors import CallError, TableFunctionError
from interlock.kernel.machine import Machine

ENTRY, TIMER = "e:", "t:"


class CannotMigrateError(CallError):
    """A record cannot be kept as another format has it. Mend it by the version that wrote it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store keeps of a record: the fields of its hash, and its counters."""

    id: str
    fields: Mapping[str, str]
    counters: Mapping[str, str]


Change = Callable[[Stored, Mapping[str, Machine]], Stored]


@dataclass(frozen=True, slots=True)
class FormatStep:
    """What leads from a format to the next one, and back.

    `keys` has the new word for each old one that a key has after the tag of its partition, and
    `items` for a word the fields that the items of its stream have.
    """

    forward: Change
    back: Change
    keys: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


# --- from 1 to 2: plain words for fields and keys ---------------------------------------------

FIELDS_OF_2 = {"birth": "digest", "last": "last_token", "counted": "countdown", "person": "waits"}
KEYS_OF_2 = {
    "kids": "children",
    "dependents": "subscribers",
    "chronicle": "family-log",
    "line": "queue",
    "lines": "queues",
    "slots-line": "slots-queue",
    "opt": "op-times",
    "postt": "post-times",
}
TIMERS_OF_2 = {machine: {"look": "recheck"} for machine in ("task", "turn", "loop")}
EFFECTS_OF_2 = {
    "task": {"aftermath": "follow_up"},
    "turn": {"reaping": "turn_cleanup"},
    "job": {"registration": "subscription", "tell": "notification", "vacancy": "slot_release"},
    "graph": {"tending": "graph_upkeep"},
    "loop": {"drain": "mail_check", "retirement": "agent_cleanup"},
    "run": {"clearance": "codon_cleanup", "conductor": "launch"},
    "codon": {"clearance": "codon_cleanup"},
}
COUNTDOWN = 5  # its place in an entry of format 2; it is the last value in format 1


def _to_2(stored: Stored, _: Mapping[str, Machine]) -> Stored:
    if "birth" not in stored.fields:
        return stored
    machine = stored.fields["machine"]
    names = EFFECTS_OF_2.get(machine, {})

    def entry(line: str) -> str:
        name, *values = line.split(" ")
        values.insert(COUNTDOWN - 1, values.pop())
        return " ".join([names.get(name, name), *values])

    return _renamed(stored, FIELDS_OF_2, TIMERS_OF_2.get(machine, {}), entry)


def _back_to_1(stored: Stored, _: Mapping[str, Machine]) -> Stored:
    if "digest" not in stored.fields:
        return stored
    machine = stored.fields["machine"]
    names = _turned(EFFECTS_OF_2.get(machine, {}))

    def entry(line: str) -> str:
        name, *values = line.split(" ")
        values.append(values.pop(COUNTDOWN - 1))
        return " ".join([names.get(name, name), *values])

    timers = _turned(TIMERS_OF_2.get(machine, {}))
    return _renamed(stored, _turned(FIELDS_OF_2), timers, entry)


def _renamed(
    stored: Stored,
    names: Mapping[str, str],
    timers: Mapping[str, str],
    entry: Callable[[str], str],
) -> Stored:
    fields = {}
    for name, value in stored.fields.items():
        if name.startswith(TIMER):
            timer = name.removeprefix(TIMER)
            fields[f"{TIMER}{timers.get(timer, timer)}"] = value
        elif name.startswith(ENTRY):
            fields[name] = entry(value)
        else:
            fields[names.get(name, name)] = value
    return replace(stored, fields=fields)


# --- from 2 to 3: a title, by which lists find a record ---------------------------------------


def _to_3(stored: Stored, machines: Mapping[str, Machine]) -> Stored:
    if "title" in stored.fields:
        return stored
    title = ""
    if machine := machines.get(stored.fields["machine"]):
        try:
            title = machine.titled(json.loads(stored.fields["data"]))
        except (TableFunctionError, ValueError):
            title = ""  # of data that the table does not know; `verify` names the record
    return replace(stored, fields={**stored.fields, "title": title})


def _back_to_2(stored: Stored, _: Mapping[str, Machine]) -> Stored:
    fields = {name: value for name, value in stored.fields.items() if name != "title"}
    return replace(stored, fields=fields)


# --- from 3 to 4: caps by name ----------------------------------------------------------------

COUNTERS_OF_4 = {
    "cap": "cap.spent",
    "most": "cap.runs",
    "tree.reserved": "reserved.spent",
    "tree.residue": "residue.spent",
}
RESERVED_3, RESERVED_4 = 18, 6  # the place of what an entry has reserved
NEW_COUNTERS = ("cap.", "reserved.", "residue.")


def _to_4(stored: Stored, _: Mapping[str, Machine]) -> Stored:
    def entry(line: str) -> str:
        values = line.split(" ")
        if not _is_number(values[RESERVED_4]):
            return line
        amount = int(values.pop(RESERVED_3))
        values.insert(RESERVED_4, f"spent={amount}" if amount else "-")
        return " ".join(values)

    return _with_caps(stored, COUNTERS_OF_4, entry)


def _back_to_3(stored: Stored, _: Mapping[str, Machine]) -> Stored:
    names = _turned(COUNTERS_OF_4)

    def entry(line: str) -> str:
        values = line.split(" ")
        if _is_number(values[RESERVED_4]):
            return line
        name, _, amount = values.pop(RESERVED_4).partition("=")
        if name not in ("spent", "-") or not _is_number(amount or "0"):
            raise CannotMigrateError(f"{stored.id} has reserved {name}: format 3 keeps money only")
        values.insert(RESERVED_3, amount or "0")
        return " ".join(values)

    for name in stored.counters:
        if name.startswith(NEW_COUNTERS) and name not in names:
            raise CannotMigrateError(f"{stored.id} has {name}, a cap that format 3 does not know")
    return _with_caps(stored, names, entry)


def _with_caps(stored: Stored, names: Mapping[str, str], entry: Callable[[str], str]) -> Stored:
    fields = {
        name: entry(value) if name.startswith(ENTRY) else value
        for name, value in stored.fields.items()
    }
    counters = {names.get(name, name): value for name, value in stored.counters.items()}
    return replace(stored, fields=fields, counters=counters)


def _is_number(value: str) -> bool:
    return value.lstrip("-").isdigit()


def _turned(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


STEPS: Mapping[int, FormatStep] = {
    1: FormatStep(_to_2, _back_to_1, KEYS_OF_2, {"family-log": {"of": "record"}}),
    2: FormatStep(_to_3, _back_to_2),
    3: FormatStep(_to_4, _back_to_3),
}
OLDEST = min(STEPS)
