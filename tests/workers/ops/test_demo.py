"""`interlock demo` and `interlock up`, as a person starts them. Neither leaves a process behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import httpx2 as httpx
import pytest
from typer.testing import CliRunner

from interlock.kernel.machines import MACHINES
from interlock.kernel.table import Terminal
from interlock.workers import cli
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.ops import demo
from interlock.workers.ops.demo import addresses_of, going_on, has_agents, running_agents
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.verify import verify_all
from interlock.workers.up_file import TOKEN_FILE, local_settings
from tests.processes import marked
from tests.servers import STORE_START_S
from tests.waiting import until
from tests.workers.tasks.claims import claimed
from tests.workers.threads.threads import client_of

ROOT = Path(__file__).parents[3]
INTERLOCK = str(Path(sys.executable).with_name("interlock"))
MARK = "STARTED_BY_THIS_TEST"
# More than `demo` waits for: 120 s for its processes, and 120 s for its cards.
LIMIT_S = 280.0
STOP_S = 60.0
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
def owner() -> str:
    """Return the value of MARK for the processes of one test."""
    return uuid4().hex


@pytest.fixture
def environment(owner: str, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a person who has set nothing but a home."""
    inherited = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    return {**inherited, MARK: owner, "INTERLOCK_HOME": str(tmp_path), "COLUMNS": "150"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the file for a command's output."""
    return tmp_path / "output.txt"


def start(
    environment: dict[str, str],
    log: Path,
    *arguments: str,
    program: Sequence[str] = (INTERLOCK,),
) -> subprocess.Popen[bytes]:
    """Start a command as a shell does: in a group of its own, which gets Ctrl-C."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [*program, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def press_ctrl_c(process: subprocess.Popen[bytes]) -> int:
    """Press Ctrl-C, and return the exit code."""
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(STOP_S)


def all_gone(owner: str) -> bool:
    """Return whether every process of a test is gone."""
    return not marked(MARK, owner)


@pytest.fixture(autouse=True)
def kill_leftovers(owner: str) -> Iterator[None]:
    """Kill the processes that a failed test left."""
    yield
    for process_id in marked(MARK, owner):
        os.kill(process_id, signal.SIGKILL)


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(300)
def test_the_demonstration_runs_the_whole_inbox(
    environment: dict[str, str], log: Path, owner: str, tmp_path: Path
) -> None:
    earlier = tmp_path / "demo" / "store" / "kept"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("the store of an earlier demonstration")
    process = start(environment, log, "demo")

    code = process.wait(LIMIT_S)

    output = log.read_text()
    assert code == 0, output
    assert all_gone(owner)
    assert "Traceback" not in output
    answered = output.partition("cards that the demonstration answered")[2]
    assert "06-free-some-space" in answered
    assert "08-the-thing" in answered
    assert "did not ask" not in output
    # The person's words are in the action, not those that were not understood.
    assert "May this be done: add_task(title='Give the thing back to Sam')?" in output
    assert "the files that were written" in output
    assert earlier.exists()
    assert f"this one is in {tmp_path / 'demo-2'}" in output
    check_kept_store(tmp_path / "demo-2")


def check_kept_store(home: Path) -> None:
    """Open the store that the demonstration keeps, and check its records."""
    with EmbeddedServer(home / "store", start_s=STORE_START_S) as server:
        client = Client(Settings(store_url=server.url), actor="person")
        records = {
            str(row.id): client.show(row.id) for row in client.list(machine="thread", limit=1_000)
        }
        requests = [record_id for record_id in records if "/" not in record_id]
        children = [record_id for record_id in records if "/" in record_id]

        assert len(requests) >= 12
        assert len(children) == 3
        assert {records[child].state for child in children} == {"done"}
        parent = children[0].partition("/")[0]
        assert records[parent].state == "done"
        assert verify_all(client.dispatch, None)["faults"] == []
        by_demo = {
            record_id
            for record_id in records
            for line in client.history(record_id)
            if getattr(getattr(line, "cause", None), "actor", "") == "demo"
            and getattr(line, "trigger", "") not in ("created", "begin_inference")
        }
        assert by_demo == {"06-free-some-space", "08-the-thing"}
        thread = MACHINES["thread"]
        stuck = [
            record.id
            for record in records.values()
            if not isinstance(thread.stage(record.state), Terminal)
            and not thread.stage(record.state).waits_for_person(record.data)
        ]
        assert stuck == []


def tracebacks(output: str) -> int:
    """Return how many errors were printed.

    The interpreter prints an interrupt inside a destructor, which is harmless and is not counted.
    """
    return output.count("Traceback") - output.count("Exception ignored in")


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_ctrl_c_in_the_middle_of_the_demonstration_leaves_no_process(
    environment: dict[str, str], log: Path, owner: str
) -> None:
    process = start(environment, log, "demo")
    until(lambda: "are up after" in log.read_text(), what="its processes are up", within_s=LIMIT_S)

    code = press_ctrl_c(process)

    assert code == 130
    assert all_gone(owner)
    assert tracebacks(log.read_text()) == 0


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_in_a_terminal_the_demonstration_ends_with_the_console_until_ctrl_c(
    environment: dict[str, str], owner: str
) -> None:
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        [INTERLOCK, "demo"],
        cwd=ROOT,
        env=environment,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    output, found = "", None
    while found is None:
        output += os.read(ours, 65_536).decode(errors="replace")
        found = re.search(r"until Ctrl-C:[^h]*((http://[\d.:]+)/login/link\S+?)[\x1b\r]", output)

    with httpx.Client(timeout=180, follow_redirects=True) as browser:
        assert browser.get(found[1]).status_code == httpx.codes.OK
        page = browser.get(f"{found[2]}/records/01-printer-paper").text
    code = press_ctrl_c(process)
    os.close(ours)

    assert "Buy printer paper by Friday" in page
    assert code == 0
    assert all_gone(owner)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL])
def test_a_killed_demonstration_leaves_no_process(
    environment: dict[str, str], log: Path, owner: str, number: int
) -> None:
    process = start(environment, log, "demo")
    until(
        lambda: len(marked(MARK, owner)) > 3, what="it has started some processes", within_s=LIMIT_S
    )

    process.send_signal(number)
    process.wait(STOP_S)

    until(lambda: all_gone(owner), what="all processes are gone", within_s=STOP_S)


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(300)
def test_up_keeps_everything_running_until_ctrl_c(
    environment: dict[str, str], log: Path, owner: str, tmp_path: Path
) -> None:
    api = f"http://127.0.0.1:{free_port()}"
    process = start(environment, log, "up", "--api-port", api.rpartition(":")[2])
    address = re.compile(r"logs +\S")
    with suppress(AssertionError):  # what it has printed says more
        until(
            lambda: address.search(log.read_text()) or process.poll() is not None,
            what="it is up or has ended",
            within_s=LIMIT_S,
        )
    assert address.search(log.read_text()), log.read_text()
    # Its API takes the login that is part of the address.
    flower = (tmp_path / "flower.url").read_text().strip()
    assert flower not in log.read_text()
    page = f"{flower}/api/workers"
    until(lambda: answers(page), what="Flower answers", within_s=LIMIT_S)
    until(
        lambda: "interlock.inference" in httpx.get(f"{flower}/broker", timeout=180).text,
        what="Flower has asked the workers for their queues, and the broker for their lengths",
    )

    assert f"{api}/v1" in log.read_text()
    token = (tmp_path / TOKEN_FILE).read_text().strip()
    shown = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{api}/v1/me", headers=shown, timeout=180).json()["proved"] is False
    assert httpx.get(f"{api}/v1/me", timeout=180).status_code == httpx.codes.UNAUTHORIZED

    # Another terminal finds the store by the file in the same home.
    submitted = run_json(environment, "submit", "--title", "Call the dentist", "--id", "call")
    store_url = json.loads((tmp_path / "up.json").read_text())["store_url"]
    Client(Settings(store_url=store_url)).wait("call", timeout_s=LIMIT_S)

    assert json.loads(submitted) == [{"id": "call", "replayed": False, "error": None}]
    assert store_url in log.read_text()
    until(
        lambda: b"Task sweep.orphans" in (tmp_path / "log" / "sweeps.log").read_bytes(),
        what="a sweep",
    )
    assert b"Task sweep.orphans" not in (tmp_path / "log" / "worker.log").read_bytes()

    # A second one in the same home is refused, and takes nothing away from the first.
    second = CliRunner().invoke(cli.app, ["up"], env=environment)
    assert second.exit_code == 1
    said = " ".join(second.stderr.split())  # it is wrapped
    assert f"process {process.pid} runs Interlock in {tmp_path} already" in said
    assert local_settings({"INTERLOCK_HOME": str(tmp_path)}).store == store_url
    record = httpx.get(f"{api}/v1/records/call", headers=shown, timeout=180)
    assert record.json()["id"] == "call"

    assert press_ctrl_c(process) == 0
    assert all_gone(owner)
    assert not (tmp_path / "up.json").exists()
    assert tracebacks(log.read_text()) == 0


def run_json(environment: dict[str, str], *arguments: str) -> str:
    """Run a command with the environment of another terminal and return its JSON."""
    done = CliRunner().invoke(cli.app, [*arguments, "--json"], env=environment)
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
    environment: dict[str, str], log: Path, owner: str, tmp_path: Path
) -> None:
    port, program = str(free_port()), (sys.executable, "-c", NEVER_READY)
    process = start(environment, log, "up", "--api-port", port, program=program)
    until((tmp_path / "log" / "worker.log").exists, what="it starts", within_s=LIMIT_S)

    assert press_ctrl_c(process) == 0
    assert log.read_text() == "ended\n"
    until(partial(all_gone, owner), what="nothing is left", within_s=STOP_S)


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
    monkeypatch.setattr(demo, "RECORDS_MAX", 1)

    assert len(running_agents(client)) == 1
    assert {name for name in MACHINES if has_agents(MACHINES[name])} == {"agent", "loop", "codon"}
