"""Why a record waits and what would move it, as commands print it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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

PEOPLE = {"person", "producer"}


def explained(value: Mapping[str, Any]) -> Iterator[Part | Section]:
    """Yield the state of a record, what it waits for, and each trigger of its state."""
    state = StateName(value["machine"], value["state"])
    yield Sentence((Link(value["id"]), " is ", state, " for ", Time(value["since_ms"])))
    if value["outlook"]:
        yield Sentence(value["outlook"])
    if value["family"]:
        yield Sentence(value["family"])
    for effect, why in value["failures"].items():
        yield Sentence((Sentence(f"{effect} failed last: ", "soft"), why))
    if value["waits"]:
        rows = [
            (
                "" if each["since_ms"] is None else Time(each["since_ms"]),
                "" if each["until_ms"] is None else Time(each["until_ms"], "left"),
                each["what"],
            )
            for each in value["waits"]
        ]
        yield Table(("Waits since", "Until", "For"), rows)
    if value["ended"]:
        yield Sentence("It has ended: nothing moves it any more.")
        if value["again"]:
            yield Sentence("To do its work again:", "soft")
            yield Sentence(Verbatim(value["again"]))
        return
    yield from triggers(value)


def triggers(value: Mapping[str, Any]) -> Iterator[Part | Section]:
    """Yield each trigger that the state of a record takes, first those that people may fire."""
    machine = value["machine"]
    rows = [
        (
            each["trigger"],
            StateName(machine, each["target"]),
            ", ".join(each["by"]),
            each["command"],
        )
        for each in sorted(value["triggers"], key=lambda each: PEOPLE.isdisjoint(each["by"]))
    ]
    table = Table(("Trigger", "Leads to", "Fired by", "How"), rows)
    yield Section("What moves it", [table])


def instead(value: Mapping[str, Any]) -> str:
    """Say after "nothing is to be retried" with which commands a record goes on, or ''."""
    if value["ended"]:
        return f"; `{value['again']}` does its work again" if value["again"] else ": it has ended"
    named = [each for each in value["triggers"] if each["command"] and not each["cancels"]]
    ways = "; ".join(f"`{each['command']}` ({each['trigger']})" for each in named)
    advice = f"`interlock explain {value['id']}` says what it waits for"
    return f": what a person can do with it is {ways}; {advice}" if ways else f": {advice}"
