"""Who gets a task next, where a person chooses that."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import GuardRefusedError, InvalidPayloadError
from tests.systems.tasks.machines.test_coding import CLAIM, PureTask

KEPT_FOR, ANY = {"to": "bob"}, {"not_same": True}


@pytest.mark.parametrize("states", [("claimed",), ("claimed", "started"), ("claimed", "released")])
def test_a_person_chooses_who_gets_a_task_and_lifts_the_choice(
    states: tuple[str, ...],
) -> None:
    bob = {"owner": "bob", "identity": "bob/any/"}
    for chosen, why in (
        (KEPT_FOR, "kept for the agent bob"),
        (ANY, "kept for another agent than ann"),
    ):
        task = PureTask().to(*states).fire("requeued", chosen)
        with pytest.raises(GuardRefusedError, match=why):
            task.fire("claimed", CLAIM)
        # The choice outlasts the claim of the one who was chosen.
        task.fire("claimed", bob).to("started", "failed", "retried")
        with pytest.raises(GuardRefusedError, match=why):
            task.fire("claimed", CLAIM)
        assert task.fire("requeued").state == "open"
        assert task.fire("claimed", CLAIM).state == "claimed"


def test_another_process_of_the_same_command_is_another_agent() -> None:
    work = {"repo": "/r", "agent": "make"}
    mine = {**CLAIM, "agent": "b/agent~1"}
    task = PureTask(**work).fire("claimed", mine).fire("requeued", ANY)
    with pytest.raises(GuardRefusedError, match="another agent than b/agent~1"):
        task.fire("claimed", mine)
    assert task.fire("claimed", {**mine, "agent": "b/agent~2"}).state == "claimed"


@pytest.mark.parametrize(
    ("task", "chosen", "why"),
    [
        ({"repo": "/r", "agent": "make"}, KEPT_FOR, "choose the command of another agent"),
        ({}, {"agent": "make"}, "it names no command"),
        ({}, ANY, "no agent has had it yet"),
    ],
)
def test_a_choice_that_no_agent_can_meet_is_refused(
    task: dict[str, Any], chosen: dict[str, Any], why: str
) -> None:
    with pytest.raises(GuardRefusedError, match=why):
        PureTask(**task).fire("requeued", chosen)
    with pytest.raises(InvalidPayloadError, match="leave out agent and not_same"):
        PureTask().fire("requeued", {**KEPT_FOR, **ANY})
    with pytest.raises(InvalidPayloadError, match="agent_name needs the command"):
        PureTask().fire("requeued", {"agent_name": "two"})


def test_a_requeue_changes_the_command_that_works_on_a_task() -> None:
    task = PureTask(repo="/r", agent="make").to("claimed")
    task.fire("requeued", {"agent": "other", "agent_name": "two"})

    assert (task.record.data["agent"], task.record.data["agent_name"]) == ("other", "two")
