"""A deployment without a system has nothing of it, and is whole: each system in turn."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

import interlock
from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.rows import by
from interlock.systems import NAMES
from interlock.workers import cli
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.config import settings_of
from interlock.workers.console.app import create_console
from interlock.workers.console.system_pages import pages_of
from interlock.workers.engine import own_systems
from interlock.workers.engine.celery_app import effect_queues
from interlock.workers.engine.printed_calls import output_source
from interlock.workers.engine.records import Records
from interlock.workers.engine.system import System, SystemsError, load
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.mcp.tool_call import Verbs
from interlock.workers.mcp.tools import offered_tools
from interlock.workers.ops.doctor import diagnose
from interlock.workers.ops.metrics import Exposition
from interlock.workers.ops.top.snapshot import SnapshotReader, snapshot_fields
from interlock.workers.producer_message import messages_of_systems, submit
from interlock.workers.systems import (
    check_sweeps,
    handlers,
    health,
    openers,
    plain_request,
    starved,
    sweeps,
    top_parts,
    words_of,
)
from interlock.workers.terminal.page import Health
from tests.workers.access.tokens import new_token
from tests.workers.console.test_console import SITE, sign_in

# An entry of None makes Python say that the package is not there. It runs in a process of its own:
# a module that is imported again would stay in place of that which the other tests have.
WITHOUT_PACKAGES = """
import sys
sys.modules.update(dict.fromkeys(("mcp", "mcp.server.mcpserver", "pydantic_ai", "genai_prices")))
from typer.testing import CliRunner
from interlock.workers.cli import app
from interlock.workers.config import SettingsError, settings_of
from interlock.workers.engine.system import SystemsError
from interlock.workers.gateways.llm.language_model import open_model
try:
    open_model(settings_of(())(model="openai:gpt-4o-mini"))
except SettingsError as refusal:
    print(refusal)
try:
    CliRunner().invoke(app, ["mcp"], catch_exceptions=False)
except SystemsError as refusal:
    print(refusal)
