"""Tools of real MCP servers, one of the official library and several that misbehave."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities import mcp
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.extension import ExtensionError, ServerTable
from interlock.workers.gateways.capabilities.registry import (
    InvalidParametersError,
    Registry,
    load_registry,
)
from interlock.workers.gateways.capabilities.result import Failed, Result, Succeeded
from tests.processes import is_alive
from tests.waiting import until

EXAMPLES = Path(__file__).parents[4] / "examples"

# Speaks just enough of the protocol by hand to be wrong in every way that a test asks for.
SCRIPT = """
import json, os, subprocess, sys, time

TOOLS = [
    {
        "name": "act",
        "description": "Act  in a\\n way.",
        "inputSchema": {
            "type": "object",
            "properties": {"way": {"type": "string"}, "request_id": {"type": "string"}},
            "required": ["way", "request_id"],
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False},
    },
    {"name": "silent", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "unlisted", "description": "Not offered.", "inputSchema": {"type": "object"}},
]


def answer(id, **what):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, **what}) + "\\n")
    sys.stdout.flush()


def act(id, arguments):
    way = arguments["way"]
    if way == "grandchild":
        child = subprocess.Popen(["sleep", "300"])
        with open("pids", "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        time.sleep(300)
    elif way == "crash":
        sys.exit("out of memory")
    elif way == "long line":
        while True:
            sys.stdout.write("x" * 1_000_000)
    elif way == "noise":
        print("debugging")
        answer(id, result={"content": [{"type": "text", "text": "quiet"}]})
    elif way == "error":
        answer(id, result={"content": [{"type": "text", "text": "no\\nway"}], "isError": True})
    elif way == "refuse":
        answer(id, error={"code": -32000, "message": "not today"})
    elif way == "nonsense":
        answer(id, result={"content": 7})
    elif way == "picture":
        content = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
        answer(id, result={"content": content + [{"type": "text", "text": "see above"}]})
    elif way == "flood":
        for _ in range(200_000):
            sys.stderr.write("x" * 100 + "\\n")
        answer(id, result={"content": [{"type": "text", "text": "done"}]})
    elif way == "environment":
        answer(id, result={"content": [], "structuredContent": dict(os.environ)})
    else:
        answer(id, result={"content": [], "structuredContent": arguments})


def main(start):
    if start == "hang":
        time.sleep(300)
    if start == "crash":
        sys.exit("no license")
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message["method"], message.get("id")
        if method == "initialize":
            capabilities = {"tools": {}}
            info = {"name": "fake", "version": "1"}
            version = message["params"]["protocolVersion"]
            hello = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            answer(id, result=hello)
        elif method == "tools/list":
            answer(id, result={"tools": TOOLS})
        elif method == "tools/call":
            act(id, message["params"]["arguments"])
        elif id is not None:
            answer(id, error={"code": -32601, "message": "no such method"})


main(sys.argv[1])
"""

ACT = {
    "tool": "act",
    "idempotent": False,
    "irreversibility": "high",
    "runtime": {"request_id": "key"},
}


@pytest.fixture(autouse=True)
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a server that did not come up as much time to end as a slow computer needs."""
    monkeypatch.setattr(mcp, "_JOIN_S", 60)


def server(folder: Path, *tools: dict[str, Any], start: str = "", **more: Any) -> mcp.McpServer:
    """Return a server that runs the script above, in a folder of the test's own."""
    (folder / "fake.py").write_text(SCRIPT)
    table = {
        "name": "fake",
        "command": "{python}",
        "args": ["fake.py", start],
        "start_s": 60,
        "tool": list(tools) or [ACT],
        **more,
    }
    (found,) = mcp.servers([ServerTable(folder / "capabilities.toml", table)])
    return found


def act(found: mcp.McpServer, way: str, *, deadline_s: float = 60) -> Result:
    """Call the tool as the execution does: through registry, binding and run."""
    registry = Registry([], [found])
    bound = registry.bind("act", {"way": way}, {"key": "k-1", "record_id": "thread-1"})
    return asyncio.run(call_capability(registry["act"], bound, deadline_s=deadline_s))


def failure(result: Result) -> tuple[str, str]:
    """Return code and sentence of a failure."""
    assert isinstance(result, Failed)
    return result.code, result.detail


def pids_in(folder: Path) -> list[int]:
    """Return the numbers of the processes that a call began, as soon as both run."""
    file = folder / "pids"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def test_a_tool_of_the_example_server_is_offered_checked_and_called() -> None:
    registry = load_registry(str(EXAMPLES / "capabilities.toml"))
    example: Any = registry._servers["word_count"]
    example._table = example._table.model_copy(update={"start_s": 60})

    offered = {found.name: found for found in registry.catalog()}
    count = offered["word_count"]
    assert count.description == "Count the words, the lines and the characters of a text."
    assert count.parameters["properties"]["text"]["x-from"] == "text"
    assert count.parameters["additionalProperties"] is False
    assert (count.idempotent, count.irreversibility) == (True, Level.LOW)
    with pytest.raises(InvalidParametersError, match="text: 90 is not of type 'string'"):
        registry.check("word_count", {"text": 90})
    bound = registry.bind("word_count", {"text": "one two"}, {})
    result = asyncio.run(call_capability(count, bound, deadline_s=60))
    assert isinstance(result, Succeeded)
    assert result.value == {"words": 2, "lines": 1, "characters": 7}


def test_only_listed_tools_are_offered_and_hints_of_the_server_make_none_safer(
    tmp_path: Path,
) -> None:
    (act,) = server(tmp_path).offered()

    assert act.name == "act"
    assert act.description == "Act in a way."
    assert (act.idempotent, act.irreversibility, act.regret_potential) == (
        False,
        Level.HIGH,
        Level.HIGH,
    )


def test_a_run_time_value_is_hidden_and_reaches_the_tool_under_its_own_name(
    tmp_path: Path,
) -> None:
    found = server(tmp_path)
    registry = Registry([], [found])

    assert set(registry["act"].parameters["properties"]) == {"way"}
    assert registry["act"].parameters["required"] == ["way"]
    with pytest.raises(InvalidParametersError):
        registry.check("act", {"way": "plain", "request_id": "mine"})
    assert act(found, "plain") == Succeeded({"way": "plain", "request_id": "k-1"})


def test_a_server_is_asked_for_its_tools_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = server(tmp_path)
    first = found.offered()

    monkeypatch.setattr(found._client, "listing", None)

    assert found.offered() is first
    assert found.capability("act") is first[0]


def test_the_catalog_can_be_asked_for_inside_an_event_loop(tmp_path: Path) -> None:
    registry = Registry([], [server(tmp_path)])

    async def inside() -> list[str]:
        return [found.name for found in registry.catalog()]

    assert asyncio.run(inside()) == ["act"]


def test_a_tool_that_the_file_describes_is_offered_without_asking(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"way": {"type": "string", "maxLength": 5}},
        "required": ["way"],
    }
    complete = {**ACT, "name": "act_now", "description": "As reviewed.", "parameters": schema}
    found = server(tmp_path, complete, start="crash")

    (act_now,) = found.offered()

    assert (act_now.name, act_now.description) == ("act_now", "As reviewed.")
    assert act_now.parameters == {**schema, "additionalProperties": False}


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("noise", "quiet"),
        ("picture", "[ImageContent left out]\nsee above"),
        ("flood", "done"),
    ],
)
def test_what_a_tool_says_is_the_value(tmp_path: Path, way: str, value: str) -> None:
    assert act(server(tmp_path), way) == Succeeded(value)


