"""Failed tasks: how each try failed, and what a replay does and does not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.kernel.store import views
from interlock.kernel.table import Active
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.effects.recovery import recovery
from interlock.systems.tasks.failed import FailedTasks
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.engine import task_events
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps import orphans
from interlock.workers.gateways.server import EmbeddedServer
from tests.sweeping import sweeping
from tests.systems.threads.threads import bring, client_of
from tests.waiting import until
from tests.workers.engine.running import settings_for
from tests.workers.engine.test_task_events import WORKER, received

Run = Callable[..., Any]


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def run(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs an `interlock task` command."""
    for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    return lambda *arguments: CliRunner().invoke(app, ["task", *arguments])


def submitted(client: Client, name: str, *, backlog: str = "b", **fields: int) -> str:
    payload = {"title": f"fix {name}", "max_retries": 0, **fields}
    return Tasks(client).submit(payload, backlog=backlog, name=name).id


def fails(client: Client, task_id: str, **report: Any) -> None:
    """Claim a task and report that it failed."""
    claim = Tasks(client).claim(task_id, owner="ann")
    Tasks(client).report(claim.key, claim.token, "started")
    Tasks(client).report(claim.key, claim.token, "failed", report)


def given_up(client: Client, name: str, *, backlog: str = "b") -> str:
    task_id = submitted(client, name, backlog=backlog)
    fails(client, task_id, reason="no luck")
    return task_id


def test_a_failed_task_shows_how_each_try_failed_and_how_to_replay_it(
    client: Client,
) -> None:
    task_id = submitted(client, "one", max_retries=1)
    fails(
        client,
        task_id,
        reason="the context was full",
        why="prompt_too_long",
        code="stopped",
    )
    client.fire(task_id, "retried")
    fails(client, task_id, reason="it timed out", abort="timeout", paths=["src/a.py"])

    failed_task, *more = FailedTasks(client).find("b")

    assert not more
    assert (failed_task.id, failed_task.title, failed_task.since) == (
        task_id,
        "fix one",
        client.show(task_id).since_ms / 1_000,
    )
    assert (failed_task.reason, failed_task.paths) == ("it timed out", ("src/a.py",))
    assert (failed_task.code, failed_task.transition_reason, failed_task.abort_reason) == (
        "",
        "timed_out",
        "timeout",
    )
    assert (failed_task.retries, failed_task.max_retries, failed_task.crashes) == (1, 1, 0)
    first, second = failed_task.tries
    assert (first.number, first.trigger, first.actor) == (1, "failed", "agent")
    says = "this try did not succeed"
    assert (first.reason, first.code) == (f"{says}: the context was full", "stopped")
    assert (first.transition_reason, first.abort_reason) == ("prompt_too_long", None)
    assert (second.number, second.abort_reason) == (2, "timeout")
    assert second.reason == f"{says}: it timed out"
    assert first.timestamp < second.timestamp == failed_task.since
    assert failed_task.replay == f"interlock task replay {task_id}"
    assert json.loads(json.dumps(failed_task.as_data()))["tries"][1]["to_status"] == "failed"


def machine_without_grace() -> Machine:
    """Return the task's machine, where a lost agent is orphaned as soon as its lease lapses."""
    machine = MACHINES["task"]
    agent = replace(machine.effects["agent"], grace_ms=1)
    stages = [
        replace(stage, effect=agent)
        if isinstance(stage, Active) and stage.state == "claimed"
        else stage
        for stage in machine.stages
    ]
    return replace(machine, stages=tuple(stages))


