"""Compares the ways out of states: where they lead, and whether a record still has one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from interlock.kernel.effect import AWAITING, NOTIFICATION
from interlock.kernel.machine import Machine
from interlock.kernel.table import ACTORS, PERSON, PRODUCER, STALLS
from interlock.kernel.table_change import Outline, Outlook, TableChange, named, pairs

ATTEMPT = "an attempt that has begun ends as before"
KINDS = {
    "active": "a step",
    "terminal": "an end",
    "asks": "a question",
    "countdown": "a wait for children",
    "awaits": "a wait for a record",
    "waits": "a wait",
}


def way_changes(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    """Yield the ways that lead elsewhere, and the states that do something else."""
    after = named(new)
    for name, state in named(old).items():  # a renamed state of another kind is told elsewhere
        if name in after and state["kind"] != after[name]["kind"]:
            what = f"{name} was {_kind(state)}, and is {_kind(after[name])}"
            yield TableChange(Outlook.STRANDED, what, as_it_was(name), (name,))
    for state, now in pairs(old, new, machine):
        yield from _other_wait(state, now, old, new)
        yield from _other_targets(state, now, old, new, machine)


def is_asking(state: Outline) -> bool:
    """Whether a state asks a person."""
    return bool(state.get("affordances"))


def as_it_was(name: str) -> str:
    """Return what to do for the records in a state that does something else now."""
    return f"give it another name, and keep {name} as it was, with retired=({name!r},)"


def _kind(state: Outline) -> str:
    if state["kind"] != "waiting":
        return KINDS[state["kind"]]
    if is_asking(state):
        return KINDS["asks"]
    return KINDS[next((each for each in ("countdown", "awaits") if state.get(each)), "waits")]


def _other_wait(state: Outline, now: Outline, old: Outline, new: Outline) -> Iterator[TableChange]:
    """Yield that a waiting state waits for something else, and what that means for who is there."""
    if state["kind"] != "waiting":
        return
    name, kinds = state["name"], (_kind(state), _kind(now))
    what = f"{now['name']} was {kinds[0]}, and is {kinds[1]}"
    if [*_ways_out(state, state, old)] and not [*_ways_out(state, now, new)]:
        if kinds[0] == kinds[1]:
            what = f"nothing that {name} waited for moves a record on from {now['name']}"
        yield TableChange(Outlook.STRANDED, what, as_it_was(name), (name,))
    elif kinds[0] != kinds[1]:
        means = "their cards are withdrawn" if is_asking(state) else "nobody is asked about them"
        if is_asking(state) is is_asking(now):
            means = "they go on by their timers and calls alone"
        yield TableChange(Outlook.GOING_ON, what, means, (name,))


def _ways_out(state: Outline, now: Outline, outline: Outline) -> Iterator[str]:
    """Yield the triggers that move on a record that has come into a state as it was before.

    It has the card, the timers, the children and the awaited record that the state had then. That
    it can be cancelled, or reaches the end of its life, is no way out.
    """
    before = {timer["name"] for timer in state["timers"] if timer["since"] != "created"}
    timers = {timer["trigger"] for timer in now["timers"] if timer["name"] in before}
    chosen = {*(now.get("affordances") or {}).values()}
    for row in outline["rows"]:
        trigger, by = row["trigger"], {*row["by"]}
        if (
            row["source"] != now["name"]
            or trigger in outline["cancel"]
            or row["mode"] == "internal"
        ):
            continue
        effects = by - {*ACTORS}
        if (
            (trigger in chosen and is_asking(state))
            or (trigger not in chosen and by & {PERSON, PRODUCER})
            or (STALLS in by and trigger in timers)
            or (effects and _is_fired(state, now, effects))
        ):
            yield trigger


def _is_fired(state: Outline, now: Outline, effects: set[str]) -> bool:
    """Whether effects fire what they fire from a state that has been entered as it was before."""
    if effects <= {NOTIFICATION.name, AWAITING.name}:
        return bool(state["awaits"])
    return now["countdown"] is None or now["countdown"] == state["countdown"]


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a way out of a state leads, besides back, and whether the state's effect takes it."""

    targets: tuple[str, ...]
    of_effect: bool


def _other_targets(
    state: Outline, now: Outline, old: Outline, new: Outline, machine: Machine
) -> Iterator[TableChange]:
    before, after = _ways(state, old, machine.renamed), _ways(now, new, {})
    name, places = now["name"], (state["name"],)
    for way in [way for way in before if way in after]:
        was, leads = before[way].targets, after[way].targets
        if {*was} != {*leads} and was and leads:
            means = ATTEMPT if after[way].of_effect else "those that are there go there, too"
            what = f"{way} of {name} leads to {_either(leads)} instead of {_either(was)}"
            yield TableChange(Outlook.GOING_ON, what, means, places)
    # Calls, choices and timers that only one of the tables has are told as such.
    if more := _outcomes(after, before):
        yield TableChange(Outlook.GOING_ON, f"{name} leads to {_either(more)} now", ATTEMPT, places)
    if gone := _outcomes(before, after):
        what = f"{name} does not lead to {_either(gone)} any more"
        yield TableChange(Outlook.GOING_ON, what, ATTEMPT, places)


def _ways(state: Outline, outline: Outline, renamed: Mapping[str, str]) -> dict[str, _Way]:
    """Return the ways out of a state as people name them, with the present names of states."""
    choices = {trigger: name for name, trigger in (state.get("affordances") or {}).items()}
    timers = {each["trigger"]: each["name"] for each in state["timers"]}
    found: dict[str, _Way] = {}
    for row in [row for row in outline["rows"] if row["source"] == state["name"]]:
        trigger = row["trigger"]
        way = f"the timer {timers[trigger]}" if trigger in timers else trigger
        way = f"the choice {choices[trigger]}" if trigger in choices else way
        before = found.get(way, _Way((), of_effect=False))
        target = () if row["target"] == row["source"] else (row["target"],)
        targets = (*before.targets, *(renamed.get(each, each) for each in target))
        of_effect = state["kind"] == "active" and not {*row["by"]} <= {*ACTORS}
        found[way] = _Way(targets, of_effect or before.of_effect)
    return found


def _outcomes(ways: Mapping[str, _Way], others: Mapping[str, _Way]) -> list[str]:
    """Return where effects lead by ways of their own, and nothing leads by the other ways."""
    own = [each for name, each in ways.items() if name not in others and each.of_effect]
    led = {target for each in others.values() for target in each.targets}
    return sorted({target for each in own for target in each.targets} - led)


def _either(targets: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(targets))