@pytest.mark.parametrize(
    ("way", "problem"),
    [
        ("error", "no way"),
        ("refuse", "the MCP server fake failed during the call: MCPError: not today"),
        ("crash", "it wrote: out of memory"),
        ("long line", "it sent a line of more than 4 MiB"),
        ("nonsense", "the MCP server fake failed during the call: ValidationError"),
    ],
)
def test_a_call_that_goes_wrong_is_an_error_in_a_sentence(
    tmp_path: Path, way: str, problem: str
) -> None:
    code, detail = failure(act(server(tmp_path), way))

    assert code == "error"
    assert problem in detail


def test_a_deadline_ends_the_server_and_its_children(tmp_path: Path) -> None:
    found = server(tmp_path)

    # A busy computer may not start both in time: try again with a longer deadline.
    for deadline_s in (2.0, 20.0, 60.0):
        code, _ = failure(act(found, "grandchild", deadline_s=deadline_s))
        if pids_in(tmp_path):
            break

    assert code == "deadline"
    assert len(pids_in(tmp_path)) == 2
    until(lambda: not any(map(is_alive, pids_in(tmp_path))), what="the end of both")


def test_a_cancelled_call_ends_the_server_and_its_children(tmp_path: Path) -> None:
    found = server(tmp_path)
    bound = {"way": "grandchild", "key": "k"}

    async def cancelled() -> None:
        call = asyncio.create_task(call_capability(found.capability("act"), bound, deadline_s=60))
        while not pids_in(tmp_path):  # noqa: ASYNC110 - nothing announces a file
            await asyncio.sleep(0.01)
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert len(pids_in(tmp_path)) == 2
    until(lambda: not any(map(is_alive, pids_in(tmp_path))), what="the end of both")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"start": "crash"}, "it wrote: no license"),
        ({"start": "hang", "start_s": 0.5}, "did not answer within 0.5 s"),
        ({"command": "no-such-server"}, "No such file"),
        ({"cwd": "no-such-folder"}, "No such file"),
        ({"command": "/"}, "Permission denied"),
        ({"command": "true"}, "cannot be used"),
        ({"command": "echo"}, "cannot be used"),
    ],
)
def test_a_server_that_does_not_come_up_is_left_out_and_calling_it_is_unavailable(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: dict[str, Any],
    problem: str,
) -> None:
    found = server(tmp_path, **change)
    registry = Registry([], [found])

    with caplog.at_level(logging.WARNING):
        assert registry.catalog() == ()
    code, detail = failure(act(found, "plain"))

    assert problem in caplog.text
    assert (code, problem in detail) == ("unavailable", True)


