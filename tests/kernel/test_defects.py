"""Which tables are refused when they are imported, and the sentence that says why."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.defects import defects_of, missing_fields
from interlock.kernel.effect import RESOLUTION
from interlock.kernel.errors import (
    MachineDefectError,
    UnknownActorError,
)
from interlock.kernel.machine import Machine
from interlock.kernel.payload import CardAnswer, Shape
from interlock.kernel.rows import by
from interlock.kernel.table import Mode, Stage, Transition, Waiting, never
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Children, Prerequisites
from interlock.systems.threads.machines.thread.changes import child_payload
from tests.kernel.store.tables import LIFE, NOTIFY, POLISH, ROWS, STAGES, STALL, WORK, S, T


def broken(
    *,
    rows: tuple[Transition, ...] = ROWS,
    stages: tuple[Stage, ...] = STAGES,
    triggers: tuple[str, ...] = (),
) -> str:
    return "; ".join(defects_of(stages, rows, triggers))


def staged(state: S, **changes: Any) -> tuple[Stage, ...]:
    return tuple(replace(s, **changes) if s.state is state else s for s in STAGES)


def without(*cells: tuple[S, T]) -> tuple[Transition, ...]:
    return tuple(row for row in ROWS if (row.source, row.trigger) not in cells)


def rowed(source: S, trigger: T, **changes: Any) -> tuple[Transition, ...]:
    return tuple(
        replace(row, **changes) if (row.source, row.trigger) == (source, trigger) else row
        for row in ROWS
    )


BIRTH: Any = "birth"
HALF_A_MINUTE: Any = 30_000
CYCLE = (
    Transition(S.IDLE, T.BEGIN, S.WORKING),
    Transition(S.WORKING, T.DONE, S.IDLE),
    Transition(S.WORKING, T.FAIL, S.IDLE),
)
GUARDED = Transition(S.IDLE, T.BEGIN, S.WORKING, guard=lambda _: True, refusal="no")
DEFECTS: dict[str, str] = {
    "no row has the trigger vanish": broken(triggers=("", "begin", "vanish")),
    "working has a slot_key, and its effect no concurrency": broken(
        stages=staged(S.WORKING, slot_key=lambda _: "")
    ),
    "work has concurrency=-1: give how many may be at work, 0 for any number": broken(
        stages=staged(S.WORKING, effect=replace(WORK, concurrency=-1))
    ),
    "work has concurrency=True: give how many may be at work": broken(
        stages=staged(S.WORKING, effect=replace(WORK, concurrency=True))
    ),
    "work has a concurrency, and is kept: nobody claims it who could wait": broken(
        stages=staged(S.WORKING, effect=replace(WORK, concurrency=2, kept=True))
    ),
    "notify has a concurrency, and is not the effect of an active state": broken(
        stages=staged(S.ASKING, notifies=replace(NOTIFY, concurrency=2))
    ),
    "idle is declared 2 times": broken(stages=(*STAGES, STAGES[0])),
    "names failed, which has no stage": broken(stages=STAGES[:-1]),
    "grouping is never entered": broken(rows=without((S.IDLE, T.SPLIT))),
    "done is terminal and has a way out": broken(
        rows=(*ROWS, Transition(S.DONE, T.BEGIN, S.WORKING))
    ),
    "asking has no way out": broken(rows=tuple(r for r in ROWS if r.source is not S.ASKING)),
    "no state is terminal": broken(stages=(STAGES[0], STAGES[1]), rows=CYCLE),
    "no terminal state can be reached from idle": broken(stages=STAGES[:2], rows=CYCLE),
    "working is active, starts no effect": broken(stages=staged(S.WORKING, effect=None)),
    "carried is active, starts no effect": broken(
        rows=(*ROWS, Transition(S.CARRIED, T.AGAIN, S.CARRIED, mode=Mode.EXTERNAL))
    ),
    "carried cannot restart its effect and declares no crash": broken(
        stages=staged(S.CARRIED, crash=None)
    ),
    "working is active and declares no outcome": broken(stages=staged(S.WORKING, outcomes=())),
    "working fails by begin, which is no outcome": broken(
        stages=staged(S.WORKING, failures=(T.BEGIN,))
    ),
    "work has timeout_ms=-1: give a number of milliseconds": broken(
        stages=staged(S.WORKING, effect=replace(WORK, timeout_ms=-1))
    ),
    "work has timeout_ms=True: give": broken(
        stages=staged(S.WORKING, effect=replace(WORK, timeout_ms=True))
    ),
    "work is kept, so no worker watches its timeout_ms": broken(
        stages=staged(S.WORKING, effect=replace(WORK, timeout_ms=1, kept=True))
    ),
    "polishing has no timer": broken(stages=staged(S.POLISHING, timers=())),
    "polishing has 2 timers named stall": broken(stages=staged(S.POLISHING, timers=(STALL, STALL))),
    "polishing names a timer quarantine": broken(
        stages=staged(S.POLISHING, timers=(replace(STALL, name="quarantine"),))
    ),
    "working has no row for fail that orphans may fire (its exhaustion)": broken(
        rows=rowed(S.WORKING, T.FAIL, by=("labour",))
    ),
    "carried has no row for fail that orphans may fire (its crash)": broken(
        rows=rowed(S.CARRIED, T.FAIL, by=("labour",))
    ),
    "no unguarded last row for poke (a cap that is used up)": broken(
        stages=staged(S.POLISHING, over=T.POKE), rows=without((S.POLISHING, T.POKE))
    ),
    "polishing has no row for done that polish may fire (a cap that is used up)": broken(
        stages=staged(S.POLISHING, over=T.DONE), rows=rowed(S.POLISHING, T.DONE, by=("person",))
    ),
    "idle has no row for begin that stalls may fire (timer kickoff)": broken(
        rows=(GUARDED, *rowed(S.IDLE, T.BEGIN, by=("person",)))
    ),
    "asking has no row for approve that person may fire (a card's answer)": broken(
        rows=rowed(S.ASKING, T.APPROVE, by=("producer",))
    ),
    "no unguarded last row for done (an outcome)": broken(
        rows=rowed(S.POLISHING, T.DONE, guard=lambda _: True, refusal="no")
    ),
    "no unguarded last row for fail (its crash)": broken(rows=without((S.CARRIED, T.FAIL))),
    "no unguarded last row for fail (its exhaustion)": broken(rows=without((S.WORKING, T.FAIL))),
    "no unguarded last row for begin (timer kickoff)": broken(rows=without((S.IDLE, T.BEGIN))),
    "no unguarded last row for approve (a card's answer)": broken(
        rows=without((S.ASKING, T.APPROVE))
    ),
    "no unguarded last row for nothing (a card's answer)": broken(
        stages=staged(S.ASKING, affordances=(("say", "nothing"),))
    ),
    "asking asks a person and has no affordances": broken(
        stages=staged(S.ASKING, affordances=(), asks=never)
    ),
    "asking notifies a person and has no affordances": broken(
        stages=staged(S.ASKING, affordances=(), notifies=RESOLUTION)
    ),
    "asking describes the answer vanish, which no row has": broken(
        stages=staged(S.ASKING, offered_if={"vanish": never})
    ),
    "polishing/done has a row behind an unguarded one": broken(
        rows=(*ROWS, Transition(S.POLISHING, T.DONE, S.FAILED))
    ),
    "working/rely may refuse and does not say why": broken(
        rows=rowed(S.WORKING, T.RELY, refusal="")
    ),
    "working/again leads to working and cannot be leave": broken(
        rows=rowed(S.WORKING, T.AGAIN, mode=Mode.LEAVE)
    ),
    "asking/approve leads to done and cannot be external": broken(
        rows=rowed(S.ASKING, T.APPROVE, mode=Mode.EXTERNAL)
    ),
    "asking/polish carries an effect from or into a state without one": broken(
        rows=rowed(S.ASKING, T.POLISH, mode=Mode.CARRY)
    ),
    "idle/split enters grouping and spawns no children to count": broken(
        rows=rowed(S.IDLE, T.SPLIT, spawns="", effect=None)
    ),
    "working/fail is fired by a timer while an effect is at work, and asks nobody": broken(
        rows=rowed(S.WORKING, T.FAIL, abandons=False)
    ),
    "working/again is fired by a timer and begins an effect again that is done once": broken(
        stages=staged(S.WORKING, timers=(STALL, replace(STALL, name="late", trigger=T.AGAIN))),
    ),
    "asking/poke asks anew and does not stay where a person is asked": broken(
        rows=(*ROWS, Transition(S.ASKING, T.POKE, S.ASKING, mode=Mode.EXTERNAL, asks_anew=True))
    ),
    "working/poke asks anew and does not stay where a person is asked": broken(
        rows=rowed(S.WORKING, T.POKE, asks_anew=True)
    ),
    "polishing has a timer stall since 'birth'": broken(
        stages=staged(S.POLISHING, timers=(Timer("stall", lambda _: 1, T.FAIL, since=BIRTH),))
    ),
    "polishing has a reminder stall, which counts from the entry alone": broken(
        stages=staged(S.POLISHING, timers=(replace(STALL, since="created", trigger=None),))
    ),
    "working/again stays, and its timer late would be due again at once in working": broken(
        stages=staged(
            S.WORKING,
            timers=(STALL, replace(STALL, name="late", since="epoch", trigger=T.AGAIN)),
        ),
    ),
    "idle/split spawns children and names no effect that does it": broken(
        rows=rowed(S.IDLE, T.SPLIT, effect=None)
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defective_table_is_found_out(defect: str) -> None:
    assert defect in DEFECTS[defect]


def test_a_timer_may_leave_an_effect_at_work_for_a_question() -> None:
    asks = rowed(S.POLISHING, T.FAIL, target=S.ASKING, abandons=False)

    assert broken(rows=asks) == ""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"stages": staged(S.WORKING, timers=(replace(STALL, delay=HALF_A_MINUTE),))},
            "working: timer stall has delay=30000: write a function, as `lambda data: 30000`",
        ),
        ({"stages": staged(S.ASKING, question="Pay?")}, "asking has question='Pay?': write a func"),
        ({"transitions": rowed(S.WORKING, T.FAIL, update={})}, "working/fail has update={}: write"),
        ({"title": "Refund"}, "the machine has title='Refund': write a function"),
    ],
)
def test_what_shall_be_a_function_of_the_data_and_is_none_is_a_defect(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(MachineDefectError, match=re.escape(said)):
        replace(LIFE, **wrong)


def test_a_table_without_a_defect_has_none() -> None:
    assert broken() == ""


def test_a_state_that_no_row_enters_may_be_declared_external() -> None:
    stage = Waiting(S.GROUPING, (Timer("t", lambda _: 1),), external="an importer")
    stages = tuple(stage if s.state is S.GROUPING else s for s in STAGES)

    assert "never entered" not in broken(stages=stages, rows=without((S.IDLE, T.SPLIT)))


def test_a_state_whose_effect_has_a_limit_needs_no_timer() -> None:
    limited = staged(S.POLISHING, timers=(), effect=replace(POLISH, timeout_ms=1_000))

    assert "polishing has no timer" not in broken(stages=limited)


def test_a_waiting_state_without_choices_asks_no_person() -> None:
    asking = next(s for s in STAGES if s.state is S.ASKING)
    assert isinstance(asking, Waiting)

    assert asking.waits_for_person({})
    assert not replace(asking, affordances=()).waits_for_person({})


def test_a_defective_machine_cannot_be_made() -> None:
    with pytest.raises(MachineDefectError, match="has no timer"):
        Machine("bad", staged(S.POLISHING, timers=()), ROWS)


class Lax(Shape):
    stars: int


class Nested(CardAnswer):
    marks: dict[str, list[Lax] | None]


class Numbered(CardAnswer):
    by: int


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"payloads": {**LIFE.payloads, "approve": Lax}}, "has a Lax, which is no CardAnswer"),
        ({"stages": staged(S.ASKING, answers={"approve": Lax})}, "has a Lax, which is no CardA"),
        ({"payloads": {**LIFE.payloads, "approve": Nested}}, "has a Lax, which is no CardAnswer"),
        ({"payloads": {**LIFE.payloads, "approve": Numbered}}, "has a field by that takes no name"),
    ],
)
def test_the_answer_of_a_card_is_refused_if_its_schema_could_lie(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(MachineDefectError, match=f"asking: the answer approve {problem}"):
        replace(LIFE, **fields)


NAMES_TRIGGERS: dict[str, Any] = {
    "first": {"first_trigger": "vanish"},
    "cancel": {"cancel_triggers": (T.CANCEL, "vanish")},
    "ignored": {"ignores": {"vanish": "it is gone"}},
    "payload": {"payloads": {"vanish": Shape}},
    "advance": {"prerequisites": Prerequisites("needs", "vanish", T.FAIL)},
    "lost": {"prerequisites": Prerequisites("needs", T.CHILDREN_DONE, "vanish")},
    "end": {"children": (Children("children", child_payload, "vanish"),)},
    "loss": {"children": (Children("children", child_payload, T.CHILDREN_DONE, "vanish"),)},
    "close": {"close_trigger": "vanish"},
}


@pytest.mark.parametrize("name", NAMES_TRIGGERS)
def test_a_machine_cannot_name_a_trigger_that_no_row_has(name: str) -> None:
    with pytest.raises(MachineDefectError, match="no row has the trigger vanish"):
        replace(LIFE, **NAMES_TRIGGERS[name])


def test_a_record_cannot_begin_in_a_state_that_is_carried_into() -> None:
    carried = next(stage for stage in STAGES if stage.state is S.CARRIED)
    stages = (carried, *(stage for stage in STAGES if stage is not carried))

    assert "carried is active, starts no effect" in broken(stages=stages)


def test_a_row_cannot_be_fired_by_somebody_who_does_not_exist() -> None:
    assert by(RESOLUTION, "person") == ("resolution", "person")
    with pytest.raises(UnknownActorError, match=r"by\('persn'\) names nobody"):
        by(RESOLUTION, "persn")


class Booked(Shape):
    account: str
    reason: str = ""


@pytest.mark.parametrize(
    ("stages", "cancels", "problem"),
    [
        ((), (T.AGAIN,), "a cancel fires again without account"),
        (
            staged(S.WORKING, crash=T.AGAIN),
            (),
            "working (its loss) fires again without account",
        ),
        (
            staged(S.WORKING, exhausted=T.AGAIN),
            (),
            "working (its exhaustion) fires again without account",
        ),
        (
            staged(S.WORKING, over=T.AGAIN),
            (),
            "working (a cap that is used up) fires again without account",
        ),
        (
            staged(S.WORKING, timers=(Timer("late", lambda _: 1, T.AGAIN),)),
            (),
            "working (timer late) fires again without account",
        ),
    ],
)
def test_what_interlock_fires_has_the_fields_that_the_payload_needs(
    stages: tuple[Stage, ...], cancels: tuple[str, ...], problem: str
) -> None:
    found = "; ".join(missing_fields(stages, cancels, {T.AGAIN: Booked}))

    assert problem in found
    assert "reason" not in found


def test_a_machine_that_cannot_be_cancelled_as_it_says_is_refused() -> None:
    with pytest.raises(MachineDefectError, match="a cancel fires again without account"):
        replace(LIFE, cancel_triggers=(T.AGAIN,), payloads={**LIFE.payloads, T.AGAIN: Booked})


@pytest.mark.parametrize(
    ("trigger", "says", "problem"),
    [
        ("vanish", "it is gone", "no row has the trigger vanish"),
        (T.DONE, "it got {value}", "done says value, which its payload may not have"),
        (T.BEGIN, "{who} began", "begin says who, which its payload may not have"),
        (T.DONE, "it got {tally[a]}", "what done says cannot be filled in: only the name"),
        (T.DONE, "it got {tally!r}", "what done says cannot be filled in: only the name"),
        (T.DONE, "it got {tally:>9}", "what done says cannot be filled in: only the name"),
        (T.DONE, "it got {}", "what done says cannot be filled in: only the name"),
        (T.DONE, "it got {tally", "what done says cannot be filled in"),
    ],
)
def test_a_sentence_that_cannot_be_said_is_refused(trigger: str, says: str, problem: str) -> None:
    assert replace(LIFE, says={T.DONE: "it got {tally}"}).says
    with pytest.raises(MachineDefectError, match=re.escape(problem)):
        replace(LIFE, says={trigger: says})
    if trigger in LIFE.triggers:
        rows = tuple(replace(row, says=says if row.trigger == trigger else "") for row in ROWS)
        with pytest.raises(MachineDefectError, match=re.escape(problem)):
            replace(LIFE, transitions=rows)
