"""What a computer publishes passes through the store only while somebody asks for it."""

from __future__ import annotations

import pytest

from interlock.kernel.store import publications as store_publications
from interlock.kernel.store import scripts
from interlock.kernel.store.outputs import PART_BYTES_MAX, OutputPart, OutputSource, output_part
from interlock.kernel.store.publications import (
    KEPT_MS,
    Publication,
    PublicationAnswer,
    Publications,
)
from tests.kernel.store.kernel_at_a_fixed_time import World

FIRST = OutputSource("anvil", "agents/owl/1/000001").publication
SECOND = Publication("anvil", "diff", "b/one")


def part(output: bytes) -> OutputPart:
    return OutputPart(output=output, end=len(output), errors=b"", errors_end=0, age_ms=20)


def part_of(answer: PublicationAnswer | None) -> OutputPart:
    assert answer
    assert answer.fields
    return output_part(answer.fields)


def test_something_is_published_as_long_as_somebody_asks_for_it(world: World) -> None:
    publications = Publications(world.client, world.keys)
    began = world.now
    [first] = publications.ask([FIRST])
    asked = publications.asked("anvil")
    world.later(store_publications.ASKED_MS - 1)
    publications.publish(FIRST, part(b"one\n").fields())
    [second, other] = publications.ask([FIRST, SECOND])

    assert (first.asked_ms, first.answer) == (began, None)
    assert asked == [FIRST]
    assert publications.asked("forge") == [], "another computer has other agents"
    assert second.answer
    assert (second.asked_ms, second.answer.at_ms) == (began, world.now)
    assert part_of(second.answer) == part(b"one\n")
    assert other.answer is None
    world.later(store_publications.ASKED_MS)
    assert publications.asked("anvil") == []
    [later] = publications.ask([FIRST])
    assert later.asked_ms == world.now, "it was not asked for all the time"


def test_what_is_asked_and_published_is_bounded_and_goes_away_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    publications = Publications(world.client, world.keys)
    monkeypatch.setattr(store_publications, "ASKED_MAX", 4)
    monkeypatch.setattr(store_publications, "ASKED_OF_ONE_MAX", 2)
    third = Publication("anvil", "output", "agents/ant/1/000001")
    oldest, elsewhere = (Publication("forge", "diff", name) for name in ("b/old", "b/one"))
    for each in (oldest, FIRST, SECOND, elsewhere, FIRST, third):
        publications.ask([each])
        world.later(1)
    publications.publish(FIRST, part(b"one\n").fields())

    since = world.keys.publications_asked_since()
    assert len(scripts.read(world.client, "ZRANGE", since, 0, -1)) == 4
    assert publications.asked("forge") == [elsewhere]
    assert publications.asked("anvil") == [FIRST, third]
    kept_ms = scripts.read(world.client, "PTTL", world.keys.publication("anvil", FIRST.key))
    assert KEPT_MS / 2 < kept_ms <= KEPT_MS
    world.later(store_publications.ASKED_MS)
    publications.ask([SECOND])
    for key in (since, world.keys.publications_asked()):
        found = scripts.read(world.client, "ZRANGE", key, 0, -1)
        assert found == [SECOND.question.encode()], "no worker of forge was there to forget it"
    with pytest.raises(AssertionError, match="it was cut before"):
        part(b"x" * (PART_BYTES_MAX + 1))


def test_a_worker_that_has_no_such_thing_does_not_replace_that_of_another_one(world: World) -> None:
    publications = Publications(world.client, world.keys)
    publications.publish(FIRST, None)
    [before] = publications.ask([FIRST])
    publications.publish(FIRST, part(b"one\n").fields())
    world.later(1)
    publications.publish(FIRST, part(b"one\ntwo\n").fields())
    world.later(1)
    publications.publish(FIRST, None)
    [after] = publications.ask([FIRST])

    assert before.answer
    assert before.answer.fields is None
    assert after.answer
    assert (after.answer.at_ms, part_of(after.answer)) == (world.now - 1, part(b"one\ntwo\n"))


def test_one_worker_of_a_computer_takes_a_publication_once_in_a_period(world: World) -> None:
    publications = Publications(world.client, world.keys)

    def taken(host: str = "anvil") -> Publication | None:
        return publications.take(host, [FIRST, SECOND], 5_000)

    found = [taken(), taken(), taken()]
    assert taken("forge") == FIRST
    world.later(4_999)
    assert (found, taken()) == ([FIRST, SECOND, None], None)
    world.later(1)
    assert taken() == FIRST
    assert publications.take("anvil", [], 5_000) is None
    key = world.keys.publications_taken("anvil")
    assert 2_500 < scripts.read(world.client, "PTTL", key) <= 5_000
