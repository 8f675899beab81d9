"""Compares a table with an older one: what each difference means for records of the older. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from interlock.kernel.field_changes import data_changes, payload_changes
from interlock.kernel.machine import Machine
from interlock.kernel.outline import outline_of
from interlock.kernel.table import PERSON, PRODUCER
from interlock.kernel.table_change import Outline, Outlook, TableChange, named, pairs
from interlock.kernel.way_changes import as_it_was, is_asking, way_changes

SECOND_MS = 1_000
SENT_AGAIN = "messages under way are taken from the old one, or sent again"
NEXT_ATTEMPT = "the next attempt has it"
# What another option of an effect means for the effects that are owed.
OF_OPTIONS = {
    "attempts_max": "those that are owed keep theirs",
    "exclusive": "those that are owed keep theirs",
    "kept": "those that are owed keep theirs",
    "queue": SENT_AGAIN,
    "pool": SENT_AGAIN,
}


def compare(old: Outline, machine: Machine) -> tuple[TableChange, ...]:
    """Return what differs between an outline and a machine that is to follow it, worst first."""
    new = outline_of(machine)
    found = [
        *_states(old, new, machine),
        *data_changes(old, new, machine),
        *way_changes(old, new, machine),
        *_timers(old, new, machine),
        *_choices(old, new, machine),
        *_effects(old, new, machine),
        *_options(old, new, machine),
        *_calls(old, new, machine),
        *payload_changes(old, new),
        *_children(old, new),
    ]
    order = list(Outlook)
    return tuple(sorted(found, key=lambda change: order.index(change.verdict)))


def open_states(outline: Outline) -> tuple[str, ...]:
    """Return the states in which a record has not ended."""
    return tuple(one["name"] for one in outline["states"] if one["kind"] != "terminal")


def _states(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    before, after = named(old), named(new)
    for name, state in before.items():
        if name in after:
            continue
        now = machine.renamed.get(name)
        if now is None:
            cure = _cure_of_gone(name, before, after, machine)
            yield TableChange(Outlook.STRANDED, f"{name} is gone", cure, (name,))
        elif state["kind"] != after[now]["kind"]:
            kinds = f"{name} is {state['kind']}, and {now} is {after[now]['kind']}"
            yield TableChange(
                Outlook.STRANDED, kinds, "rename to a state of the same kind", (name,)
            )
        else:
            stays = "as it is"
            if state["kind"] == "waiting":
                stays = (
                    "with its question and its timers" if is_asking(state) else "with its timers"
                )
            yield TableChange(
                Outlook.MOVED, f"{name} is called {now} now", f"each goes on {stays}", (name,)
            )
    known = {*before, *machine.renamed.values()}
    if added := [name for name in after if name not in known]:
        yield TableChange(Outlook.GOING_ON, f"new: {', '.join(added)}", "", ())
    for name in machine.retired:
        if name in before:
            means = "what is there goes on, and nothing enters it any more"
            yield TableChange(Outlook.ENDING, f"{name} is retired", means, (name,))


def _cure_of_gone(
    name: str, before: Mapping[str, Outline], after: Mapping[str, Outline], machine: Machine
) -> str:
    """Return what to do for the records in a state that is gone.

    A workflow names the question whether a step was done by that step, and renames and retires
    both at once.
    """
    step = name.removesuffix("_unclear")
    if step == name or not before.get(step, {}).get("crash"):
        return f"say renamed={{{name!r}: ...}}, or keep it and say retired=({name!r},)"
    now = machine.renamed.get(step, step)
    if now not in after:
        cure = f"say renamed={{{step!r}: ...}}, or keep {step} and say retired=({step!r},)"
        return f"{cure}: the question follows it"
    if after[now]["kind"] != "active":
        return as_it_was(step)
    return f"keep {'once=' if before[step]['once'] else 'work.once'} of {now}, or {as_it_was(step)}"


def _timers(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    for state, now in pairs(old, new, machine):
        before = {timer["name"]: timer for timer in state["timers"]}
        after = {timer["name"]: timer for timer in now["timers"]}
        for name in {**before, **after}:
            what, place = f"the timer {name} of {now['name']}", (state["name"],)
            for said, means in _of_timer(before.get(name), after.get(name)):
                yield TableChange(Outlook.GOING_ON, f"{what} {said}", means, place)


def _of_timer(before: Outline | None, after: Outline | None) -> Iterator[tuple[str, str]]:
    """Yield what differs in a timer, and what that means for those that are set."""
    if after is None:
        yield "is gone", "those that are set move nothing: they remind"
    elif before is None:
        yield "is new", "it is not set for those that are there already"
    else:
        if (before["delay_ms"], before["since"]) != (after["delay_ms"], after["since"]):
            yield f"is due {_within(before, after)}", "those that are set keep their time"
        if bool(before["trigger"]) is not bool(after["trigger"]):
            now = "moves records on now" if after["trigger"] else "only reminds now"
            yield now, "so do those that are set, at their time"


def _within(before: Outline, after: Outline) -> str:
    old, new = (timer["delay_ms"] for timer in (before, after))
    if old is None or new is None or old == new:
        return "at another time"
    return f"after {new // SECOND_MS:,} s instead of {old // SECOND_MS:,} s"


def _choices(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    for state, now in pairs(old, new, machine):
        before, after = state.get("affordances") or {}, now.get("affordances") or {}
        for name in [name for name in before if name not in after]:
            means = "open cards do not offer it any more; who answers it is refused"
            what = f"the choice {name} of {now['name']} is gone"
            yield TableChange(Outlook.GOING_ON, what, means, (state["name"],))
        if not (before and after):
            continue
        for name in [name for name in after if name not in before]:
            means = "open cards offer it at once, under the same question"
            what = f"{now['name']} has a new choice {name}"
            yield TableChange(Outlook.GOING_ON, what, means, (state["name"],))


def _effects(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    """Yield the effects that are owed and that no process does any more, or not in that state."""
    known, before, after = new["effects"], _at_work(old), _at_work(new)
    for state, now in pairs(old, new, machine):
        name = state["name"]
        if state["kind"] != "active" or (name in machine.renamed and now["entry_effect"]):
            continue  # the effects of a renamed state are renamed with it
        here = after.get(now["name"], set())
        for effect in sorted(before[name] - here):
            fires = (row for row in new["rows"] if row["source"] == now["name"])
            if effect in known and any(effect in row["by"] for row in fires):
                continue
            what = f"{name} has the effect {' or '.join(sorted(here))} instead of {effect}"
            cure = f"give the state another name as well, by renamed={{{name!r}: ...}}"
            yield TableChange(Outlook.STRANDED, what, cure, (name,))
    beside = {row["effect"]: row["target"] for row in old["rows"] if row["effect"]}
    beside |= {each["cleanup"]: each["name"] for each in old["states"] if each.get("cleanup")}
    for effect in beside.keys() - known.keys() - {*chain(*before.values())}:
        place, means = beside[effect], "those that owe it still do, and nobody does it"
        if place not in machine.renamed:
            what = f"the effect {effect} is gone"
            yield TableChange(Outlook.GOING_ON, what, means, (place,))


def _at_work(outline: Outline) -> dict[str, set[str]]:
    """Return the effects that may be at work in each active state, also those carried there."""
    active = [each for each in outline["states"] if each["kind"] == "active"]
    found = {
        each["name"]: {*filter(None, (each["entry_effect"], each["later_effect"]))}
        for each in active
    }
    carries = [
        (row["source"], row["target"])
        for row in outline["rows"]
        if row["mode"] == "carry" and {row["source"], row["target"]} <= found.keys()
    ]
    for _ in active:  # an effect may be carried through each of them
        for source, target in carries:
            found[target] |= found[source]
    return found


def _options(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    for state, now in pairs(old, new, machine):
        if state["kind"] != "active":
            continue
        is_renamed = state["name"] in machine.renamed
        effect, place = now["entry_effect"], (state["name"],)
        before = old["effects"].get(state["entry_effect"], {})
        after = new["effects"].get(effect, {})
        for name in [name for name in before if name in after and before[name] != after[name]]:
            means = OF_OPTIONS.get(name, NEXT_ATTEMPT)
            if name == "concurrency" and not before[name] and not is_renamed:
                means = "those that are owed are not counted"
            what = f"{effect} has {name} {after[name]!r}, not {before[name]!r}"
            yield TableChange(Outlook.GOING_ON, what, means, place)
        if not is_renamed:  # else what is owed is as the newer table has it
            yield from _failures(state, now)


def _failures(state: Outline, now: Outline) -> Iterator[TableChange]:
    """Yield what differs for an effect that is lost, or whose attempts are used up.

    What follows then is settled when the effect is owed.
    """
    name, effect = state["name"], now["entry_effect"]
    cure = f"keep that, or {as_it_was(name)}"
    used_up = f"where the attempts at {effect} are used up"
    if state["once"] and state["crash"] and not now["crash"]:
        what = f"nothing follows any more where {effect} fails, which was done once"
        yield TableChange(Outlook.STRANDED, what, cure, (name,))
    elif state["once"] and not now["once"]:
        what = f"{effect} may be done more than once now"
        means = "those that are owed are still done once"
        yield TableChange(Outlook.GOING_ON, what, means, (name,))
    elif now["once"] and not state["once"]:
        means = "one that was begun before may still be begun again"
        yield TableChange(Outlook.GOING_ON, f"{effect} is done once now", means, (name,))
    if state["exhausted"] and not now["exhausted"]:
        what = f"nothing follows any more {used_up}"
        yield TableChange(Outlook.STRANDED, what, cure, (name,))
    elif now["exhausted"] and not state["exhausted"]:
        what, means = f"{now['exhausted']} follows {used_up}", "those that are owed ask a person"
        yield TableChange(Outlook.GOING_ON, what, means, (name,))


def _calls(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    rows = {(row["source"], row["trigger"]) for row in new["rows"]}
    known = {trigger for _, trigger in rows}
    for state, now in pairs(old, new, machine):
        chosen = {*(state.get("affordances") or {}).values()}
        for row in old["rows"]:
            trigger, by = row["trigger"], {PERSON, PRODUCER} & set(row["by"])
            here = (now["name"], trigger)
            is_call = row["source"] == state["name"] and by and trigger not in chosen
            if is_call and here not in rows and trigger not in old["cancel"]:
                where = f"in {now['name']}" if trigger in known else "any more"
                means = "who calls it is refused"
                yield TableChange(
                    Outlook.GOING_ON, f"{trigger} is not taken {where}", means, (state["name"],)
                )


def _children(old: Outline, new: Outline) -> Iterator[TableChange]:
    before = {kind["countdown"]: kind for kind in old["children"]}
    for kind in new["children"]:
        was = before.get(kind["countdown"])
        if was and was["machine"] != kind["machine"]:
            what = f"children of {kind['countdown']} are records of {kind['machine']}"
            means = f"those that are there stay records of {was['machine']}: keep that workflow"
            yield TableChange(Outlook.GOING_ON, what, means, (kind["countdown"],))
    if new["budget"] != old["budget"]:
        what = "there is a budget now" if new["budget"] else "there is no budget any more"
        yield TableChange(Outlook.GOING_ON, what, "records keep what they were created with", None)
