"""Parents and children: each end is heard once, in whatever order and number."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.workers.threads.client import Threads
from tests.end_to_end.conftest import NewHouse
from tests.end_to_end.deployment import House, thread


def part(capability: str = "jot", policy: Any = None, **parameters: Any) -> dict[str, Any]:
    """Return a part that brings its proposals along."""
    one = {"title": capability, "given": thread(capability, **parameters)["given"]}
    return {**one, "policy": policy} if policy else one


def split(
    house: House, children: list[dict[str, Any]], relationship: str = "decompose", of: str = ""
) -> list[str]:
    """Split a thread at its consent gate; return the ids of its children."""
    if not of:
        matter = thread("jot")
        matter["given"]["action"]["kind"] = "suggestion"
        of = house.client.submit(matter, machine="thread", id="family").id
    asked = house.reaches(of, "awaiting_confirmation")
    parent = Threads(house.client).decompose(
        of, children, proposal=asked.proposal, relationship=relationship
    )
    return [f"{of}/{parent.version}.{number}" for number in range(1, len(children) + 1)]


@pytest.mark.parametrize("relationship", ["decompose", "group", "singular"])
def test_a_parent_ends_when_its_last_child_has(house: House, relationship: str) -> None:
    children = split(house, [part(), part("slow", seconds=1), part()], relationship)

    parent = house.ends("family", *children)[0]

    assert (parent.state, parent.data["tally"]) == ("done", {"done": 3})
    assert [event.trigger for event in house.events("family")].count("children_done") == 1


def test_a_singular_matter_whose_alternatives_are_all_dismissed_is_dismissed(house: House) -> None:
    children = split(house, [part(policy="hands_off")] * 2, "singular")
    for one in children:
        house.reaches(one, "awaiting_intent_confirmation")
        house.client.cancel(one)

    parent = house.ends("family")[0]

    assert (parent.state, parent.data["tally"]) == ("dismissed", {"dismissed": 2})


def test_a_parent_counts_a_child_that_ends_by_clean_up(house: House) -> None:
    matter = thread("jot", source="witnessed")
    matter["given"]["action"]["kind"] = "suggestion"
    house.client.submit(matter, machine="thread", id="family")
    [child] = split(house, [part(policy="hands_off")], of="family")
    house.reaches(child, "awaiting_intent_confirmation")
    house.client.fire(child, "cleanup_requested")

    parent = house.ends("family")[0]

    assert parent.data["tally"] == {"done_cleanup_successful": 1}


def test_closing_a_parent_reaches_its_grandchildren(house: House) -> None:
    middle = part("jot")
    middle["given"]["action"]["kind"] = "suggestion"
    [child] = split(house, [middle])
    grandchildren = split(house, [part(policy="hands_off")] * 2, of=child)
    for one in grandchildren:
        house.reaches(one, "awaiting_intent_confirmation")

    house.client.cancel("family", reason="not needed")

    assert {r.state for r in house.ends("family", child, *grandchildren)} == {"dismissed"}
    for one in (child, *grandchildren):
        assert house.events(one)[-1].trigger == "parent_force_close"


def test_a_first_child_that_ends_before_the_second_exists_does_not_end_the_parent(
    new_house: NewHouse,
) -> None:
    house = new_house(INTERLOCK_LEASE_S="4").tend(2)
    matter = thread("jot")
    matter["given"]["action"]["kind"] = "suggestion"
    name = "kill-between_children-spawn"
    house.client.submit(matter, machine="thread", id=name)
    children = split(house, [part(), part(), part()], of=name)

    parent = house.ends(name, *children)[0]

    assert house.killed(name)
    assert parent.data["tally"] == {"done": 3}
    assert house.client.dispatch.views.children(name) == sorted(children)
    assert house.events(children[1])[0].at_ms > house.events(children[0])[-1].at_ms


@pytest.mark.proof
def test_three_hundred_children_are_heard_once_each(new_house: NewHouse) -> None:
    many(new_house(), 300)


@pytest.mark.proof
def test_three_thousand_children_are_heard_once_each(new_house: NewHouse) -> None:
    many(new_house(), 3_000)


def many(house: House, number: int) -> None:
    """Split a matter into many parts, which a person and the cascade dismiss."""
    house.full(workers=2, concurrency=16)
    children = split(house, [{"title": f"part {n}"} for n in range(number)])
    house.sees(
        lambda: len(house.client.dispatch.views.children("family")) == number,
        what="every child is born",
        within_s=300,
    )
    half = children[::2]
    for one in half:
        house.client.cancel(one)
    house.client.cancel("family")

    house.ends("family", *children, within_s=300)
    closed = [house.events(one)[-1].trigger for one in children]
    assert closed.count("dismissed_by_user") == len(half)
    assert closed.count("parent_force_close") == number - len(half)
