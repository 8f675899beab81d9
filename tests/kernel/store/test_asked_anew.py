"""A row that stays and asks anew: another question, whose answer the old one is not."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import StaleDecisionError
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.fold import fold
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_timed import REMIND_MS, TIMED


def asked(world: World) -> None:
    world.create("r", machine="timed")
    world.fire("r", "ask")
    world.later(5_000)


def waits_since(world: World) -> int | None:
    index = world.keys.waits(world.partition())
    found = scripts.read(world.client, "ZSCORE", index, "r")
    return None if found is None else int(float(found))


def test_an_answer_to_the_old_question_is_refused(world: World) -> None:
    asked(world)
    old = world.record()
    world.fire("r", "change", {"value": "red"})
    new = world.record()
    assert (new.proposal, new.entered) == ("r:3", 3)

    with pytest.raises(StaleDecisionError):
        world.fire("r", "agree", warrant=Warrant.person(old.entered))
    with pytest.raises(StaleDecisionError):  # also where it was read before
        world.fire(old, "agree", warrant=Warrant.person(old.entered))
    world.fire("r", "agree", warrant=Warrant.person(new.entered))

    assert world.record().state == "done"


def test_the_new_question_is_shown_and_reminders_begin_anew(world: World) -> None:
    asked(world)
    before = {timer.name: timer for timer in world.record().timers}
    count = len(world.record().entries)

    world.fire("r", "change", {"value": "red"})

    after = {timer.name: timer for timer in world.record().timers}
    assert after["reminder"].due_at == world.now + REMIND_MS
    assert after["reminder"].set_at_version == 3
    assert {name: after[name] for name in ("expiry", "patience")} == {
        name: before[name] for name in ("expiry", "patience")
    }, "its time limits go on"
    assert [entry.name for entry in world.record().entries] == ["tell"] * (count + 1)
    assert waits_since(world) == world.now


def test_a_question_that_the_data_end_is_withdrawn_and_may_be_asked_again(world: World) -> None:
    asked(world)
    world.fire("r", "change", {"quiet": True})
    assert waits_since(world) is None

    world.fire("r", "change", {"value": "blue", "quiet": False})

    assert waits_since(world) == world.now


def test_a_row_that_only_stays_keeps_its_question(world: World) -> None:
    asked(world)
    before = world.record()
    world.fire("r", "muse", {"value": "red"})

    after = world.record()

    assert (after.proposal, after.timers) == (before.proposal, before.timers)
    assert len(after.entries) == len(before.entries)


def test_it_follows_from_its_log(world: World) -> None:
    asked(world)
    world.fire("r", "change", {"value": "red"})
    world.fire("r", "muse", {"value": "pink"})

    folded = fold(TIMED, world.views.history("r"))

    assert (folded.entered, folded.data) == (3, world.record().data)
