"""What computers say of themselves counts only while they go on saying it."""

from __future__ import annotations

from interlock.kernel.store import scripts
from interlock.kernel.store.hosts import SILENCE_MS
from tests.kernel.store.kernel_at_a_fixed_time import World


def test_a_computer_that_has_been_silent_for_too_long_is_no_longer_believed(world: World) -> None:
    world.hosts.announce("north", {"judge": True})
    world.later(SILENCE_MS - 1)
    world.hosts.announce("south", {"judge": False})
    before = world.hosts.facts()
    world.later(1)

    assert before == {"north": {"judge": True}, "south": {"judge": False}}
    assert world.hosts.facts() == {"south": {"judge": False}}


def test_a_computer_that_repeats_its_facts_is_believed_and_the_last_count(world: World) -> None:
    world.hosts.announce("north", {"judge": True})
    world.later(SILENCE_MS - 1)
    world.hosts.announce("north", {"judge": False})
    world.later(1)

    assert world.hosts.facts() == {"north": {"judge": False}}


def test_what_a_silent_computer_said_is_removed(world: World) -> None:
    world.hosts.announce("north", {"judge": True})
    world.later(SILENCE_MS)
    world.hosts.announce("south", {"judge": True})

    assert scripts.read(world.client, "HKEYS", world.keys.hosts()) == [b"south"]
    assert scripts.read(world.client, "ZRANGE", world.keys.hosts_announced(), 0, -1) == [b"south"]
