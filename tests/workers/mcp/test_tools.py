"""Agents read records by tools, and act where their token or their person lets them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from mcp_types import Tool as McpTool
from pydantic_ai import Agent
from pydantic_ai import Tool as AgentTool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from typer.testing import CliRunner

from interlock.kernel.event import Event, Note
from interlock.systems.tasks.client import Tasks
from interlock.workers.api.app import create_app
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.mcp.cli import build_server
from interlock.workers.mcp.tool_call import Verbs
from interlock.workers.producer_message import send_message
from interlock.workers.remote.client import HttpClient
from tests.damage import chances, damaged
from tests.systems.threads.threads import bring, client_of, thread_payload
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served

READS = {
    "list_records",
    "show_record",
    "why_not",
    "read_history",
    "list_cards",
    "show_cards",
    "read_mail",
    "count_records",
}
WRITES = {"submit", "cancel", "send_mail", "report"}
Act = Callable[[McpClient], Any]


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def address(interlock: Client) -> Iterator[str]:
    """Return the address of a served API."""
    with served(interlock) as url:
        yield f"{url}/mcp"


def token(interlock: Client, *roles: str, machines: tuple[str, ...] = ()) -> dict[str, str]:
    return {"Authorization": f"Bearer {new_token(interlock, *roles, machines=machines)}"}


@asynccontextmanager
async def over_http(address: str, headers: dict[str, str]) -> AsyncIterator[McpClient]:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=180) as http,
        McpClient(streamable_http_client(address, http_client=http), cache=None) as client,
    ):
        yield client


def with_mail(interlock: Client) -> None:
    """Start a long-lived agent, and send it a message."""
    interlock.submit({"repo": "/nowhere", "command": "true"}, id="owl/1", machine="loop")
    send_message(interlock, "send", {"to": "owl", "text": "wake up"}, "m")


async def call(client: McpClient, tool: str, **arguments: Any) -> Any:
    """Call a tool; return its value, or the sentence of its refusal."""
    done = await client.call_tool(tool, arguments)
    if done.is_error:
        (sentence,) = done.content
        assert isinstance(sentence, TextContent)
        return sentence.text
    found = done.structured_content
    return found["result"] if found is not None and set(found) == {"result"} else found


def test_a_viewer_reads_everything_and_changes_nothing(interlock: Client, address: str) -> None:
    record = bring(interlock, "one", "awaiting_confirmation", tags=["home", "eu"])
    with_mail(interlock)

    async def read() -> None:
        async with over_http(address, token(interlock, "viewer")) as client:
            named = {tool.name for tool in (await client.list_tools()).tools}
            assert named == READS
            listed = await call(client, "list_records", text="paper")
            assert [row["id"] for row in listed["records"]] == ["one"]
            shown = await call(client, "show_record", record_id="one")
            assert shown["cards"][0]["proposal"] == record.proposal
            (card,) = (await call(client, "list_cards", tag="eu,home"))["cards"]
            assert card["proposal"] == record.proposal
            assert await call(client, "list_cards", tag="us") == {"cards": [], "next": ""}
            for wanted in ({"in_state_s": 600}, {"id_prefix": "two"}, {"effect": "execution"}):
                assert (await call(client, "list_records", **wanted))["records"] == []
                counted = await call(client, "count_records", machine="thread", **wanted)
                assert counted["machines"] == {"thread": {}}
            (mail,) = await call(client, "read_mail", record_id="owl/1")
            assert (mail["fields"]["sender"], mail["fields"]["text"]) == ("tester", "wake up")
            why = await call(client, "why_not", record_id="one")
            assert any(each["target"] == "dismissed" for each in why)
            assert (await call(client, "count_records", machine="thread"))["machines"]["thread"]
            history = await call(client, "read_history", record_id="one")
            assert not any("token" in line.get("detail", {}) for line in history)
            said = await call(client, "cancel", record_id="one", reason="x")
            assert "ann has the role viewer and may not create and cancel records" in said
            assert "no record 'nobody'" in await call(client, "show_record", record_id="nobody")

    asyncio.run(read())
    assert interlock.show("one").version == record.version


def test_an_agent_submits_and_decides_with_the_token_of_a_person(
    interlock: Client, address: str
) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")

    async def act() -> None:
        async with over_http(address, token(interlock, "producer", "approver")) as client:
            new = {"machine": "thread", "record_id": "two", "payload": thread_payload()}
            assert (await call(client, "submit", **new))["replayed"] is False
            assert (await call(client, "submit", **new))["replayed"] is True
            refused = await call(
                client, "submit", **(new | {"machine": "turn", "record_id": "b/two"})
            )
            assert "only Interlock creates a turn" in refused
            said = await call(client, "send_mail", to="nobody", text="hi", mail_id="m1")
            assert "was never started" in said
            decided = await call(
                client, "decide", record_id="one", choice="approve", proposal=record.proposal
            )
            assert decided["state"] == "executing"

    asyncio.run(act())
    lines = [line for line in interlock.history("one") if isinstance(line, Event)]
    assert (lines[-1].cause.actor, lines[-1].cause.codes[-1]) == ("ann", "as:approver")


def test_an_agent_finds_a_card_corrects_its_mistake_and_answers(
    interlock: Client, address: str
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    answers: list[Any] = []

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Play a model that reads the cards, answers a wrong question, and then the right one."""
        answers.extend(one.content for one in messages[-1].parts if one.part_kind == "tool-return")
        if not answers:
            return ModelResponse(parts=[ToolCallPart("list_cards", {})])
        card = answers[0]["cards"][0]
        proposals = ["one:1", card["proposal"]]
        if len(answers) <= len(proposals):
            chosen = {"choice": "approve", "proposal": proposals[len(answers) - 1]}
            return ModelResponse(
                parts=[ToolCallPart("decide", {"record_id": card["record_id"], **chosen})]
            )
        return ModelResponse(parts=[TextPart("It is approved.")])

    async def act() -> str:
        async with over_http(address, token(interlock, "approver")) as client:

            def offered(tool: McpTool) -> AgentTool:
                async def used(**arguments: Any) -> Any:
                    return await call(client, tool.name, **arguments)

                about = tool.description or ""
                return AgentTool.from_schema(used, tool.name, about, tool.input_schema)

            tools = [offered(tool) for tool in (await client.list_tools()).tools]
            return (await Agent(FunctionModel(model), tools=tools).run("Who needs me?")).output

    assert asyncio.run(act()) == "It is approved."
    assert "the decision was about proposal one:1" in answers[1]
    assert answers[2]["state"] == interlock.show("one").state == "executing"