def test_a_lost_agent_is_among_the_tries_and_failed_in_flower(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, machine = (
        settings_for(server.url, prefix, INTERLOCK_LEASE_S="0.3"),
        machine_without_grace(),
    )
    client = Client(settings, machines={**MACHINES, "task": machine})
    runner = Runner(client.dispatch, Resources(settings))
    task_id = submitted(client, "one", max_lost=1)
    claim = Tasks(client).claim(task_id, owner="ann")
    Tasks(client).report(claim.key, claim.token, "started")

    def lost() -> bool:
        orphans.run(sweeping(client.dispatch), partition_of(task_id))
        return client.show(task_id).state == "orphaned"

    def recovered() -> bool:
        (owed,) = (one for one in client.show(task_id).entries if one.name == "recovery")
        runner.perform(machine, "recovery", recovery, owed.key(task_id))
        return client.show(task_id).state == "open"

    # The sweep is the task of a worker.
    monkeypatch.setattr(task_events, "this_worker", lambda: WORKER)
    with received(server, client.settings.namespace) as events:
        until(lost, what="the lease lapses")
    assert [(event["type"], event["uuid"]) for event in events] == [("task-failed", claim.key)]
    until(recovered, what="the recovery has ended")
    fails(client, task_id, reason="no luck")

    (failed_task,) = FailedTasks(client).find()

    assert failed_task.crashes == 1
    assert [(one.number, one.trigger, one.actor) for one in failed_task.tries] == [
        (1, "orphaned", "orphans"),
        (1, "requeued", "recovery"),
        (2, "failed", "agent"),
    ]
    assert failed_task.tries[1].transition_reason == "orphan_recovered"


def test_tasks_that_are_tried_again_and_those_of_other_backlogs_are_not_listed(
    client: Client,
) -> None:
    older, newer = given_up(client, "older"), given_up(client, "newer")
    fails(client, submitted(client, "again", max_retries=3), reason="no")
    submitted(client, "waiting")
    other = given_up(client, "other", backlog="c")

    assert [failed_task.id for failed_task in FailedTasks(client).find("b")] == [
        older,
        newer,
    ]
    assert {failed_task.id for failed_task in FailedTasks(client).find()} == {
        older,
        newer,
        other,
    }
    assert FailedTasks(client).find("nobody") == []


def test_a_replay_opens_failed_tasks_and_says_why_it_opened_no_other(
    client: Client,
) -> None:
    task_id, again = (
        given_up(client, "one"),
        submitted(client, "again", max_retries=3),
    )
    fails(client, again, reason="no")
    waiting = submitted(client, "waiting")
    bring(client, "mail", "awaiting_inference")

    names = [task_id, again, waiting, "mail", "b/nobody", task_id]
    done = FailedTasks(client).replay(names, reason="the network is back")

    assert [(one.id, one.replayed) for one in done] == [
        (task_id, True),
        *((name, False) for name in names[1:]),
    ]
    why = [one.reason for one in done[1:]]
    assert why[0].startswith("it will be tried again by itself")
    assert why[1:3] == [
        "it is open, not failed",
        "it is of the machine thread, not a task",
    ]
    assert "b/nobody" in why[3]
    assert why[4] == "it is open, not failed"
    record = client.show(task_id)
    assert (record.state, record.data["retries"], record.data["given_up"]) == ("open", 1, False)
    last = FailedTasks(client).views.history(task_id)[-1]
    assert (last.cause.actor, last.cause.reason) == ("tester", "the network is back")  # type: ignore[union-attr]


def test_every_failed_task_of_a_backlog_is_replayed_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE", 2)
    names = [given_up(client, f"n{n}") for n in range(7)]
    other = given_up(client, "other", backlog="c")

    done = FailedTasks(client).replay_all("b")

    assert [one.id for one in done if one.replayed] == names
    assert FailedTasks(client).replay_all("b") == []
    assert client.show(other).state == "failed"


def test_a_failure_that_came_after_the_one_seen_is_not_replayed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = given_up(client, "one")
    seen = client.show(task_id)
    client.fire(task_id, "retried")
    fails(client, task_id, reason="another reason")
    monkeypatch.setattr(client, "show", lambda _: seen)

    (done,) = FailedTasks(client).replay([task_id])

    assert not done.replayed
    monkeypatch.undo()
    assert client.show(task_id).state == "failed"


def test_the_command_line_lists_and_replays(client: Client, run: Run) -> None:
    task_id = given_up(client, "one")

    listed = json.loads(run("list-failed", "b", "--json").stdout)
    drawn = run("list-failed").stdout
    replayed = run("replay", task_id, "b/nobody", "--as", "ann", "--json")
    again = run("replay", "--all", "b")
    refused = run("replay", task_id)

    assert [(one["id"], one["reason"]) for one in listed] == [(task_id, "no luck")]
    for arguments in ("fix one", "no luck", "claim 1  failed by agent", f"task replay {task_id}"):
        assert arguments in drawn
    assert replayed.exit_code == 0
    rows = {row["id"]: row["replayed"] for row in json.loads(replayed.stdout)}
    assert rows == {task_id: True, "b/nobody": False}
    assert (again.exit_code, "nothing to replay" in again.stdout) == (1, True)
    assert (refused.exit_code, "refused" in refused.stdout) == (1, True)
    assert "it is open, not failed" in refused.stdout
    assert "No task has failed." in run("list-failed", "b").stdout


@pytest.mark.parametrize(
    "command", ["retry", "cancel", "unblock", "requeue", "approve", "diff", "logs", "tail"]
)
def test_a_command_about_a_task_says_what_another_record_is(
    client: Client, run: Run, command: str
) -> None:
    bring(client, "mail", "awaiting_confirmation")

    refused = run(command, "mail")

    assert "mail is a thread, not a task" in refused.output
    assert client.show("mail").state == "awaiting_confirmation"


@pytest.mark.parametrize("command", [("list-failed",), ("replay", "--all"), ("fail-stage",)])
def test_a_backlog_that_does_not_exist_is_refused_with_those_that_do(
    client: Client, run: Run, command: tuple[str, ...]
) -> None:
    submitted(client, "one")

    assert "there is no backlog 'nosuch'; there are: b" in run(*command, "nosuch").output


@pytest.mark.parametrize("arguments", [(), ("b/one", "--all", "b")])
def test_either_tasks_or_a_backlog_is_replayed(run: Run, arguments: tuple[str, ...]) -> None:
    done = run("replay", *arguments, "--json")

    assert (done.exit_code, json.loads(done.stdout)["error"]) == (1, "UsageError")
