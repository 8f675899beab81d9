"""Two deployments on one store are apart also in what Celery tells workers and says of them."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from interlock.workers.engine.consumer import COMMANDS_REFUSED
from interlock.workers.ops.attendance import attendance
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import READY_S, Deployment, thread
from tests.waiting import until

# As in a deployment: Flower reads the events.
VARIABLES = {"INTERLOCK_TASK_EVENTS": "1"}


def served_by(deployment: Deployment) -> set[str]:
    """Return the workers that a deployment's `doctor` sees."""
    depths = {"effects": 0, "timers": 0, "waits": 0}
    return set(attendance(deployment.client.dispatch, depths)["workers"])


def test_neither_of_two_teams_sees_or_controls_the_workers_of_the_other(
    new_deployment: NewDeployment,
) -> None:
    ours, theirs = new_deployment(), new_deployment()
    workers = [team.worker(ready=False) for team in (ours, theirs)]
    for worker in workers:
        until(worker.is_ready, what=f"{worker.name} is ready", within_s=READY_S)
    seen: list[dict[str, Any]] = []
    app = theirs.client.dispatch.publisher.app
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": seen.append})
        listener = Thread(target=lambda: [*receiver.itercapture(wakeup=False)], daemon=True)
        listener.start()
        for team in (ours, theirs):
            until(lambda: len(served_by(team)) == 1, what="its worker answers")  # noqa: B023 - now
            team.client.submit(thread(), id="a", machine="thread")
            team.client.wait("a", timeout_s=READY_S)

        until(
            lambda: any(event["type"] == "task-succeeded" for event in seen),
            what="the events of their own work are seen",
        )
        app.control.shutdown()
        until(lambda: not workers[1].alive, what="the worker that was told has ended")
        receiver.should_stop = True
        listener.join()

    assert {event["hostname"].partition("@")[0] for event in seen} == {workers[1].name}
    assert [node.partition("@")[0] for node in served_by(ours)] == [workers[0].name]
    assert served_by(theirs) == set()


@pytest.mark.parametrize("command", COMMANDS_REFUSED)
def test_a_command_that_would_stop_work_unseen_is_refused(
    joint_deployment: Deployment, command: str
) -> None:
    control = joint_deployment.client.dispatch.publisher.app.control

    answers = until(lambda: control.broadcast(command, reply=True, timeout=2), what="an answer")

    assert all(
        "takes no command that" in answer["error"] for each in answers for answer in each.values()
    )
