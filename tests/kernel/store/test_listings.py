"""Lists: each record once and in its place, page by page, and found by what people know."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.record import parent_of, partition_of
from interlock.kernel.store import listings
from interlock.kernel.store.listings import SCAN_MIN, Filter, Page, page_plan
from interlock.kernel.store.scripts import call, read, read_all
from tests.kernel.store.invariants import found_by
from tests.kernel.store.kernel_at_a_fixed_time import World

ALL = Filter(["life"])


def ids(page: Page) -> list[str]:
    return [str(row.id) for row in page.rows]


def every_id(world: World, wanted: Filter, *, limit: int, newest: bool = True) -> list[list[str]]:
    """Return the ids of each page of a list."""
    page = world.listings.page(wanted, limit=limit, newest=newest)
    pages = [ids(page)]
    while page.cursor:
        page = world.listings.page(wanted, limit=limit, newest=newest, cursor=page.cursor)
        pages.append(ids(page))
    return pages


def create(world: World, of: str, title: str = "") -> None:
    """Create a record, as a child of the record above it."""
    if parent := parent_of(of):
        if world.record(parent).state == "idle":
            world.fire(parent, "split")
        world.create(of, {"title": title}, countdown=f"children:{world.record(parent).version}")
    else:
        world.create(of, {"title": title})


def titled(world: World, titles: dict[str, str]) -> None:
    for of, title in titles.items():
        create(world, of, title)


def test_a_row_says_what_a_list_shows_of_a_record(world: World) -> None:
    world.at("asking", payload={"title": "Pay the rent\nat once", "value": "now"})
    world.later(5)
    world.flag("pause")
    (row,) = world.listings.page(ALL).rows

    assert (row.id, row.machine, row.state, row.version) == ("r", "life", "asking", 3)
    assert (row.title, row.paused, row.waits_for_person) == ("Pay the rent", True, True)
    assert (row.since_ms, row.created_ms) == (world.now - 5, world.now - 5)
    assert world.record().title == row.title


@pytest.mark.parametrize("limit", [1, 2, 5, 500])
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_a_list_has_each_record_once_in_the_order_of_creation(
    world: World, limit: int, order: str
) -> None:
    newest = order == "newest"
    # Several are created in one ms, in different partitions and in the same one.
    names = ["a", "b", "c", "c/1", "c/2", "c/3", "z"]
    for n, of in enumerate(names):
        create(world, of)
        world.later(n // 5)
    pages = every_id(world, ALL, limit=limit, newest=newest)

    made = sorted(names, key=lambda of: (world.record(of).created_ms, of), reverse=newest)
    assert [of for page in pages for of in page] == made
    assert all(len(page) == limit for page in pages[:-1])


def test_more_records_of_one_moment_than_a_page_holds_are_all_listed(world: World) -> None:
    names = {f"r/{n}" for n in range(2 * SCAN_MIN + 1)}
    world.create("r")
    world.later(1)
    for of in names:
        create(world, of)
    pages = every_id(world, replace(ALL, created_ms=(world.now, world.now)), limit=SCAN_MIN)

    assert {of for page in pages for of in page} == names
    assert [len(page) for page in pages] == [SCAN_MIN, SCAN_MIN, 1]


def test_a_list_of_states_comes_by_the_time_in_the_state(world: World) -> None:
    for of in ("b", "a", "c"):
        world.create(of)
        world.later(1)
    for of in ("a", "b"):
        world.fire(of, "begin")
        world.later(1)
    working, idle = ("life", "working"), ("life", "idle")

    assert ids(world.listings.page(replace(ALL, states=[working]), newest=False)) == ["a", "b"]
    assert ids(world.listings.page(replace(ALL, states=[idle, working]))) == ["b", "a", "c"]
    assert ids(world.listings.page(Filter([], states=[working]))) == []
    since = world.record("b").since_ms
    late = replace(ALL, states=[idle, working], since_ms=(since, since))
    assert ids(world.listings.page(late)) == ["b"]
    assert ids(world.listings.page(replace(late, id_prefix="a"))) == []


def test_a_list_is_limited_by_the_time_of_creation(world: World) -> None:
    for of in ("a", "b", "c", "d"):
        world.create(of)
        world.later(10)
    first, last = (world.record(of).created_ms for of in ("b", "c"))

    assert ids(world.listings.page(replace(ALL, created_ms=(first, last)))) == ["c", "b"]
    in_state = replace(ALL, created_ms=(first, last), states=[("life", "idle")])
    assert ids(world.listings.page(in_state, newest=False)) == ["b", "c"]


def test_children_are_listed_by_name(world: World) -> None:
    titled(world, {"r": "", "other": "b"} | {f"r/{name}": name for name in "bac"})

    assert every_id(world, replace(ALL, parent="r"), limit=2) == [["r/a", "r/b"], ["r/c"]]
    assert ids(world.listings.page(replace(ALL, parent="r", text="b"))) == ["r/b"]
    assert ids(world.listings.page(replace(ALL, parent="r", id_prefix="r/c"))) == ["r/c"]


def test_records_are_found_by_the_beginning_of_their_id(world: World) -> None:
    for of in ("shop-1", "shop-2", "shop", "shop/a", "shop/b", "shoe", "workshop"):
        create(world, of)

    assert every_id(world, replace(ALL, id_prefix="shop"), limit=2) == [
        ["shop", "shop-1"],
        ["shop-2", "shop/a"],
        ["shop/b"],
    ]
    assert ids(world.listings.page(replace(ALL, id_prefix="shop/"))) == ["shop/a", "shop/b"]
    assert ids(world.listings.page(replace(ALL, id_prefix="shop", machines=["node"]))) == []


def test_records_are_found_by_the_words_of_their_titles(world: World) -> None:
    titled(
        world,
        {
            "a": "Refund order 17, at once",
            "b": "REFUND the Refundable deposit",
            "c": "Ship order 17",
            "d": "Straße = street",
            "e": "",
        },
    )
    found = {
        text: ids(world.listings.page(replace(ALL, text=text)))
        for text in (
            "order 17",
            "refund",
            "ref",
            "order refund",
            "17 onc",
            "STRASSE",
            "refund sh",
        )
    }

    assert found == {
        "order 17": ["a", "c"],
        "refund": ["a", "b"],
        "ref": ["a", "b"],
        "order refund": ["a"],
        "17 onc": ["a"],
        "STRASSE": ["d"],
        "refund sh": [],
    }
    assert every_id(world, replace(ALL, text="re"), limit=1) == [["a"], ["b"], []]
    assert ids(world.listings.page(replace(ALL, text="order", id_prefix="c"))) == ["c"]


def test_a_text_without_a_word_is_refused(world: World) -> None:
    with pytest.raises(CallError, match="has no word to look for"):
        world.listings.page(replace(ALL, text=" -- "))


def test_a_record_is_found_by_its_new_title_and_not_by_the_old_one(world: World) -> None:
    world.at("working", payload={"title": "Pay rent", "value": "soon"})
    world.fire("r", "poke", {"value": "today"})

    assert found_by(world, "r") == ["=r", "pay r", "rent r", "today r"]
    assert ids(world.listings.page(replace(ALL, text="soon"))) == []
    assert [row.title for row in world.listings.page(ALL).rows] == ["Pay rent: today"]


def test_a_pruned_record_is_in_no_list(world: World) -> None:
    world.create("r", {"title": "Pay"})
    world.create("s", {"title": "Pay"})
    world.fire("r", "cancel")
    assert world.indexes.prune(world.record(), [], age_ms=0) == "pruned"

    assert found_by(world, "r") == []
    assert ids(world.listings.page(ALL)) == ids(world.listings.page(replace(ALL, text="pay")))
    assert read(world.client, "ZCARD", world.keys.creation_index(partition_of("r"), "life")) == 0


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "e30=",
        "W10=",
        urlsafe_b64encode(b"[" * 60_000).decode(),
        urlsafe_b64encode(b'[1, 2, "a"]').decode(),
    ],
)
def test_what_is_no_cursor_of_the_list_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(CallError, match="is no cursor of this list"):
        world.listings.page(ALL, cursor=cursor)


def test_the_cursor_of_another_list_is_refused(world: World) -> None:
    titled(world, {"a": "x", "b": "x"})
    by_time = world.listings.page(ALL, limit=1).cursor
    by_name = world.listings.page(replace(ALL, text="x"), limit=1).cursor

    for wanted, cursor in ((replace(ALL, text="x"), by_time), (ALL, by_name)):
        with pytest.raises(CallError, match="is no cursor of this list"):
            world.listings.page(wanted, cursor=cursor)
    with pytest.raises(CallError, match="is no cursor of this list"):
        world.listings.page(ALL, cursor=by_time, newest=False)


@pytest.mark.parametrize("limit", [0, 501])
def test_a_page_has_a_limit(world: World, limit: int) -> None:
    with pytest.raises(CallError, match=f"a page has 1 to 500 records, not {limit}"):
        world.listings.page(ALL, limit=limit)


def test_a_page_looks_at_a_bounded_number_of_records_and_the_next_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "SCAN_MAX", SCAN_MIN)
    for n in range(2 * SCAN_MIN):
        world.create(f"r{n:03}", {"value": "odd" if n == SCAN_MIN + 5 else "even"})
        world.later(1)
    pages = every_id(world, replace(ALL, id_prefix="r", text="odd"), limit=10)

    assert pages == [[], [f"r{SCAN_MIN + 5:03}"], []]


def test_a_search_looks_at_the_rarest_word_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "SCAN_MAX", 1)
    for n in range(SCAN_MIN):
        create(world, f"r{n:03}", "common")
    create(world, "z", "common rare thing")

    for text in ("common rare th", "rare common th"):
        assert every_id(world, replace(ALL, text=text), limit=10) == [["z"]]


def test_a_page_takes_few_round_trips(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    trips: list[str] = []

    def counted(name: str) -> None:
        made: Any = getattr(listings, name)

        def call(*args: Any) -> Any:
            trips.append(name)
            return made(*args)

        monkeypatch.setattr(listings, name, call)

    for n in range(10):
        world.create(f"r{n}", {"title": "one"})
    for name in ("call_all", "read_all", "read"):
        counted(name)
    for wanted in (ALL, replace(ALL, states=[("life", "idle")]), replace(ALL, text="one")):
        trips.clear()
        assert len(world.listings.page(wanted).rows) == 10
        assert len(trips) == 2
    trips.clear()
    assert not world.listings.page(replace(ALL, id_prefix="r", text="two"), limit=1).rows
    assert len(trips) == 2


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_records_of_one_partition_are_listed_among_those_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(listings, "SHARE_MIN", 1)
    newest = order == "newest"
    names = ["p", *(f"p/{n}" for n in range(9)), "x", "y", "p/9", "z"]
    for of in names:
        create(world, of)
        world.later(1)

    for limit in (1, 3, 8, 500):
        pages = every_id(world, ALL, limit=limit, newest=newest)
        assert [of for page in pages for of in page] == (names[::-1] if newest else names)


def test_a_list_in_which_few_records_fit_takes_few_looks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(300):
        create(world, f"r{n}")
    looks: list[object] = []

    def counted(*given: Any) -> list[Any]:
        looks.append(given)
        return read_all(*given)

    monkeypatch.setattr(listings, "read_all", counted)
    since = Filter(["life"], since_ms=(world.now + 1, world.now + 2))

    assert world.listings.page(since).rows == ()
    assert len(looks) <= 4


@pytest.mark.parametrize("position", [[10**400, "a"], [-1, "a"], [1, "\ud800"]])
def test_a_cursor_that_somebody_made_up_is_refused(world: World, position: list[Any]) -> None:
    create(world, "a")
    create(world, "b")
    cursor = world.listings.page(ALL, limit=1).cursor
    stamp = json.loads(urlsafe_b64decode(cursor))[0]
    made_up = urlsafe_b64encode(json.dumps([stamp, *position]).encode()).decode()

    with pytest.raises(CallError, match="no cursor of this list"):
        world.listings.page(ALL, limit=1, cursor=made_up)


def test_a_page_of_several_states_begins_with_the_oldest_of_all(world: World) -> None:
    world.create("r")
    for of in ("r/b", "r/a"):
        create(world, of)
        world.later(1)
    world.fire("r/a", "begin")
    states = [("life", "working"), ("life", "idle")]
    indexes = [world.keys.state_index_of(partition_of("r"), *state) for state in states]
    plan = page_plan("oldest", ("-inf", ""), "+inf", 1)

    assert call(world.client, "list_page", {"indexes": indexes}, plan)[:2] == [2, b"r/b"]


def test_a_record_is_not_found_by_a_word_that_its_title_has_lost(world: World) -> None:
    create(world, "r", "rent due")
    world.fire("r", "begin")
    world.fire("r", "poke", {"value": "soon"})
    assert ids(world.listings.page(replace(ALL, text="soon"))) == ["r"]
    world.fire("r", "poke", {"value": "rent"})

    assert ids(world.listings.page(replace(ALL, text="soon"))) == []
    assert ids(world.listings.page(replace(ALL, text="rent"))) == ["r"]
