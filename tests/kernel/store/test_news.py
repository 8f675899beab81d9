"""News of cards and ends, and overdue waits, are read until they are noted, and never again."""

from __future__ import annotations

from interlock.kernel.store import scripts
from interlock.kernel.store.news import MISSED_MS_MAX, SETTLED_MS, News, Newsreader
from interlock.kernel.store.overdue import OverdueReader
from tests.kernel.store.kernel_at_a_fixed_time import World

ENDS = [("life", "over"), ("life", "gone")]
LIMIT = 2


class Reader:
    """The reader of the partition in which the world's records are."""

    def __init__(self, world: World) -> None:
        self.world, self.news = world, Newsreader(world.client, world.keys)
        self.news.note(self.read())

    def read(self) -> News:
        (found,) = self.news.read([7], ENDS, limit=LIMIT)
        return found

    def waits(self, record: str, *, ms: int) -> None:
        scripts.read(self.world.client, "ZADD", self.world.keys.waits(7), ms, record)

    def answered(self, record: str) -> None:
        scripts.read(self.world.client, "ZREM", self.world.keys.waits(7), record)

    def ended(self, record: str, state: str = "over") -> None:
        index = self.world.keys.state_index_of(7, "life", state)
        scripts.read(self.world.client, "ZADD", index, self.world.now, record)


def ids(news: News) -> list[str]:
    return [row.id for row in news.ended]


def test_a_card_is_news_until_it_is_noted_and_again_when_it_asks_anew(world: World) -> None:
    reader = Reader(world)
    reader.waits("a", ms=5)

    assert reader.read().opened == (("a", 5),)
    assert reader.read().opened == (("a", 5),), "whoever read it may be lost"
    reader.news.note(reader.read())
    assert not reader.read()
    reader.waits("a", ms=9)
    assert reader.read().opened == (("a", 9),)


def test_no_more_cards_are_read_at_once_than_asked_for(world: World) -> None:
    reader = Reader(world)
    for number in range(LIMIT + 1):
        reader.waits(f"r{number}", ms=number)

    first = reader.read()
    reader.news.note(first)

    assert len(first.opened) == LIMIT
    assert len(reader.read().opened) == 1


def test_a_card_that_was_reported_and_is_answered_is_news_once(world: World) -> None:
    reader = Reader(world)
    reader.waits("a", ms=5)
    reader.news.note(reader.read())
    reader.answered("a")

    assert reader.read().withdrawn == (("a", 5),)
    reader.news.note(reader.read())
    assert not reader.read()


def test_the_first_reader_gets_open_cards_and_no_end(world: World) -> None:
    news = Newsreader(world.client, world.keys)
    index = world.keys.state_index_of(7, "life", "over")
    scripts.read(world.client, "ZADD", index, world.now - 10_000, "long-ago")
    scripts.read(world.client, "ZADD", world.keys.waits(7), 5, "a")

    (found,) = news.read([7], ENDS, limit=LIMIT)

    assert (found.is_first, ids(found), found.opened) == (True, [], (("a", 5),))


def test_ends_are_read_in_order_each_once_and_page_by_page(world: World) -> None:
    reader = Reader(world)
    for number, state in enumerate(("over", "gone", "over"), start=1):
        reader.ended(f"r{number}", state)
        world.later(number % 2)  # the second and the third end in one ms
    world.later(SETTLED_MS)

    first = reader.read()
    reader.news.note(first)
    second = reader.read()
    reader.news.note(second)

    assert (ids(first), ids(second)) == (["r1", "r2"], ["r3"])
    assert [row.state for row in first.ended] == ["over", "gone"]
    assert not reader.read()


def test_an_end_is_read_only_when_no_commit_can_come_before_it(world: World) -> None:
    reader = Reader(world)
    reader.ended("b")
    world.later(SETTLED_MS - 1)

    assert not reader.read()
    world.later(1)
    assert ids(reader.read()) == ["b"]


def test_ends_that_nobody_has_read_for_days_are_not_reported(world: World) -> None:
    reader = Reader(world)
    reader.ended("old")
    world.later(MISSED_MS_MAX)
    reader.ended("new")
    world.later(SETTLED_MS)

    assert ids(reader.read()) == ["new"]


def test_what_waits_too_long_by_a_limit_is_read_until_it_is_noted(world: World) -> None:
    reader, overdue = Reader(world), OverdueReader(world.client, world.keys)
    for number in range(LIMIT + 1):
        reader.waits(f"r{number}", ms=5)

    def read(**before_ms: int) -> list[tuple[str, list[str]]]:
        found = overdue.read([7], before_ms, limit=LIMIT)
        return [(each.limit, [one for one, _ in each.waits]) for each in found]

    assert read(hour=4) == []
    assert read(hour=5, day=4) == read(hour=5) == [("hour", ["r0", "r1"])]
    overdue.note(overdue.read([7], {"hour": 5}, limit=LIMIT)[0])
    assert read(hour=5, day=5) == [("hour", ["r2"]), ("day", ["r0", "r1"])]
