"""A task goes to another agent, or to one that a person names, and says whom it waits for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from interlock.kernel.errors import CallError, GuardRefusedError
from interlock.kernel.store.leases import Lease
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.claims import claim
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.identities import ensure_identity
from interlock.systems.tasks.waits import Waits
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of

COMMAND = {"repo": "/nowhere", "agent": "make", "agent_name": "maker"}


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def tasks(client: Client) -> Tasks:
    return Tasks(client)


@pytest.fixture
def shell(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return a function that runs a command over the store of the test."""
    for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def submitted(client: Client, name: str = "one", **more: Any) -> str:
    return str(client.submit({"title": name, **more}, id=f"b/{name}", machine="task").id)


def starved(tasks: Tasks, task_id: str) -> str:
    task = tasks.client.show(task_id)
    return Waits(tasks.records, [task]).why_starved(task)


def why(tasks: Tasks, task_id: str) -> str:
    task = tasks.client.show(task_id)
    return Waits(tasks.records, [task]).why(task)


def test_a_task_that_is_kept_for_an_agent_is_offered_to_no_other(
    client: Client, tasks: Tasks, shell: Callable[..., Result]
) -> None:
    submitted(client)

    assert shell("task", "requeue", "b/one", "--to", "bob").exit_code == 0
    assert tasks.claim_next("b", owner="ann") is None
    output = shell("show", "b/one").output
    assert re.search(r"\n *agent +bob", output)
    shown = " ".join(output.split())
    assert "it is kept for the agent bob; `interlock task requeue b/one` offers it to any" in shown
    # Nobody of that name has ever claimed here: `interlock top` shows the task as starved.
    assert "that agent has never claimed a task of the role any" in starved(tasks, "b/one")
    found = tasks.claim_next("b", owner="bob")
    assert found is not None
    assert found.task == "b/one"


def test_whom_a_task_waits_for_is_said_and_can_be_lifted(client: Client, tasks: Tasks) -> None:
    tasks.claim(submitted(client, "other"), owner="bob")
    tasks.requeue(submitted(client), to="bob")
    assert starved(tasks, "b/one") == ""
    kept = "it is kept for the agent bob; `interlock task requeue b/one` offers it to any"
    assert why(tasks, "b/one") == kept
    bob = client.show("b/other").data["claim"]["identity"]
    Agents(client).retire(bob)
    assert starved(tasks, "b/one").endswith("that agent was taken out of service by a person")

    tasks.requeue("b/one")

    assert (starved(tasks, "b/one"), why(tasks, "b/one")) == ("", "")
    assert tasks.claim("b/one", owner="ann").task == "b/one"


def test_a_task_goes_to_another_agent_than_the_one_that_it_was_taken_from(
    client: Client, tasks: Tasks
) -> None:
    first = tasks.claim(submitted(client), owner="ann")
    tasks.report(first.key, first.token, "started")

    tasks.requeue("b/one", not_same=True, reason="ann is stuck")

    with pytest.raises(GuardRefusedError, match="kept for another agent than ann"):
        tasks.claim("b/one", owner="ann")
    assert tasks.claim_next("b", owner="ann") is None
    assert tasks.heartbeat(first.key, first.token) == "stop"


def test_a_session_does_not_get_back_the_task_that_was_taken_from_it(
    client: Client, tasks: Tasks
) -> None:
    submitted(client, **COMMAND)
    lease = claim(client.records, client.show("b/one"), agent="b/agent~1")
    assert isinstance(lease, Lease)
    tasks.requeue("b/one", not_same=True)
    client.dispatch.leases.settle(lease, client.dispatch.render)

    assert claim(client.records, client.show("b/one"), agent="b/agent~1") is None
    assert claim(client.records, client.show("b/one"), agent="b/agent~2") is not None


def test_a_claim_that_is_refused_leaves_no_identity(client: Client, tasks: Tasks) -> None:
    submitted(client)
    submitted(client, "local", depends_on=["one"], **COMMAND)
    tasks.requeue("b/one", to="bob")

    assert claim(client.records, client.show("b/local"), agent="b/agent~1") is None
    with pytest.raises(GuardRefusedError, match="kept for the agent bob"):
        tasks.claim("b/one", owner="ann")
    assert Agents(client).identities("b") == []


def test_a_task_with_a_command_gets_that_of_a_known_agent_or_a_new_one(
    client: Client, tasks: Tasks
) -> None:
    submitted(client, **COMMAND)
    with pytest.raises(CallError, match="known in its backlog as fixer, only: none; give --agent"):
        tasks.requeue("b/one", to="fixer")
    old = ensure_identity(client.records, "b", name="fixer", role="any", command="fix")

    data = tasks.requeue("b/one", to="fixer").data
    assert (data["agent"], data["agent_name"], data.get("kept_for")) == ("fix", "fixer", None)
    data = tasks.requeue("b/one", agent="mend").data
    assert (data["agent"], data["agent_name"]) == ("mend", "fixer")
    ensure_identity(client.records, "b", name="fixer", role="any", command="fix better")
    with pytest.raises(CallError, match="several commands are known as fixer"):
        tasks.requeue("b/one", to="fixer")

    client.fire(old, "retired", {"reason": "it is replaced"})
    assert tasks.requeue("b/one", to="fixer").data["agent"] == "fix better"


def test_a_command_that_cannot_be_started_is_refused_before_the_task_is_taken_away(
    client: Client, shell: Callable[..., Result], tmp_path: Path
) -> None:
    submitted(client, **COMMAND | {"repo": str(tmp_path)})
    before = client.show("b/one")

    refused = shell("task", "requeue", "b/one", "--agent", "no-such-agent --fix")

    assert refused.exit_code == 1
    assert "there is no command no-such-agent on this computer" in refused.output
    assert client.show("b/one") == before
    assert shell("task", "requeue", "b/one", "--agent", "true --fix").exit_code == 0


def test_the_setting_limits_the_subtasks_of_tasks_that_name_no_limit(
    server: EmbeddedServer, prefix: str
) -> None:
    tasks = Tasks(client_of(server.url, prefix, subtasks_s=600))
    for name, given in (("set", {"subtasks_s": 60}), ("unset", {})):
        tasks.submit({"title": name, **given}, backlog="b", name=name)

    limits = [tasks.client.show(f"b/{name}").data["subtasks_s"] for name in ("set", "unset")]
    assert limits == [60, 600]