def test_a_token_of_some_machines_reaches_no_other_record(interlock: Client, address: str) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    async def read() -> None:
        async with over_http(address, token(interlock, "operator", machines=("task",))) as client:
            assert (await call(client, "list_records"))["records"] == []
            for tool in ("show_record", "why_not", "read_history", "read_mail"):
                assert "no record 'one'" in await call(client, tool, record_id="one")
            said = await call(client, "send_mail", to="x", text="x", mail_id="m")
            assert "limited to other machines sends no message 'send'" in said

    asyncio.run(read())


def test_an_agent_reports_on_the_task_that_it_has_claimed(interlock: Client, address: str) -> None:
    tasks = Tasks(interlock)
    tasks.submit({"title": "fix it", "text": ""}, backlog="b", name="one")
    claim = tasks.claim("b/one", owner="helper")
    proof = {"key": claim.key, "token": claim.token}

    async def work() -> None:
        may = token(interlock, "producer", machines=("task",))
        async with over_http(address, may) as client:

            async def report(kind: str, number: int, **fields: Any) -> Any:
                body = {"type": kind, "report_id": f"r{number}", "fields": fields}
                return await call(client, "report", **proof, **body)

            assert (await report("ready", 1))["state"] == "in_progress"
            for _ in range(2):
                assert (await report("progress", 2, message="half", percent=50))["order"] == "go"
                await report("usage", 3, tokens_in=7, tokens_out=2, cost_micro=40)
            assert "percent" in await report("progress", 4, message="all", percent=101)
            assert "needs the trust level probationary" in await report(
                "blocked", 5, text="the key of the door"
            )
            assert (await report("heartbeat", 6))["order"] == "go"
            for _ in range(2):
                done = await report("verify_requested", 7, summary="fixed")
                assert done["state"] != "in_progress"
            assert "its work has moved on" in await report("progress", 8, message="more")
        async with over_http(address, token(interlock, "viewer")) as client:
            said = await call(client, "report", **proof, type="heartbeat", report_id="r9")
            assert "may not create and cancel records" in said
        async with over_http(address, token(interlock, "producer", machines=("run",))) as client:
            said = await call(client, "report", **proof, type="heartbeat", report_id="r9")
            assert "sends no message 'report'" in said

    asyncio.run(work())
    notes = [line for line in interlock.history("b/one") if isinstance(line, Note)]
    assert [note.detail for note in notes if note.kind == "progress"] == [
        {"message": "half", "percent": 50}
    ]
    counters = interlock.show("b/one").counters
    assert {name: counters[name] for name in ("tokens_in", "tokens_out", "spent")} == {
        "tokens_in": 7,
        "tokens_out": 2,
        "spent": 40,
    }


