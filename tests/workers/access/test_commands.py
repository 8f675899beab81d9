"""Only who may run commands names one: by the API, by the tools of MCP, and by plain messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.errors import ForbiddenError
from interlock.kernel.machines import LISTED
from interlock.systems.tasks.client import Tasks
from interlock.workers.access.roles import Act, Caller, Role
from interlock.workers.access.tokens import make_token
from interlock.workers.api.access import acting
from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.engine.submission import check_commands
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.producer_message import accept
from tests.systems.threads.threads import client_of, thread_payload

WORK = {"worker": {"command": "id"}}
TASK = {"title": "mend it", "repo": "/elsewhere/repository", "agent": "id"}
SIGNAL = {"type": "test_passes", "value": "id"}
CAPABLE = {"worker": {"capability": "add_task", "parameters": {"command": "no command of ours"}}}
# What names a command, by machine: each way of each machine that takes one.
COMMANDS: list[tuple[str, str, dict[str, Any]]] = [
    ("task", "b/one", TASK),
    ("task", "b/one", {"title": "mend it", "stop_hooks": ["id"]}),
    ("task", "b/one", {"title": "mend it", "signals": [SIGNAL]}),
    ("job", "g/one", {"phases": [{"worker": {"capability": "add_task"}}, WORK]}),
    ("job", "g/one", {"phases": [CAPABLE], "review": {"command": "id"}}),
    ("loop", "owl/1", {"repo": "/elsewhere/repository", "command": "id", "host": "elsewhere"}),
    ("run", "tonight", {"plan": {"plan": "p", "codons": []}, "folder": "/f", "host": "elsewhere"}),
]
# What a producer may submit as ever.
PLAIN: list[tuple[str, str, dict[str, Any]]] = [
    ("thread", "one", thread_payload()),
    ("graph", "g", {"description": "tidy"}),
    ("task", "b/one", {"title": "by an agent that you run yourself"}),
]
# What a person's answer or trigger may name a command with.
FIRED: list[tuple[str, dict[str, Any]]] = [
    ("job", {"worker": {"command": "id"}}),
    ("job", {"review": {"command": "id"}, "reason": "look again"}),
    ("task", {"agent": "id", "agent_name": "another"}),
    ("task", {"subtasks": [{"title": "a"}, {"title": "b", "signals": [SIGNAL]}]}),
]


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def http(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_app(interlock), base_url="http://interlock.example") as opened:
        yield opened


def bearer(interlock: Client, role: str) -> dict[str, str]:
    text, _ = make_token(
        interlock.dispatch.access_tokens,
        "shop",
        roles=[role],
        machines=(),
        known_machines=interlock.machines,
        days=1,
        made_by="root",
    )
    return {"Authorization": f"Bearer {text}"}


def create(http: TestClient, machine: str, new_id: str, payload: Any, **headers: str) -> Any:
    body = {"machine": machine, "payload": payload}
    return http.post("/v1/records", json=body, headers=headers | {"Idempotency-Key": new_id})


@pytest.mark.parametrize(("machine", "new_id", "payload"), COMMANDS)
def test_a_producer_names_no_command(
    http: TestClient, interlock: Client, machine: str, new_id: str, payload: dict[str, Any]
) -> None:
    producer = bearer(interlock, "producer")

    refused = create(http, machine, new_id, payload, **producer)
    batch = [{"id": new_id, "machine": machine, "payload": payload}]
    (item,) = http.post("/v1/records:batch", json={"records": batch}, headers=producer).json()[
        "items"
    ]

    assert refused.status_code == 403
    assert f"of a {machine} names a command: shop has the role producer" in refused.text
    assert refused.json()["detail"].endswith("these may: runner, operator, admin")
    assert item["problem"]["status"] == 403
    assert not interlock.list()
    answered = create(http, machine, new_id, payload, **bearer(interlock, "runner"))
    assert answered.status_code != 403, "it may be wrong otherwise, but a runner may name it"


@pytest.mark.parametrize(("machine", "new_id", "payload"), PLAIN)
def test_a_producer_submits_what_names_no_command(
    http: TestClient, interlock: Client, machine: str, new_id: str, payload: dict[str, Any]
) -> None:
    made = create(http, machine, new_id, payload, **bearer(interlock, "producer"))

    assert made.status_code == 201, made.text


@pytest.mark.parametrize(("machine", "fields"), FIRED)
def test_an_answer_that_names_a_command_takes_the_role_as_well(
    interlock: Client, machine: str, fields: dict[str, Any]
) -> None:
    Tasks(interlock).submit({"title": "by hand"}, backlog="b", name="one")
    record = interlock.show("b/one")
    answers = {
        roles: acting(create_app(interlock).state, Caller("ann", roles), Act.DECIDE).answers(record)
        for roles in ((Role.APPROVER,), (Role.APPROVER, Role.RUNNER))
    }
    refused, allowed = answers.values()

    with pytest.raises(ForbiddenError, match="ann has the role approver and may not name commands"):
        check_commands(LISTED[machine], fields, refused.run_refusal)
    check_commands(LISTED[machine], fields, allowed.run_refusal)
    if machine == "task":
        with pytest.raises(ForbiddenError):
            refused.signed("requeued", fields, "ann")


def test_parameters_of_a_capability_are_no_commands() -> None:
    assert not LISTED["job"].placement.commands_in({"phases": [CAPABLE], "review": None})
    assert not LISTED["job"].placement.commands_in({"phases": "id", "review": ["command"]})


def test_plain_messages_name_commands_only_where_the_deployment_says_so(
    server: EmbeddedServer, prefix: str
) -> None:
    message = {"id": "b/one", "machine": "task", "payload": TASK}
    fired = {"id": "f", "record": "b/two", "trigger": "requeued", "payload": {"agent": "id"}}
    careful = client_of(server.url, prefix, intake_accepts=["submit", "fire"])
    Tasks(careful).submit({"title": "by hand"}, backlog="b", name="two")

    for verb, request in (("submit", message), ("fire", fired)):
        with pytest.raises(ForbiddenError, match="ACCEPTS=submit,fire"):
            accept(careful, verb, request)
    assert not careful.run_refusal, "the refusal is that of messages, not of the client itself"

    for accepts in ([], ["submit", "commands"]):
        open_to_all = client_of(server.url, prefix, intake_accepts=accepts)
        assert accept(open_to_all, "submit", message)["record"] == "b/one"
