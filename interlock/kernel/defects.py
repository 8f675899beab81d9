"""Finds the defects of a table, which could strand a record, before any record uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema

from interlock.kernel.effect import Effect, Sweeper
from interlock.kernel.payload import CardAnswer
from interlock.kernel.reason import fields_named
from interlock.kernel.table import (
    ACTORS,
    ORPHANS,
    PERSON,
    STALLS,
    Active,
    Mode,
    Stage,
    Terminal,
    Transition,
    Waiting,
    always,
)
from interlock.kernel.timer import Since
from interlock.kernel.trigger import CREATED

Rows = Sequence[Transition]
# It marks a field that no schema has. To a type checker it is an alias.
HIDDEN = cast("type", SkipJsonSchema)
USED_UP = "a cap that is used up"


def defects_of(
    stages: Sequence[Stage],
    rows: Rows,
    triggers: Sequence[str] = (),
    retired: Collection[str] = (),
) -> Iterator[str]:
    """Name every way in which this table could strand a record.

    `triggers` are those that a machine names beside its rows; '' is none. Nothing need enter what
    is `retired`.
    """
    known = {"", *(str(row.trigger) for row in rows)}
    yield from (f"no row has the trigger {name}" for name in triggers if name not in known)
    yield from _names(stages, rows)
    yield from _reach(stages, rows, retired)
    for stage in stages:
        yield from _promises(stage, rows, initial=stage is stages[0])
    yield from _slots(stages, rows)
    yield from _carries(stages, rows)
    yield from _asked_anew(stages, rows)
    yield from _abandoned(stages, rows)
    yield from _following(rows)
    yield from _cells(rows)


def no_functions(machine: Any) -> Iterator[str]:
    """Name each part of a machine that shall be a function of the data, and is none."""
    stages, rows = machine.stages, machine.transitions
    parts: list[tuple[str, Any]] = [("the machine", machine)]
    parts += [(f"{stage.state}", stage) for stage in stages]
    parts += [(f"{one.state}: timer {timer.name}", timer) for one in stages for timer in one.timers]
    parts += [(f"{row.source}/{row.trigger}", row) for row in rows]
    for name, part in parts:
        for field in fields(part):
            value = getattr(part, field.name)
            # Annotations are texts here: `Callable[[Any], int] | None`, but no mapping of them.
            is_one = value is None or callable(value)
            if str(field.type).startswith("Callable[") and not is_one:
                cure = f"write a function, as `lambda data: {value!r}`"
                yield f"{name} has {field.name}={value!r}: {cure}"


def missing_fields(
    stages: Sequence[Stage],
    cancel_triggers: Sequence[str],
    payloads: Mapping[str, type[BaseModel]],
) -> Iterator[str]:
    """Name each trigger that Interlock itself fires without a field that its payload must have."""
    fired: list[tuple[str, str, Iterable[str]]] = [
        ("a cancel", trigger, ("reason", "by")) for trigger in cancel_triggers
    ]
    for stage in stages:
        if isinstance(stage, Active):
            ends = (
                ("its loss", stage.crash),
                ("its exhaustion", stage.exhausted),
                (USED_UP, stage.over),
            )
            fired += [
                (f"{stage.state} ({who})", trigger, ("code", "detail"))
                for who, trigger in ends
                if trigger
            ]
        timers = [(timer, timer.trigger) for timer in stage.timers]
        fired += [
            (f"{stage.state} (timer {timer.name})", trigger, timer.payload)
            for timer, trigger in timers
            if trigger
        ]
    for who, trigger, given in fired:
        model = payloads.get(trigger)
        fields = model.model_fields if model else {}
        needed = {name for name, field in fields.items() if field.is_required()}
        if missing := sorted(needed - set(given)):
            yield f"{who} fires {trigger} without {', '.join(missing)}, which its payload needs"


def lax_answers(stages: Sequence[Stage], payloads: Mapping[str, type[BaseModel]]) -> Iterator[str]:
    """Name each model in a card's answers that is no CardAnswer, so that its schema may differ."""
    for stage in stages:
        if isinstance(stage, Waiting):
            for name, trigger in stage.affordances:
                for model in (payloads.get(trigger), stage.answers.get(trigger)):
                    by = model.model_fields.get("by") if model else None
                    if by and str not in (by.annotation, *get_args(by.annotation)):
                        yield f"{stage.state}: the answer {name} has a field by that takes no name"
                    for lax in _models(model, set()):
                        answer = f"the answer {name} has a {lax.__name__}, which is no CardAnswer"
                        yield f"{stage.state}: {answer}"