"""
# What each table of the registry has, by what a person calls it: names, or the functions behind.
Tables = dict[str, set[str]]


def homes(things: Iterable[Callable[..., Any]]) -> set[str]:
    return {thing.__module__ for thing in things}


def reach(*_: object) -> Verbs:
    raise AssertionError("no tool is called")


def tables(client: Client) -> Tables:
    """Return all that a deployment has of systems, as names and modules."""
    return {
        "commands": {row.source for row in cli.commands()},
        "effects": homes(handlers().values()),
        "tasks of Celery": {*handlers()},
        "sweeps": homes(sweep.run for sweep in sweeps()),
        "beat rows": {sweep.name for sweep in sweeps()},
        "queues": {*effect_queues(client.dispatch.machines.values())},
        "resources": homes(openers()),
        "messages": homes(messages_of_systems().values()),
        "machines": {*client.dispatch.machines},
        "pages": {*pages_of(client)},
        "top": {*top_parts()},
        "tools": {each.tool.fn.__module__ for each in offered_tools(reach)},
        "settings": set(type(client.settings).model_fields),
    }


@pytest.fixture
def every(server: EmbeddedServer, prefix: str) -> Client:
    return client_with(NAMES, server, prefix)


def client_with(names: Iterable[str], server: EmbeddedServer, prefix: str) -> Client:
    chosen = tuple(names)
    model = settings_of(chosen)
    return Client(
        model(store_url=server.url, prefix=prefix, namespace=prefix, systems=chosen), actor="ann"
    )


@pytest.fixture
def without(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    every: Client,
    server: EmbeddedServer,
    prefix: str,
) -> tuple[System, Tables, Client]:
    """Run all systems but one; return that one, what all had, and a client."""
    name = request.param
    left_out, had = own_systems._ADDED[name], tables(every)
    others = {one: system for one, system in own_systems._ADDED.items() if one in NAMES}
    others.pop(name)
    kept = {
        machine: entry
        for machine, entry in MACHINES.entries.items()
        if entry.is_ours and machine not in left_out.machines
    }
    monkeypatch.setattr(own_systems, "_ADDED", others)
    monkeypatch.setattr(MACHINES, "entries", kept)
    return left_out, had, client_with(others, server, prefix)


@pytest.mark.parametrize("without", NAMES, indirect=True)
def test_without_a_system_nothing_of_it_is_there(
    without: tuple[System, Tables, Client],
) -> None:
    system, had, client = without
    home = f"interlock.systems.{system.name}"
    found = tables(client)

    assert not {table: named for table, all_of in found.items() if (named := of_home(all_of, home))}
    assert of_home(had["commands"], home), "the table would show it"
    assert of_home(had["effects"], home)
    for table in ("machines", "tasks of Celery", "queues"):
        heads = {one.partition(".")[0] for one in found[table]}
        assert not heads & set(system.machines), table
    assert had["machines"] - found["machines"] == set(system.machines)
    for table in ("pages", "top"):
        assert system.name not in found[table]
    if system.sweeps:
        assert had["beat rows"] - found["beat rows"]
    if system.settings:
        assert had["settings"] - found["settings"] == set(load(system.settings).model_fields)
    if system.tools:
        assert of_home(had["tools"], home)


def of_home(names: Iterable[str], home: str) -> set[str]:
    return {one for one in names if one == home or one.startswith((f"{home}.", f"{home}:"))}


@pytest.mark.parametrize("without", NAMES, indirect=True)
def test_without_a_system_what_people_are_shown_is_whole_and_has_nothing_of_it(
    without: tuple[System, Tables, Client],
) -> None:
    system, _, client = without
    browser = TestClient(create_console(client), base_url=SITE, follow_redirects=False)
    headers = {"Authorization": f"Bearer {new_token(client, Role.OPERATOR)}"}
    sign_in(browser, new_token(client, Role.VIEWER))
    rows = {f'machine="{machine}"' for machine in system.machines}

    top = snapshot_fields(SnapshotReader(client).read())
    doctor, metrics = diagnose(client.dispatch), Exposition(client.dispatch).read().decode()
    start, fleet, index = (browser.get(path) for path in ("/", "/fleet", "/systems"))

    assert not top["others"].keys() & system.machines.keys()
    assert not doctor["machines"].keys() & system.machines.keys()
    assert not [row for row in rows if row in metrics]
    assert [page.status_code for page in (start, fleet, index)] == [200] * 3
    assert f'href="/systems/{system.name}"' not in index.text
    assert browser.get(f"/systems/{system.name}").status_code == 400
    listed = browser.get("/v1/machines", headers=headers)
    assert not {*listed.json()} & system.machines.keys()
    assert words_of(next(iter(system.machines)), {}).request == ""
    assert ("lines" in top) is (system.name != "tasks")
    assert ("interlock_canary_seconds" in metrics) is (system.name != "threads")
    assert (plain_request() is None) is (system.name == "threads")
    assert {*starved(client.dispatch)[0]} == {"tasks"} - {system.name}
    assert bool(health(client.dispatch)) is (system.name != "threads")


def broken(_: Records) -> Health:
    raise LookupError("no such table")


def unhealthy(_: Records) -> str:
    return "ill"


def test_a_system_that_cannot_say_whether_it_works_is_a_problem_and_no_error(
    monkeypatch: pytest.MonkeyPatch, every: Client
) -> None:
    for function in (broken, unhealthy):
        name = function.__name__
        monkeypatch.setitem(own_systems._ADDED, name, System(name, health=f"{__name__}:{name}"))

    said = [problem for each in health(every.dispatch) for problem in each.problems]
    of_broken, of_unhealthy = (one for one in said if one.startswith("whether "))

    assert of_broken.startswith(f"whether broken works is unknown: repair {__name__}:broken: ")
    assert "no such table" in of_broken
    assert of_unhealthy.endswith("it returned 'ill', which is no Health")
    assert {"store", "systems"} <= diagnose(every.dispatch).keys()


def unasked(_: object) -> dict[str, str]:
    return {"asked": "a word that no page has"}


def nowhere(*_: object) -> str:
    return "here"


def test_what_a_system_returns_that_cannot_be_shown_is_a_sentence_about_its_row(
    monkeypatch: pytest.MonkeyPatch, every: Client
) -> None:
    rows = {"words": {"m": f"{__name__}:unasked"}, "outputs": {"m": f"{__name__}:nowhere"}}
    monkeypatch.setitem(own_systems._ADDED, "mine", System("mine", **rows))  # type: ignore[arg-type]
    record = cast("Record", SimpleNamespace(id="one", machine="m"))

    with pytest.raises(SystemsError, match=r"unasked, the words of m in mine, returned \{'asked'"):
        words_of("m", {})
    with pytest.raises(SystemsError, match="nowhere, the outputs of m in mine, returned 'here'"):
        output_source(every, record)


def test_a_row_that_only_a_sweep_may_fire_needs_that_sweep(every: Client) -> None:
    del every  # it adds the systems
    rows = [
        SimpleNamespace(by=by(sweep=name), trigger="expire", source="open")
        for name in ("deliveries", "letters")
    ]
    known, unknown = (cast("Machine", SimpleNamespace(transitions=[row])) for row in rows)
    check_sweeps({"refund": known})
    with pytest.raises(SystemsError, match="refund: only the sweep letters may fire expire"):
        check_sweeps({"refund": unknown})


def test_without_any_system_a_message_has_to_name_its_machine(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, prefix: str
) -> None:
    monkeypatch.setattr(own_systems, "_ADDED", {})
    monkeypatch.setattr(MACHINES, "entries", {})
    client = client_with((), server, prefix)

    with pytest.raises(InvalidPayloadError, match="machine"):
        submit(client, {"id": "one", "payload": {}})
    assert {row.source.partition(".")[0] for row in cli.commands()} == {"interlock"}
    assert not of_home((row.source for row in cli.commands()), "interlock.systems")
    assert SnapshotReader(client).read().parts == {}


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    program = [sys.executable, "-c", WITHOUT_PACKAGES]
    done = subprocess.run(program, capture_output=True, text=True, timeout=240, check=False)

    model, command = done.stdout.splitlines()
    assert re.match(r"A language model needs \w+: .*interlock\[models\]", model), done
    assert re.search(r"`interlock mcp` needs mcp: .*\[mcp\]'", command), done


def test_a_public_name_says_which_package_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: str) -> None:
        raise ModuleNotFoundError("no module", name=missing)

    monkeypatch.setattr(interlock, "import_module", lacking)
    missing = "pydantic_ai.models"
    with pytest.raises(ImportError, match=r"^Threads needs pydantic_ai: .*interlock\[models\]'$"):
        _ = interlock.Threads
    missing = "of_nobody"
    with pytest.raises(ModuleNotFoundError, match="no module"):
        _ = interlock.Threads