def test_nobody_is_served_without_a_token(address: str) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    refused = httpx2.post(address, json=asked, timeout=180)
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert httpx2.get(address, timeout=180).status_code == 405, "no stream is held open"
    wrong = {"Authorization": "bearer il_x"}
    assert httpx2.post(address, json={}, headers=wrong, timeout=180).status_code == 401


RIGHT: dict[str, dict[str, Any]] = {
    "list_records": {"text": "paper", "machine": "thread", "in_state_s": 1, "limit": 2},
    "read_history": {"record_id": "one", "limit": 2},
    "submit": {"machine": "thread", "record_id": "two", "payload": thread_payload()},
    "send_mail": {"to": "ann", "text": "x", "mail_id": "m"},
    "decide": {"record_id": "one", "choice": "reject", "answer": {}, "proposal": "one:8"},
}


@pytest.fixture
def post(interlock: Client) -> Iterator[Callable[[Any], httpx2.Response]]:
    """Return a function that sends a message as it is to the tools of a served API."""
    bring(interlock, "one", "awaiting_confirmation")
    headers = token(interlock, "operator") | {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    with TestClient(create_app(interlock), raise_server_exceptions=False) as http:
        yield lambda sent: http.post("/mcp", content=json.dumps(sent), headers=headers)


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tool=st.sampled_from(list(RIGHT)), chance=chances)
def test_no_message_that_is_nearly_right_is_a_fault_of_the_server(
    post: Callable[[Any], httpx2.Response], tool: str, chance: Random
) -> None:
    called = {"name": tool, "arguments": RIGHT[tool]}
    whole = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
    answer = post(damaged(whole, chance))
    assert answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text


def test_who_is_not_asked_for_a_token_only_reads(server: EmbeddedServer, prefix: str) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_confirmation")

    async def act(url: str) -> None:
        async with over_http(f"{url}/mcp", {}) as client:
            assert (await call(client, "list_records"))["records"][0]["id"] == "one"
            assert {tool.name for tool in (await client.list_tools()).tools} == READS
            said = await call(client, "cancel", record_id="one", reason="x")
            assert "who shows no access token may not" in said

    with served(interlock) as url:
        asyncio.run(act(url))


def test_an_api_that_is_reached_under_a_claimed_name_decides_nothing(
    server: EmbeddedServer, prefix: str
) -> None:
    open_to_all = client_of(server.url, prefix, auth="none")
    with_mail(open_to_all)

    async def act(reached: HttpClient) -> None:
        async with McpClient(build_server(reached, write=True), cache=None) as client:
            named = {tool.name for tool in (await client.list_tools()).tools}
            assert named == READS | WRITES
            (mail,) = await call(client, "read_mail", record_id="owl/1")
            assert mail["fields"]["text"] == "wake up"

    with served(open_to_all) as url, httpx2.Client(timeout=180) as http:
        asyncio.run(act(HttpClient(url, http=http)))


