"""An inbox is forgotten with the last life of its name, and never while somebody lives there."""

from __future__ import annotations

from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.test_inboxes import OWL, agent, inbox, post

NEXT = "owl/2"


def ended(world: World, of: str = OWL) -> str:
    """Stop a life and do all that it is still owed."""
    world.fire(of, "operator_stop")
    for entry in world.record(of).entries:
        world.settle(world.claim_key(entry.key(of)))
    return of


def pruned(world: World, of: str = OWL, *, last: bool) -> str:
    return world.indexes.prune(world.record(of), [], age_ms=0, last=last)


def texts(world: World) -> list[str]:
    return [one.fields["text"] for one in inbox(world)]


def left(world: World) -> list[str]:
    """Return the names of all keys of records, without the parts that differ between tests."""
    names = (key.decode().rpartition("}:")[2] for key in world.dump())
    return sorted(name for name in names if name != "feed")


def test_the_inbox_goes_with_the_last_life_of_its_name_and_nothing_is_left(world: World) -> None:
    agent(world)
    post(world, "never read")
    ended(world)
    assert texts(world) == ["never read"], "to stop is not to be forgotten"

    assert pruned(world, last=True) == "pruned"

    assert texts(world) == []
    assert left(world) == [f"x:{OWL}"], "a tombstone, and nothing else"


def test_the_inbox_stays_while_another_life_of_its_name_is_remembered(world: World) -> None:
    agent(world)
    post(world, "never read")
    ended(world)
    agent(world, NEXT)
    ended(world, NEXT)
    before = world.dump()[world.keys.inbox(OWL).encode()]

    assert pruned(world, last=False) == "pruned"

    assert texts(world) == ["never read"]
    assert world.dump()[world.keys.inbox(NEXT).encode()] == before
    assert pruned(world, NEXT, last=True) == "pruned"
    assert left(world) == [f"x:{OWL}", f"x:{NEXT}"]


def test_the_inbox_stays_where_somebody_lives_again_by_now(world: World) -> None:
    agent(world)
    post(world, "never read")
    ended(world)
    # Whoever prunes has looked who is left of this name; then another is born.
    agent(world, NEXT)

    assert pruned(world, last=True) == "pruned"

    assert texts(world) == ["never read"]
    assert world.views.holds("owl") == {"self": NEXT}
    assert post(world, "hello", of=NEXT).status == "posted"
    assert texts(world) == ["never read", "hello"]


def test_a_life_that_goes_on_or_is_owed_something_keeps_all(world: World) -> None:
    agent(world)
    post(world, "never read")
    before = world.dump()
    assert pruned(world, last=True) == "early"
    assert world.dump() == before

    world.fire(OWL, "operator_stop")
    before = world.dump()
    assert pruned(world, last=True) == "busy"
    assert world.dump() == before
