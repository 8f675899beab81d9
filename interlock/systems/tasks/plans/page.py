"""Plans as people see them: their tasks, what is decided on each, and what can never be done."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.system.pages import Link, Part, Sentence, StateName, Table, Verbatim
from interlock.system.text import one_line
from interlock.systems.tasks.page import states_text

TITLE_LENGTH_MAX = 60
Row = Mapping[str, Any]
ANSWERS = {
    "approved": Sentence("approved", "good"),
    "rejected": Sentence("rejected", "ask"),
    "unseen": Sentence("unseen", "bad"),
    "refused": Sentence("refused", "bad"),
    "already": Sentence("decided already"),
}


def checked(value: Row) -> Iterator[Part]:
    """Yield that a plan is valid, and how many of its tasks are new."""
    counts = f"{value['tasks']} tasks, {len(value['new'])} of them new"
    yield Sentence(f"{value['plan']} in {value['backlog']} is valid: {counts}")
    yield from _starved(value)


def submitted(value: Row) -> Iterator[Part]:
    """Yield whether each task of a plan is new, and what to do next."""
    answers = {True: Sentence("known already", ""), False: Sentence("accepted", "good")}
    rows = [(Link(row["id"]), answers[bool(row["replayed"])]) for row in value["tasks"]]
    yield Table(("Task", "Answer"), rows)
    if value["others"]:
        names = ", ".join(value["others"])
        yield Sentence(f"the plan has tasks that the file does not have: {names}", "ask")
    yield from _starved(value)
    command = shlex.join(("interlock", "plan", "show", value["backlog"], value["plan"]))
    yield Sentence(f"no task runs before it is approved: {command}", "soft")


def _starved(value: Row) -> Iterator[Sentence]:
    """Yield which tasks of a plan wait for one that has failed and is not tried again."""
    for name, dependency in value["starved"].items():
        if dependency in value["starved"]:
            sentence = f"so {name}, which depends on {dependency}, waits as well"
        else:
            retry = shlex.join(("interlock", "task", "retry", f"{value['backlog']}/{dependency}"))
            why = "which has failed and is not tried again"
            sentence = f"{name} depends on {dependency}, {why}: {retry}, or remove the dependency"
        yield Sentence(sentence, "ask")


def plan(value: Row) -> Iterator[Part]:
    """Yield the tasks of a plan, and the commands to approve or reject it."""
    rows = [
        (
            row["name"],
            StateName("task", row["state"]),
            row["role"],
            ", ".join(row["after"]),
            one_line(row["title"], length_max=TITLE_LENGTH_MAX),
            Sentence(row["why"], "bad"),
        )
        for row in value["tasks"]
    ]
    yield Table(("Task", "State", "Role", "After", "Title", "Why"), rows)
    if any(row["proposal"] for row in value["tasks"]):
        words = (value["backlog"], value["name"], "--seen", value["seen"])
        for choice in ("approve", "reject"):
            yield Sentence(Verbatim(shlex.join(("interlock", "plan", choice, *words))))


def plans(rows: Sequence[Row]) -> list[Part]:
    """Return the plans of a backlog."""
    found = [(row["plan"], row["tasks"], states_text(row["states"])) for row in rows]
    return [Table(("Plan", "Tasks", "States"), found, "there is no plan in this backlog")]


def decided(value: Row) -> Iterator[Part]:
    """Yield the decision on each task, and the tasks that can then never be done."""
    rows = [
        (
            Link(row["id"]),
            ANSWERS[row["answer"]],
            StateName("task", row["state"]),
            row["why"],
        )
        for row in value["tasks"]
    ]
    yield Table(("Task", "Answer", "State", "Why"), rows)
    for name, rejected in value["starved"].items():
        sentence = f"{name} depends on {rejected}: reject it too, or submit {rejected} anew"
        yield Sentence(sentence, "ask")