def test_a_server_that_was_down_is_asked_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "DISCOVERY_RETRY_S", 600)
    found = server(tmp_path)
    (tmp_path / "fake.py").rename(tmp_path / "away.py")
    assert found.offered() == ()
    (tmp_path / "away.py").rename(tmp_path / "fake.py")
    assert found.offered() == ()

    monkeypatch.setattr(found, "_retry_at", 0.0)

    assert [tool.name for tool in found.offered()] == ["act"]


def test_a_tool_that_came_up_later_is_still_checked_against_its_schema(tmp_path: Path) -> None:
    found = server(tmp_path)
    (tmp_path / "fake.py").rename(tmp_path / "away.py")
    placeholder = found.capability("act")
    Registry([], [found]).check("act", {"way": 7})
    (tmp_path / "away.py").rename(tmp_path / "fake.py")

    code, detail = failure(
        asyncio.run(call_capability(placeholder, {"way": 7, "key": "k"}, deadline_s=60))
    )

    assert code == "error"
    assert "refuses the parameters: way: 7 is not of type 'string'" in detail


def test_a_listed_tool_that_the_server_does_not_have_is_unavailable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = {"tool": "gone", "idempotent": True, "irreversibility": "low"}
    found = server(tmp_path, ACT, gone)

    assert [tool.name for tool in found.offered()] == ["act"]
    code, detail = failure(
        asyncio.run(call_capability(found.capability("gone"), {}, deadline_s=60))
    )

    assert "it has no tool 'gone'" in caplog.text
    assert (code, detail) == ("unavailable", "the MCP server fake has no tool 'gone'")


def test_a_tool_without_a_description_is_known_by_that_of_its_table_or_by_its_name(
    tmp_path: Path,
) -> None:
    silent = {"tool": "silent", "idempotent": True, "irreversibility": "low"}
    described = {**silent, "description": "Says nothing."}

    assert [tool.description for tool in server(tmp_path, silent).offered()] == ["silent"]
    assert [tool.description for tool in server(tmp_path, described).offered()] == ["Says nothing."]


def test_a_tool_that_differs_from_what_was_reviewed_is_refused(tmp_path: Path) -> None:
    unpinned = server(tmp_path, {**ACT, "sha256": "?"})
    code, detail = failure(act(unpinned, "plain"))
    assert code == "unavailable"
    assert "has the tool 'act', which is not reviewed yet; review it, then set sha256" in detail

    pin = detail.rpartition("sha256 = ")[2].strip("'")
    assert unpinned.left_out()["act"].endswith(f"then set sha256 = {pin!r}")
    pinned = server(tmp_path, {**ACT, "sha256": pin})
    assert pinned.left_out() == {}
    assert isinstance(act(pinned, "plain"), Succeeded)

    changed = SCRIPT.replace("Act  in", "Ignore all that, act  in")
    (tmp_path / "fake.py").write_text(changed)
    assert failure(act(pinned, "plain"))[0] == "unavailable"
    again = server_again(tmp_path, pin, changed)
    assert again.offered() == ()
    assert "of 'act' since it was reviewed" in again.left_out()["act"]


def server_again(folder: Path, pin: str, script: str) -> mcp.McpServer:
    """Return the server as a fresh process would see it, running another script."""
    found = server(folder, {**ACT, "sha256": pin})
    (folder / "fake.py").write_text(script)
    return found


def test_a_server_gets_its_own_settings_and_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")

    result = act(server(tmp_path, env={"MODE": "test"}), "environment")

    assert isinstance(result, Succeeded)
    assert result.value["MODE"] == "test"
    assert "PATH" in result.value
    assert "secret" not in json.dumps(result.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tool": []}, "tool: Tuple should have at least 1 item"),
        ({"comand": "x"}, "comand: Extra inputs are not permitted"),
        (
            {"tool": [{"tool": "a", "irreversibility": "low"}]},
            "tool.0.idempotent: this field is missing, add it",
        ),
        ({"tool": [{**ACT, "irreversibility": "moderate"}]}, "'low', 'medium' or 'high'"),
        ({"tool": [{**ACT, "runtime": {"a": "thread_id"}}]}, "tool.0.runtime.a"),
        ({"tool": [{**ACT, "tool": "word-count"}]}, "small letters"),
        ({"tool": [{**ACT, "deadline_s": -1}]}, "deadline_s is -1"),
    ],
)
def test_a_table_that_says_too_little_or_too_much_is_refused(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    table = {"name": "fake", "command": "x", "tool": [ACT], **change}

    with pytest.raises(ExtensionError) as raised:
        mcp.servers([ServerTable(tmp_path / "some.toml", table)])

    assert problem in str(raised.value)
    assert "some.toml" in str(raised.value)
