"""Parents and children: a parent counts the end of each child once, in any order and number."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.systems.threads.client import Threads
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own family."""
    return joint_deployment


def family_of(deployment: Deployment) -> str:
    """Return the id of the parent of a test."""
    return f"{deployment.scope}-family"


def part(capability: str = "jot", policy: Any = None, **parameters: Any) -> dict[str, Any]:
    """Return a part that has its proposals with it."""
    fields = {"title": capability, "given": thread(capability, **parameters)["given"]}
    return {**fields, "policy": policy} if policy else fields


def split(
    deployment: Deployment,
    children: list[dict[str, Any]],
    relationship: str = "decompose",
    record_id: str = "",
) -> list[str]:
    """Split a thread at its consent gate; return the ids of its children."""
    if not record_id:
        payload = thread("jot")
        payload["given"]["action"]["kind"] = "suggestion"
        record_id = deployment.client.submit(payload, machine="thread", id=family_of(deployment)).id
    asked = deployment.reaches(record_id, "awaiting_confirmation")
    parent = Threads(deployment.client).decompose(
        record_id, children, proposal=asked.proposal, relationship=relationship
    )
    return [f"{record_id}/{parent.version}.{number}" for number in range(1, len(children) + 1)]


@pytest.mark.parametrize("relationship", ["decompose", "group", "singular"])
def test_a_parent_ends_when_its_last_child_has(deployment: Deployment, relationship: str) -> None:
    family = family_of(deployment)
    children = split(deployment, [part(), part("slow", seconds=1), part()], relationship)

    parent = deployment.ends(family, *children)[0]

    assert (parent.state, parent.data["tally"]) == ("done", {"done": 3})
    assert [event.trigger for event in deployment.events(family)].count("children_done") == 1


def test_a_singular_thread_whose_alternatives_are_all_dismissed_is_dismissed(
    deployment: Deployment,
) -> None:
    family = family_of(deployment)
    children = split(deployment, [part(policy="ask_every_step")] * 2, "singular")
    for child in children:
        deployment.reaches(child, "awaiting_intent_confirmation")
        deployment.client.cancel(child)

    parent = deployment.ends(family)[0]

    assert (parent.state, parent.data["tally"]) == ("dismissed", {"dismissed": 2})


def test_a_parent_counts_a_child_that_ends_by_clean_up(deployment: Deployment) -> None:
    family = family_of(deployment)
    payload = thread("jot", source="witnessed")
    payload["given"]["action"]["kind"] = "suggestion"
    deployment.client.submit(payload, machine="thread", id=family)
    [child] = split(deployment, [part(policy="ask_every_step")], record_id=family)
    deployment.reaches(child, "awaiting_intent_confirmation")
    deployment.client.fire(child, "cleanup_requested")

    parent = deployment.ends(family)[0]

    assert parent.data["tally"] == {"done_cleanup_successful": 1}


def test_closing_a_parent_reaches_its_grandchildren(deployment: Deployment) -> None:
    family = family_of(deployment)
    middle = part("jot")
    middle["given"]["action"]["kind"] = "suggestion"
    [child] = split(deployment, [middle])
    grandchildren = split(deployment, [part(policy="ask_every_step")] * 2, record_id=child)
    for grandchild in grandchildren:
        deployment.reaches(grandchild, "awaiting_intent_confirmation")

    deployment.client.cancel(family, reason="not needed")

    assert {r.state for r in deployment.ends(family, child, *grandchildren)} == {"dismissed"}
    for record_id in (child, *grandchildren):
        assert deployment.events(record_id)[-1].trigger == "parent_force_close"


def test_a_first_child_that_ends_before_the_second_exists_does_not_end_the_parent(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment().tend(2)
    deployment.ends_lost_leases = False
    payload = thread("jot")
    payload["given"]["action"]["kind"] = "suggestion"
    name = "kill-between_children-spawn"
    deployment.client.submit(payload, machine="thread", id=name)
    children = split(deployment, [part(), part(), part()], record_id=name)

    deployment.ends(children[0])
    deployment.ends_lost_leases = True
    parent = deployment.ends(name, *children)[0]

    assert deployment.killed(name)
    assert parent.data["tally"] == {"done": 3}
    assert deployment.client.dispatch.views.children(name) == sorted(children)
    assert deployment.events(children[1])[0].at_ms > deployment.events(children[0])[-1].at_ms


@pytest.mark.proof
def test_three_hundred_children_are_counted_once_each(new_deployment: NewDeployment) -> None:
    many(new_deployment(), 300)


@pytest.mark.proof
def test_three_thousand_children_are_counted_once_each(new_deployment: NewDeployment) -> None:
    many(new_deployment(), 3_000)


def many(deployment: Deployment, number: int) -> None:
    """Split a thread into many parts, which a person and the cascade dismiss."""
    deployment.full(workers=2, concurrency=16)
    children = split(deployment, [{"title": f"part {n}"} for n in range(number)])
    deployment.sees(
        lambda: len(deployment.client.dispatch.views.children(family_of(deployment))) == number,
        what="every child is created",
        within_s=300,
    )
    half = children[::2]
    for child in half:
        deployment.client.cancel(child)
    deployment.client.cancel(family_of(deployment))

    deployment.ends(family_of(deployment), *children, within_s=300)
    closed = [deployment.events(child)[-1].trigger for child in children]
    assert closed.count("dismissed_by_user") == len(half)
    assert closed.count("parent_force_close") == number - len(half)
