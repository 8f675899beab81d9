"""`interlock up`, as a person starts it. It leaves no process behind."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from typer.testing import CliRunner

from interlock.kernel.machines import MACHINES
from interlock.workers import cli
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.ops import up
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.up import addresses_of, going_on, has_agents, running_agents
from interlock.workers.up_file import TOKEN_FILE, local_settings
from tests.started import LIMIT_S, STOP_S, Started, press_ctrl_c
from tests.systems.tasks.claims import claimed
from tests.systems.threads.threads import client_of
from tests.waiting import until

INTERLOCK = str(Path(sys.executable).with_name("interlock"))
# `interlock` with a deployment that never becomes ready.
NEVER_READY = """
import time
from unittest.mock import patch
from interlock.__main__ import main
from interlock.workers.ops.deployment import Deployment
with patch.object(Deployment, "_wait_until_ready", lambda _: time.sleep(600)):
    main()
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Start commands with a home of their own."""
    with Started(tmp_path) as found:
        yield found


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(300)
def test_up_keeps_everything_running_until_ctrl_c(started: Started, tmp_path: Path) -> None:
    api = f"http://127.0.0.1:{free_port()}"
    process = started.start(INTERLOCK, "up", "--api-port", api.rpartition(":")[2])
    address = re.compile(r"logs +\S")
    with suppress(AssertionError):  # what it has printed says more
        until(
            lambda: address.search(started.output) or process.poll() is not None,
            what="it is up or has ended",
            within_s=LIMIT_S,
        )
    assert address.search(started.output), started.output
    # Its API takes the login that is part of the address.
    flower = (tmp_path / "flower.url").read_text().strip()
    assert flower not in started.output
    page = f"{flower}/api/workers"
    until(lambda: answers(page), what="Flower answers", within_s=LIMIT_S)
    until(
        lambda: "interlock.inference" in httpx.get(f"{flower}/broker", timeout=180).text,
        what="Flower has asked the workers for their queues, and the broker for their lengths",
    )

    assert f"{api}/v1" in started.output
    token = (tmp_path / TOKEN_FILE).read_text().strip()
    shown = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{api}/v1/me", headers=shown, timeout=180).json()["proved"] is False
    assert httpx.get(f"{api}/v1/me", timeout=180).status_code == httpx.codes.UNAUTHORIZED

    # Another terminal finds the store by the file in the same home.
    submitted = run_json(started, "submit", "--title", "Call the dentist", "--id", "call")
    store_url = json.loads((tmp_path / "up.json").read_text())["store_url"]
    Client(Settings(store_url=store_url)).wait("call", timeout_s=LIMIT_S)

    assert json.loads(submitted) == [{"id": "call", "replayed": False, "error": None}]
    assert store_url in started.output
    until(
        lambda: b"Task sweep.orphans" in (tmp_path / "log" / "sweeps.log").read_bytes(),
        what="a sweep",
    )
    assert b"Task sweep.orphans" not in (tmp_path / "log" / "worker.log").read_bytes()

    # A second one in the same home is refused, and takes nothing away from the first.
    second = CliRunner().invoke(cli.app, ["up"], env=started.environment)
    assert second.exit_code == 1
    said = " ".join(second.stderr.split())  # it is wrapped
    assert f"process {process.pid} runs Interlock in {tmp_path} already" in said
    assert local_settings({"INTERLOCK_HOME": str(tmp_path)}).store == store_url
    record = httpx.get(f"{api}/v1/records/call", headers=shown, timeout=180)
    assert record.json()["id"] == "call"

    assert press_ctrl_c(process) == 0
    assert started.all_gone()
    assert not (tmp_path / "up.json").exists()
    assert started.tracebacks() == 0


def run_json(started: Started, *arguments: str) -> str:
    """Run a command with the environment of another terminal and return its JSON."""
    done = CliRunner().invoke(cli.app, [*arguments, "--json"], env=started.environment)
    assert done.exit_code == 0, done.output
    return done.stdout


def answers(address: str) -> bool:
    """Return whether a page answers with 200."""
    try:
        return httpx.get(address, timeout=180).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def test_what_up_prints_has_no_password_of_a_store_that_the_settings_name(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, store_url="redis://user:hush@store.example:6379/0")

    printed = addresses_of(Deployment(settings, pages=True))

    assert printed["store"] == "redis://...@store.example:6379/0"
    assert "hush" not in repr((printed, settings))


def test_ctrl_c_during_the_start_ends_it_without_a_traceback(
    started: Started, tmp_path: Path
) -> None:
    port, program = str(free_port()), (sys.executable, "-c", NEVER_READY)
    process = started.start(*program, "up", "--api-port", port)
    until((tmp_path / "log" / "worker.log").exists, what="it starts", within_s=LIMIT_S)

    assert press_ctrl_c(process) == 0
    assert started.output == "ended\n"
    until(started.all_gone, what="nothing is left", within_s=STOP_S)


def test_the_end_of_up_names_the_agents_that_go_on_on_this_computer(
    server: EmbeddedServer, prefix: str
) -> None:
    client = client_of(server.url, prefix)
    here = client.settings.host
    claimed(client, "b/one").alive(pid=4711, host=here)
    claimed(client, "b/two").alive(pid=4712, host="elsewhere")
    ended = claimed(client, "b/three").alive(pid=4713, host=here)
    ended.delivered()

    assert running_agents(client) == {"b/one (process 4711)": 60}


@pytest.mark.parametrize(
    ("agents", "store_ends", "sentence"),
    [
        ({"a": 60}, True, "1 agent goes on for about 60 s; `interlock up` before that keeps it: a"),
        (
            {"a": 60, "b": 30},
            True,
            "2 agents go on for about 30 s; `interlock up` before that keeps them: a, b",
        ),
        ({"a": 60}, False, "1 agent goes on until it is done: a"),
        ({"a": 60, "b": 30}, False, "2 agents go on until they are done: a, b"),
    ],
)
def test_the_end_of_up_says_for_how_long_agents_go_on(
    agents: dict[str, float], *, store_ends: bool, sentence: str
) -> None:
    assert going_on(agents, store_ends=store_ends) == sentence


def test_the_end_of_up_reads_only_records_of_machines_with_agents_and_not_all_of_them(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(server.url, prefix)
    for number in (1, 2):
        claimed(client, f"b/{number}").alive(pid=4710 + number, host=client.settings.host)
    monkeypatch.setattr(up, "RECORDS_MAX", 1)

    assert len(running_agents(client)) == 1
    assert {name for name in MACHINES if has_agents(MACHINES[name])} == {"agent", "loop", "codon"}
