"""Families of two machines: what a parent creates, counts and learns of children of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import InvalidIdError, InvalidPayloadError, UnknownMachineError
from interlock.kernel.event import Cause
from interlock.kernel.families import countdowns_begun
from interlock.kernel.record import Record
from interlock.kernel.store import scripts
from interlock.kernel.store.children import children_listed
from interlock.kernel.store.commands import Call, EffectMessage
from interlock.kernel.store.leases import Lease
from interlock.kernel.traits import NewChild
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_families import ORDER


def order(world: World, *parts: Any, **data: Any) -> Lease:
    """Create an order, split it into its parts, and claim the effect that creates them."""
    world.create("r", {"name": "chair", "parts": [*parts], **data}, machine="order")
    world.fire("r", "split")
    return world.claim("spawn")


def create_part(world: World, number: int = 1) -> str:
    child = f"r/2.{number}"
    world.create(child, {"part": number}, machine="part", countdown="parts:2")
    return child


def pushed(world: World) -> list[EffectMessage]:
    """Let commits push their messages, and return the list to which these are added."""
    found: list[EffectMessage] = []

    def render(message: EffectMessage) -> tuple[str, bytes]:
        found.append(message)
        return f"{world.keys.prefix}:queue", message.key.encode()

    world.lifecycle.render = render
    return found


def test_the_end_of_the_last_child_is_a_message_of_the_parents_machine(world: World) -> None:
    spawn = order(world, "leg")
    child = create_part(world)
    world.settle(spawn)
    messages = pushed(world)
    world.fire(child, "made")

    (advance,) = (message for message in messages if ".advance." in message.key)
    assert (advance.machine, advance.name) == ("order", "cascade")
    queued = world.list_of(f"{world.keys.prefix}:queue")
    assert advance.key.encode() in queued, "the commit of the child itself published it"


def test_a_child_knows_the_machine_of_its_parent_from_its_creation_on(world: World) -> None:
    order(world, "leg")
    created = world.create("r/2.1", machine="part", countdown="parts:2").record

    assert created
    assert created.parent_machine == world.record("r/2.1").parent_machine == "order"
    assert world.record("r").parent_machine == ""


def test_a_child_from_before_this_was_stored_is_of_its_parents_machine(world: World) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    scripts.read(world.client, "HDEL", world.keys.record("r/a"), "parent_machine")
    world.settle(spawn)

    (message,) = world.fire("r/a", "cancel").owed
    assert message.machine == "life"


def listed(world: World, version: int = 2) -> Any:
    return children_listed(world.client, world.keys, "r", version)


def test_the_children_are_listed_beside_the_event_and_no_later_change_changes_them(
    world: World,
) -> None:
    order(world, "leg", "seat")
    expected = [
        NewChild({"of": "chair", "part": part, "one_of": 2}, {"tokens": 7})
        for part in ("leg", "seat")
    ]
    assert listed(world) == expected
    world.fire("r", "change", {"parts": ["back"]})

    assert world.record("r").data["parts"] == ["back"]
    assert listed(world) == expected
    assert listed(world, 1) is None
    assert "children" not in world.events()[1].payload, "the event itself stays as small as it was"


def test_a_machine_may_have_several_kinds_of_children(world: World) -> None:
    order(world, "leg", children=[{"name": "stool", "parts": []}])
    world.fire("r", "check")

    assert listed(world, 3) == [NewChild({"name": "stool", "parts": []})]
    assert countdowns_begun(ORDER, world.views.history("r")) == ["parts:2", "checks:3"]
    world.create("r/3.1", {"name": "stool"}, machine="order", countdown="checks:3")
    assert world.counted(generation=2) == set()
    assert world.views.counted("r", "checks:3") == {"*", "r/3.1"}


def test_a_row_that_spawns_nothing_begins_no_countdown_though_another_of_its_cell_does(
    world: World,
) -> None:
    world.create("r", {"name": "chair", "parts": []}, machine="order")
    world.fire("r", "split")

    assert countdowns_begun(ORDER, world.views.history("r")) == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [({}, "split is invalid: the data has no list parts"), ({"parts": "leg"}, "has no list parts")],
)
def test_a_row_that_finds_no_list_of_children_is_refused(
    world: World, data: dict[str, Any], problem: str
) -> None:
    world.create("r", {"name": "chair", **data}, machine="order")

    with pytest.raises(InvalidPayloadError, match=problem):
        world.fire("r", "split")
    assert world.record().state == "planned"


def test_a_child_that_could_not_be_created_is_refused_with_the_row(world: World) -> None:
    def first_data(payload: Any) -> Any:
        if payload["part"] == "hole":
            raise InvalidPayloadError("the part", ["it is no part"])
        return payload

    machines = dict(world.lifecycle.machines)
    world.lifecycle.machines = machines | {
        "part": replace(machines["part"], initial_data=first_data)
    }
    with pytest.raises(InvalidPayloadError, match="number 2 of the parts is invalid: it is"):
        order(world, "leg", "hole")
    assert world.record().state == "planned"

    world.lifecycle.machines = {"order": machines["order"]}
    with pytest.raises(UnknownMachineError, match="part"):
        world.fire("r", "split")


def test_a_family_that_is_too_deep_or_too_large_is_refused_with_the_row(world: World) -> None:
    world.create("r", {"name": "chair", "parts": [1] * 10_001}, machine="order")
    with pytest.raises(InvalidPayloadError, match="it lists 10001 children, the limit is 10000"):
        world.fire("r", "split")

    long = "r" * 198
    world.create(long, {"name": "chair", "parts": [1]}, machine="order")
    with pytest.raises(InvalidIdError, match="longer than 200"):
        world.fire(long, "split")


def reports(world: World, child: str, trigger: str, cause: str = "test") -> bool:
    """End a child; tell whether it owes the effect that reports its loss."""
    fired = world.lifecycle.fire(child, trigger, {}, Call(Cause(cause), world.op()))
    assert isinstance(fired.record, Record)
    return any(message.key.startswith(f"{child}:") for message in fired.owed)


def test_a_child_that_is_lost_owes_a_report_and_no_other_does(world: World) -> None:
    spawn = order(world, 1, 2, 3, 4)
    ids = [create_part(world, number) for number in range(1, 5)]
    world.settle(spawn)

    assert reports(world, ids[0], "break")
    assert not reports(world, ids[1], "made")
    assert not reports(world, ids[2], "close", "cascade"), "its parent has ended"
    world.create("alone", machine="part")
    assert not reports(world, "alone", "break")
    assert world.entry("cascade", ids[0]).state == "owed"


def test_a_family_whose_parent_names_no_trigger_for_losses_gets_no_reports(world: World) -> None:
    world.split()
    world.create_child("r", "a")

    assert not reports(world, "r/a", "cancel")


def test_children_are_in_the_order_in_which_they_were_listed(world: World) -> None:
    order(world, *range(12))
    for number in range(12, 0, -1):
        create_part(world, number)

    assert world.views.children("r") == [f"r/2.{number}" for number in range(1, 13)]
