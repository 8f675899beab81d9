"""The output of agents passes through the store only while somebody asks for it."""

from __future__ import annotations

import pytest

from interlock.kernel.store import outputs as store_outputs
from interlock.kernel.store import scripts
from interlock.kernel.store.outputs import (
    ASKED_MS,
    KEPT_MS,
    PART_BYTES_MAX,
    OutputPart,
    Outputs,
    OutputSource,
)
from tests.kernel.store.kernel_at_a_fixed_time import World

FIRST, SECOND = OutputSource("anvil", "agents/owl/1/000001"), OutputSource("anvil", "supervisors/b")


def part(output: bytes) -> OutputPart:
    return OutputPart(output=output, end=len(output), errors=b"", errors_end=0, age_ms=20)


@pytest.fixture
def outputs(world: World) -> Outputs:
    return Outputs(world.client, world.keys)


def test_an_output_is_published_as_long_as_somebody_asks_for_it(
    world: World, outputs: Outputs
) -> None:
    began = world.now
    [first] = outputs.ask([FIRST])
    asked = outputs.asked("anvil")
    world.later(ASKED_MS - 1)
    outputs.publish(FIRST, part(b"one\n"))
    [second, other] = outputs.ask([FIRST, SECOND])

    assert (first.asked_ms, first.answer) == (began, None)
    assert asked == [FIRST.folder]
    assert outputs.asked("forge") == [], "another computer has other agents"
    assert second.answer
    assert (second.asked_ms, second.answer.at_ms) == (began, world.now)
    assert second.answer.part == part(b"one\n")
    assert other.answer is None
    world.later(ASKED_MS)
    assert outputs.asked("anvil") == []
    [later] = outputs.ask([FIRST])
    assert later.asked_ms == world.now, "it was not asked for all the time"


def test_an_output_is_bounded_and_is_dropped_when_nobody_publishes_it(
    world: World, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_outputs, "ASKED_MAX", 2)
    third = OutputSource("anvil", "agents/ant/1/000001")
    for source in (FIRST, SECOND, FIRST, third):
        outputs.ask([source])
        world.later(1)
    outputs.publish(FIRST, part(b"one\n"))

    assert outputs.asked("anvil") == [FIRST.folder, third.folder]
    kept_ms = scripts.read(world.client, "PTTL", world.keys.output(FIRST.host, FIRST.folder))
    assert 0 < kept_ms <= KEPT_MS
    since = world.keys.outputs_asked_since("anvil")
    assert len(scripts.read(world.client, "ZRANGE", since, 0, -1)) == 2
    with pytest.raises(AssertionError, match="it was cut before"):
        part(b"x" * (PART_BYTES_MAX + 1))


def test_a_worker_that_has_no_such_output_does_not_replace_that_of_another_one(
    world: World, outputs: Outputs
) -> None:
    outputs.publish(FIRST, None)
    [before] = outputs.ask([FIRST])
    outputs.publish(FIRST, part(b"one\n"))
    world.later(1)
    outputs.publish(FIRST, None)
    [after] = outputs.ask([FIRST])

    assert before.answer
    assert before.answer.part is None
    assert after.answer
    assert (after.answer.at_ms, after.answer.part) == (world.now - 1, part(b"one\n"))