def test_without_write_no_tool_changes_a_record(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    async def act() -> None:
        async with McpClient(build_server(interlock, write=False), cache=None) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READS
            assert (await call(client, "show_record", record_id="one"))["id"] == "one"
            assert "cancel" in await call(client, "cancel", record_id="one", reason="x")

    asyncio.run(act())
    assert interlock.show("one").state == "awaiting_confirmation"


@pytest.mark.parametrize(("options", "write"), [([], False), (["--write"], True)])
def test_the_command_offers_to_change_records_of_the_api_only_with_write(
    monkeypatch: pytest.MonkeyPatch, options: list[str], *, write: bool
) -> None:
    served_on: list[str] = []
    built: list[tuple[type, bool]] = []

    def build(connected: Verbs, *, write: bool, run: bool) -> SimpleNamespace:
        assert not run
        built.append((type(connected), write))
        return SimpleNamespace(run=served_on.append)

    monkeypatch.setenv("INTERLOCK_API_URL", "http://interlock.example")
    monkeypatch.setattr("interlock.workers.mcp.cli.build_server", build)
    answered = CliRunner().invoke(app, ["mcp", *options])

    assert answered.exit_code == 0, answered.output
    assert (built, served_on) == ([(HttpClient, write)], ["stdio"])


def test_a_process_serves_its_stdin_and_decides_nothing(
    interlock: Client, server: EmbeddedServer, prefix: str
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    settings = {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}
    environment = os.environ | {f"INTERLOCK_{name}": value for name, value in settings.items()}
    words = ["-m", "interlock", "mcp", "--write"]

    async def act() -> None:
        started = StdioServerParameters(command=sys.executable, args=words, env=dict(environment))
        async with McpClient(stdio_client(started), cache=None) as client:
            named = {tool.name for tool in (await client.list_tools()).tools}
            assert named == READS | WRITES
            assert (await call(client, "show_record", record_id="one"))["id"] == "one"
            done = await call(client, "cancel", record_id="one", reason="x")
            assert json.dumps(done) == '{"id": "one", "state": "dismissed"}'

    asyncio.run(act())


@pytest.mark.parametrize("run", [False, True])
def test_a_submission_names_commands_only_where_the_server_was_started_so(
    interlock: Client, *, run: bool
) -> None:
    job = {"phases": [{"worker": {"command": "id"}}], "folder": "/f", "host": "elsewhere"}

    async def act() -> Any:
        async with McpClient(build_server(interlock, write=True, run=run), cache=None) as client:
            return await call(client, "submit", machine="job", record_id="g/one", payload=job)

    assert ("was started without --run" in asyncio.run(act())) is not run


def test_fifty_cards_fit_the_window_of_a_model(interlock: Client) -> None:
    title = "Buy paper for the printer on the second floor, " * 8
    for number in range(50):
        name = f"a-thread-with-a-name-{number}"
        bring(interlock, name, "awaiting_confirmation", title=title)

    async def act() -> Any:
        async with McpClient(build_server(interlock, write=False), cache=None) as client:
            whole = await call(client, "show_cards", record_id="a-thread-with-a-name-7")
            return await client.call_tool("list_cards", {}), whole

    listed, whole = asyncio.run(act())
    cards = listed.structured_content["cards"]
    assert len(cards) == 50
    assert sum(len(part.text) for part in listed.content) < 20_000
    (card,) = [each for each in cards if each["record_id"] == "a-thread-with-a-name-7"]
    assert card["question"].startswith(whole[0]["question"][:100])
    assert (card["proposal"], card["choices"].split(", ")) == (
        whole[0]["proposal"],
        [each["name"] for each in whole[0]["affordances"]],
    )
    assert all(each["schema"] for each in whole[0]["affordances"])


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("list_records", {"bogus": 1}, "list_records has no argument 'bogus'; its arguments: mac"),
        ("list_records", {"limit": "many"}, "list_records: limit: Input should be a valid integer"),
        ("show_record", {}, "show_record: record_id: this field is missing, add it"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(
    interlock: Client, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    async def act() -> Any:
        async with McpClient(build_server(interlock, write=False), cache=None) as client:
            offered = (await client.list_tools()).tools
            return await call(client, tool, **arguments), offered

    said, offered = asyncio.run(act())
    assert said.startswith(sentence)
    assert "pydantic" not in said
    assert not any(each.input_schema["additionalProperties"] for each in offered)