def _models(kind: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    """Yield the models in a type and in the fields of its schema that are no CardAnswer."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind not in seen:
            seen.add(kind)
            if not issubclass(kind, CardAnswer):
                yield kind
            for field in kind.model_fields.values():
                if not any(isinstance(mark, HIDDEN) for mark in field.metadata):
                    yield from _models(field.annotation, seen)
    else:
        for part in get_args(kind):
            yield from _models(part, seen)


def wrong_sentences(
    says: Mapping[str, str], rows: Rows, payloads: Mapping[str, type[BaseModel]]
) -> Iterator[str]:
    """Name each sentence that no row says, or that names what the payload may not have."""
    triggers = {str(row.trigger) for row in rows} | {CREATED}
    yield from (f"no row has the trigger {name}" for name in says if name not in triggers)
    sentences = [*says.items(), *((str(row.trigger), row.says) for row in rows)]
    for trigger, text in dict.fromkeys(sentences):
        try:
            named = fields_named(text)
        except ValueError as problem:
            yield f"what {trigger} says cannot be filled in: {problem}: {text!r}"
            continue
        model = payloads.get(trigger)
        fields = model.model_fields if model else {}
        given = {n for n, field in fields.items() if field.default is not None}
        if trigger != CREATED and (missing := sorted(set(named) - given)):
            yield f"{trigger} says {', '.join(missing)}, which its payload may not have"


def unclear_effects(effects: Iterable[Effect]) -> Iterator[str]:
    """Name each effect whose name means something else as well, in this table."""
    kinds = Counter(effect.name for effect in set(effects))
    yield from (f"{n} different effects are called {name}" for name, n in kinds.items() if n > 1)
    actors = sorted(set(ACTORS) & kinds.keys())
    yield from (f"an effect is called {name}, as one who fires rows is" for name in actors)


def _names(stages: Sequence[Stage], rows: Rows) -> Iterator[str]:
    known = Counter(str(stage.state) for stage in stages)
    yield from (f"{state} is declared {n} times" for state, n in known.items() if n > 1)
    for row in rows:
        for state in (row.source, row.target):
            if state not in known:
                yield f"{row.source}/{row.trigger} names {state}, which has no stage"


def _reach(stages: Sequence[Stage], rows: Rows, retired: Collection[str]) -> Iterator[str]:
    entered = {str(row.target) for row in rows if row.source != row.target}
    left = {str(row.source) for row in rows if row.source != row.target}
    ends = {str(stage.state) for stage in stages if isinstance(stage, Terminal)}
    for stage in stages:
        is_entered = stage is stages[0] or stage.state in entered or stage.state in retired
        if not is_entered and not stage.external:
            yield f"{stage.state} is never entered"
        if stage.state in ends and stage.state in left:
            yield f"{stage.state} is terminal and has a way out"
        if stage.state not in ends and stage.state not in left:
            yield f"{stage.state} has no way out"
    if not ends:
        yield "no state is terminal"
    ending = set(ends)
    while grown := {str(row.source) for row in rows if row.target in ending} - ending:
        ending |= grown
    yield from (
        f"no terminal state can be reached from {stage.state}"
        for stage in stages
        if stage.state not in ending
    )


def _promises(stage: Stage, rows: Rows, *, initial: bool) -> Iterator[str]:
    owed: list[tuple[str, str]] = []
    if isinstance(stage, Active):
        carried = [row for row in rows if row.target == stage.state and row.mode is Mode.CARRY]
        inbound = [
            row for row in rows if row.target == stage.state and row.mode is not Mode.INTERNAL
        ]
        if stage.effect is None and (initial or not inbound or len(carried) != len(inbound)):
            yield f"{stage.state} is active, starts no effect and is not always carried into"
        if (carried or stage.once) and stage.crash is None:
            yield f"{stage.state} cannot restart its effect and declares no crash"
        owed += [("an outcome", trigger) for trigger in stage.outcomes]
        owed += [("its crash", stage.crash)] if stage.crash else []
        owed += [("its exhaustion", stage.exhausted)] if stage.exhausted else []
        owed += [(USED_UP, stage.over)] if stage.over else []
        missing = [trigger for trigger in stage.failures if trigger not in stage.outcomes]
        yield from (f"{stage.state} fails by {trigger}, which is no outcome" for trigger in missing)
        if not stage.outcomes:
            yield f"{stage.state} is active and declares no outcome"
    yield from _unwatched(stage)
    names = Counter(timer.name for timer in stage.timers)
    yield from (f"{stage.state} has {n} timers named {name}" for name, n in names.items() if n > 1)
    yield from _fixed_timers(stage, rows)
    if names["quarantine"]:
        yield f"{stage.state} names a timer quarantine, a name that the store uses itself"
    if isinstance(stage, Waiting):
        if not stage.affordances and stage.asks is not always:
            yield f"{stage.state} asks a person and has no affordances to choose from"
        if not stage.affordances and stage.notifies:
            yield f"{stage.state} notifies a person and has no affordances to choose from"
        owed += [("a card's answer", name) for _, name in stage.affordances]
        known = {str(row.trigger) for row in rows}
        described = {*stage.answers, *stage.offered_if, *stage.values} - known
        yield from (
            f"{stage.state} describes the answer {name}, which no row has" for name in described
        )
    owed += [(f"timer {t.name}", t.trigger) for t in stage.timers if t.trigger]
    yield from _unanswered(stage, rows, owed)


def _unwatched(stage: Stage) -> Iterator[str]:
    """Name what a record could wait for unseen. An effect whose attempts are limited ends."""
    effect = stage.effect if isinstance(stage, Active) else None
    limited = effect and effect.timeout_ms
    if not (isinstance(stage, Terminal) or stage.timers or limited):
        yield f"{stage.state} has no timer, and no effect with a timeout_ms"
    if effect and (type(effect.timeout_ms) is not int or effect.timeout_ms < 0):
        yield f"{effect} has timeout_ms={effect.timeout_ms!r}: give a number of milliseconds"
    if effect and effect.kept and limited:
        yield f"{effect} is kept, so no worker watches its timeout_ms"


def _fixed_timers(stage: Stage, rows: Rows) -> Iterator[str]:
    """Name each timer that is due at a fixed time, and would be due again as soon as it fired."""
    for timer in stage.timers:
        if timer.since not in get_args(Since):
            yield f"{stage.state} has a timer {timer.name} since {timer.since!r}"
        if timer.since == "entry":
            continue
        if timer.trigger is None:
            yield f"{stage.state} has a reminder {timer.name}, which counts from the entry alone"
        for row in rows:
            if row.source == row.target == stage.state and row.trigger == timer.trigger:
                begins = f"{timer.name} would be due again at once in {stage.state}"
                yield f"{stage.state}/{row.trigger} stays, and its timer {begins}"


def _unanswered(stage: Stage, rows: Rows, owed: Sequence[tuple[str, str]]) -> Iterator[str]:
    for reason, trigger in owed:
        cell = [row for row in rows if row.source == stage.state and row.trigger == trigger]
        answered = cell and (cell[-1].guard is None or reason == "a card's answer")
        if not answered:
            yield f"{stage.state} has no unguarded last row for {trigger} ({reason})"
            continue
        actor = _fires(stage, reason)
        # A card need not offer a choice; what Interlock itself fires has to find a row every time.
        rest = cell if actor == PERSON else cell[-1:]
        if actor and all(row.by and actor not in row.by for row in rest):
            yield f"{stage.state} has no row for {trigger} that {actor} may fire ({reason})"


def _fires(stage: Stage, reason: str) -> str:
    """Return the actor that fires a trigger for this reason, or '' if an outcome does."""
    if reason.startswith("timer "):
        return STALLS
    if reason == USED_UP and isinstance(stage, Active):
        return str(stage.effect or "")
    return {"its crash": ORPHANS, "its exhaustion": ORPHANS, "a card's answer": PERSON}.get(
        reason, ""
    )


def _slots(stages: Sequence[Stage], rows: Rows) -> Iterator[str]:
    """Name each effect whose `concurrency` cannot be kept, and each key without one."""
    at_work: list[Effect] = []
    for stage in (stage for stage in stages if isinstance(stage, Active)):
        own = [effect for effect in (stage.effect, stage.later) if effect]
        if stage.slot_key and not any(effect.concurrency for effect in own):
            yield f"{stage.state} has a slot_key, and its effect no concurrency"
        at_work += own
    owed = [effect for stage in stages for effect in stage.owes() if effect]
    for effect in dict.fromkeys([*owed, *(row.effect for row in rows if row.effect)]):
        n = effect.concurrency
        if type(n) is not int or n < 0:
            yield f"{effect} has concurrency={n!r}: give how many may be at work, 0 for any number"
        elif n and effect not in at_work:
            yield f"{effect} has a concurrency, and is not the effect of an active state"
        elif n and effect.kept:
            yield f"{effect} has a concurrency, and is kept: nobody claims it who could wait"


def _carries(stages: Sequence[Stage], rows: Rows) -> Iterator[str]:
    active = {str(stage.state) for stage in stages if isinstance(stage, Active)}
    counting = {str(stage.state): stage.countdown for stage in stages if isinstance(stage, Waiting)}
    for row in rows:
        carries = row.mode is Mode.CARRY
        if carries and (row.source not in active or row.target not in active):
            yield f"{row.source}/{row.trigger} carries an effect from or into a state without one"
        counts = counting.get(str(row.target), "")
        if counts and row.mode is not Mode.INTERNAL and row.spawns != counts:
            yield f"{row.source}/{row.trigger} enters {row.target} and spawns no {counts} to count"
        if row.spawns and not row.effect:
            yield f"{row.source}/{row.trigger} spawns {row.spawns} and names no effect that does it"


def _asked_anew(stages: Sequence[Stage], rows: Rows) -> Iterator[str]:
    asking = {
        str(stage.state) for stage in stages if isinstance(stage, Waiting) and stage.affordances
    }
    for row in rows:
        if row.asks_anew and (row.mode is not Mode.INTERNAL or row.source not in asking):
            yield f"{row.source}/{row.trigger} asks anew and does not stay where a person is asked"


def _abandoned(stages: Sequence[Stage], rows: Rows) -> Iterator[str]:
    """Name each row by which a timer leaves an effect at work that nobody looks after then."""
    asking = {
        str(stage.state) for stage in stages if isinstance(stage, Waiting) and stage.affordances
    }
    for stage in (stage for stage in stages if isinstance(stage, Active)):
        triggers = {timer.trigger for timer in stage.timers} - {None}
        for row in rows:
            fires = row.source == stage.state and row.trigger in triggers
            if not fires or row.abandons or (row.by and STALLS not in row.by):
                continue
            cell = f"{row.source}/{row.trigger}"
            if row.mode is Mode.LEAVE and row.target not in asking:
                yield f"{cell} is fired by a timer while an effect is at work, and asks nobody"
            if row.mode is Mode.EXTERNAL and stage.once:
                yield f"{cell} is fired by a timer and begins an effect again that is done once"


def _following(rows: Rows) -> Iterator[str]:
    """Name each row that cannot follow from the data of its record alone."""
    for row in (row for row in rows if row.follows):
        cell = f"{row.source}/{row.trigger} follows from the data alone"
        if row.mode in (Mode.INTERNAL, Mode.CARRY):
            yield f"{cell} and enters no state anew"
        if row.reads:
            yield f"{cell} and reads facts of other records"
        if not [one for one in row.by if one not in ACTORS and not isinstance(one, Sweeper)]:
            yield f"{cell}, and no effect may fire it where they do not decide it"


def _cells(rows: Rows) -> Iterator[str]:
    open_cells: set[tuple[str, str]] = set()
    for row in rows:
        cell = (str(row.source), str(row.trigger))
        if cell in open_cells:
            yield f"{row.source}/{row.trigger} has a row behind an unguarded one"
        if row.guard is None:
            open_cells.add(cell)
        elif not row.refusal and _last(rows, row):
            yield f"{row.source}/{row.trigger} may refuse and does not say why"
        if (row.source == row.target) is (row.mode in (Mode.LEAVE, Mode.CARRY)):
            yield f"{row.source}/{row.trigger} leads to {row.target} and cannot be {row.mode}"


def _last(rows: Rows, row: Transition) -> bool:
    cell = [each for each in rows if (each.source, each.trigger) == (row.source, row.trigger)]
    return cell[-1] is row
