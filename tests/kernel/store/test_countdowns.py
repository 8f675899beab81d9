"""Children: a parent advances once, when the last one ended and no more can come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.kernel.errors import (
    AnotherChildError,
    ClosedParentError,
    IdTakenError,
    InvalidIdError,
)
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.subscriptions import Subscriber
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import LEASE_MS


def end(world: World, name: str, trigger: str = "cancel") -> bool:
    """End a child; tell whether that owed the parent its advance."""
    fired = world.fire(f"r/{name}", trigger)
    return any(".advance." in message.key for message in fired.owed)


def advance(world: World, of: str = "r") -> Lease:
    return world.claim("cascade", of=of)


def test_the_last_child_owes_the_advance_and_the_tally_says_how_they_ended(world: World) -> None:
    spawn = world.split()
    for name in "ab":
        world.create_child("r", name)
    assert world.counted() == {"*", "r/a", "r/b"}
    assert not world.settle(spawn).owed
    assert not end(world, "a")
    assert end(world, "b")

    assert world.indexes.ended(world.partition(), world.now, 10) == [], "its family lives"
    lease = advance(world)
    assert lease.key.startswith("r:2.advance.children:")
    assert world.views.tally("r", "children:2") == {"failed": 2}
    world.fire(lease.record, "children_done", {"tally": {"failed": 2}}, warrant=token(lease))
    assert world.record().state == "done"
    assert world.state_of("cascade") == "gone"


def test_a_first_child_that_ends_before_the_second_exists_ends_nothing(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    assert not end(world, "a")
    world.create_child("r", "b")
    assert not world.settle(spawn).owed
    assert world.state_of("cascade") == "gone"

    assert end(world, "b")
    assert world.state_of("cascade") == "owed"


def test_when_all_ended_before_the_spawning_did_its_settling_owes_the_advance(
    world: World,
) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    end(world, "a")
    answer = world.settle(spawn)

    assert [message.name for message in answer.owed] == ["cascade"]
    assert world.counted() == set()
    assert world.state_of("cascade") == "owed"
    assert world.settle(spawn).status == "lost"


def test_a_lapsed_or_quarantined_spawning_keeps_the_placeholder(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    end(world, "a")
    world.later(LEASE_MS * 10)
    world.poll()
    assert world.state_of("spawn") == "lapsed"
    assert world.counted() == {"*"}
    world.fire("r", "cancel")
    assert world.counted() == {"*"}
    assert world.settle(spawn).status == "settled"


def test_an_outcome_under_a_spawns_token_leaves_the_placeholder_to_its_settling(
    world: World,
) -> None:
    spawn = world.split()
    world.fire("r", "children_done", warrant=token(spawn))

    assert world.counted() == {"*"}
    assert world.settle(spawn).status == "settled"
    assert world.counted() == set()


def test_a_repeated_birth_never_joins_twice(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.create_child("r", "b")
    end(world, "a")

    assert world.create_child("r", "a").replayed
    assert world.counted() == {"*", "r/b"}
    end(world, "b")
    world.settle(spawn)
    assert world.state_of("cascade") == "owed"
    assert world.create_child("r", "a").replayed


def test_an_id_below_a_record_is_refused_unless_that_record_creates_it(world: World) -> None:
    world.split("shop")
    before = world.dump()
    with pytest.raises(InvalidIdError, match="only the life shop creates records below its id"):
        world.create("shop/2.1", machine="ticket")
    assert world.dump() == before

    world.create_child("shop", "2.1")
    world.create("graph", machine="root")
    assert world.create("graph/node", machine="node").version == 1


def test_an_id_that_another_record_has_is_no_child(world: World) -> None:
    world.create("r/2.1", machine="ticket")
    world.split()
    for machine in ("ticket", "life"):
        with pytest.raises(IdTakenError, match=r"the name 'r/2\.1' is taken"):
            world.create("r/2.1", machine=machine, countdown="children:2")
    assert world.counted() == {"*"}


def test_a_child_stays_what_it_was_created_from(world: World) -> None:
    world.split()
    world.create_child("r", "2.1")
    before = world.dump()

    with pytest.raises(AnotherChildError, match="a child that its parent has created already"):
        world.create("r/2.1", {"value": "another"}, countdown="children:2")
    assert world.dump() == before
    assert world.create_child("r", "2.1").replayed


def test_nobody_joins_after_the_spawning_ended(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.settle(spawn)

    with pytest.raises(ClosedParentError):
        world.create_child("r", "late")
    assert world.views.children("r") == ["r/a"]


def test_nobody_is_born_under_a_parent_that_ended(world: World) -> None:
    world.split()
    world.create_child("r", "a")
    world.fire("r", "cancel")
    before = world.dump()

    with pytest.raises(ClosedParentError):
        world.create_child("r", "late")
    assert world.dump() == before


def test_nobody_is_born_under_a_parent_that_does_not_exist(world: World) -> None:
    with pytest.raises(ClosedParentError):
        world.create("nobody/a", countdown="children:2")


def test_a_child_that_ends_under_an_ended_parent_owes_nothing(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.settle(spawn)
    world.fire("r", "cancel")

    closing = world.entry("cascade")
    assert not end(world, "a")
    assert [one for one in world.record().entries if one.name == "cascade"] == [closing]


def test_a_childs_end_leaves_the_parents_version_alone(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.create_child("r", "b")
    world.settle(spawn)
    version = world.record().version
    end(world, "a")

    assert world.record().version == version


def test_an_advance_is_owed_off_the_index_while_the_parent_is_paused(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.settle(spawn)
    world.flag("pause")
    end(world, "a")
    assert world.state_of("cascade") == "owed"
    assert world.score(world.key("cascade")) is None
    world.flag("resume")

    assert world.score(world.key("cascade")) == world.now


def test_an_advance_may_be_settled_without_firing(world: World) -> None:
    spawn = world.split()
    world.settle(spawn)

    assert world.settle(advance(world)).status == "settled"
    assert world.record().state == "grouping"


def test_sixty_four_children_that_end_at_once_advance_the_parent_once(world: World) -> None:
    spawn = world.split()
    names = [f"c{number}" for number in range(64)]
    for name in names:
        world.create_child("r", name)
    world.settle(spawn)
    with ThreadPoolExecutor(16) as pool:
        owed = list(pool.map(lambda name: end(world, name), names))

    assert owed.count(True) == 1
    assert world.counted() == set()
    assert world.views.tally("r", "children:2") == {"failed": 64}
    assert world.state_of("cascade") == "owed"


def test_a_member_that_should_have_left_departs_once(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.settle(spawn)
    parent = Subscriber.of(world.record(), "children:2")
    store, render = world.lifecycle.store, world.lifecycle.render
    first = store.leave_countdown(parent, "r/a", "missing", render)
    second = store.leave_countdown(parent, "r/a", "missing", render)

    assert len(first.owed) == 1
    assert second.owed == ()
    assert world.views.tally("r", "children:2") == {"missing": 1}
