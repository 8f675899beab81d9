"""Parents and children: each end is heard once, in whatever order and number."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.workers.threads.client import Threads
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread


def part(capability: str = "jot", policy: Any = None, **parameters: Any) -> dict[str, Any]:
    """Return a part that brings its proposals along."""
    one = {"title": capability, "given": thread(capability, **parameters)["given"]}
    return {**one, "policy": policy} if policy else one


def split(
    deployment: Deployment,
    children: list[dict[str, Any]],
    relationship: str = "decompose",
    of: str = "",
) -> list[str]:
    """Split a thread at its consent gate; return the ids of its children."""
    if not of:
        matter = thread("jot")
        matter["given"]["action"]["kind"] = "suggestion"
        of = deployment.client.submit(matter, machine="thread", id="family").id
    asked = deployment.reaches(of, "awaiting_confirmation")
    parent = Threads(deployment.client).decompose(
        of, children, proposal=asked.proposal, relationship=relationship
    )
    return [f"{of}/{parent.version}.{number}" for number in range(1, len(children) + 1)]


@pytest.mark.parametrize("relationship", ["decompose", "group", "singular"])
def test_a_parent_ends_when_its_last_child_has(deployment: Deployment, relationship: str) -> None:
    children = split(deployment, [part(), part("slow", seconds=1), part()], relationship)

    parent = deployment.ends("family", *children)[0]

    assert (parent.state, parent.data["tally"]) == ("done", {"done": 3})
    assert [event.trigger for event in deployment.events("family")].count("children_done") == 1


def test_a_singular_matter_whose_alternatives_are_all_dismissed_is_dismissed(
    deployment: Deployment,
) -> None:
    children = split(deployment, [part(policy="hands_off")] * 2, "singular")
    for one in children:
        deployment.reaches(one, "awaiting_intent_confirmation")
        deployment.client.cancel(one)

    parent = deployment.ends("family")[0]

    assert (parent.state, parent.data["tally"]) == ("dismissed", {"dismissed": 2})


def test_a_parent_counts_a_child_that_ends_by_clean_up(deployment: Deployment) -> None:
    matter = thread("jot", source="witnessed")
    matter["given"]["action"]["kind"] = "suggestion"
    deployment.client.submit(matter, machine="thread", id="family")
    [child] = split(deployment, [part(policy="hands_off")], of="family")
    deployment.reaches(child, "awaiting_intent_confirmation")
    deployment.client.fire(child, "cleanup_requested")

    parent = deployment.ends("family")[0]

    assert parent.data["tally"] == {"done_cleanup_successful": 1}


def test_closing_a_parent_reaches_its_grandchildren(deployment: Deployment) -> None:
    middle = part("jot")
    middle["given"]["action"]["kind"] = "suggestion"
    [child] = split(deployment, [middle])
    grandchildren = split(deployment, [part(policy="hands_off")] * 2, of=child)
    for one in grandchildren:
        deployment.reaches(one, "awaiting_intent_confirmation")

    deployment.client.cancel("family", reason="not needed")

    assert {r.state for r in deployment.ends("family", child, *grandchildren)} == {"dismissed"}
    for one in (child, *grandchildren):
        assert deployment.events(one)[-1].trigger == "parent_force_close"


def test_a_first_child_that_ends_before_the_second_exists_does_not_end_the_parent(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment(INTERLOCK_LEASE_S="4").tend(2)
    matter = thread("jot")
    matter["given"]["action"]["kind"] = "suggestion"
    name = "kill-between_children-spawn"
    deployment.client.submit(matter, machine="thread", id=name)
    children = split(deployment, [part(), part(), part()], of=name)

    parent = deployment.ends(name, *children)[0]

    assert deployment.killed(name)
    assert parent.data["tally"] == {"done": 3}
    assert deployment.client.dispatch.views.children(name) == sorted(children)
    assert deployment.events(children[1])[0].at_ms > deployment.events(children[0])[-1].at_ms


@pytest.mark.proof
def test_three_hundred_children_are_heard_once_each(new_deployment: NewDeployment) -> None:
    many(new_deployment(), 300)


@pytest.mark.proof
def test_three_thousand_children_are_heard_once_each(new_deployment: NewDeployment) -> None:
    many(new_deployment(), 3_000)


def many(deployment: Deployment, number: int) -> None:
    """Split a matter into many parts, which a person and the cascade dismiss."""
    deployment.full(workers=2, concurrency=16)
    children = split(deployment, [{"title": f"part {n}"} for n in range(number)])
    deployment.sees(
        lambda: len(deployment.client.dispatch.views.children("family")) == number,
        what="every child is born",
        within_s=300,
    )
    half = children[::2]
    for one in half:
        deployment.client.cancel(one)
    deployment.client.cancel("family")

    deployment.ends("family", *children, within_s=300)
    closed = [deployment.events(one)[-1].trigger for one in children]
    assert closed.count("dismissed_by_user") == len(half)
    assert closed.count("parent_force_close") == number - len(half)
