"""The demonstration, as a person starts it. It leaves no process behind."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from fastapi.testclient import TestClient

from interlock.kernel.machines import MACHINES
from interlock.kernel.table import Terminal
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.console.app import create_console
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.verify import verify_all
from tests.servers import STORE_START_S
from tests.started import LIMIT_S, ROOT, STOP_S, Started, press_ctrl_c
from tests.waiting import until
from tests.workers.access.tokens import new_token
from tests.workers.console.links import broken_links

SITE = "http://interlock.example"
DEMO = (sys.executable, "-m", "examples.demo")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Start commands with a home of their own."""
    with Started(tmp_path) as found:
        yield found


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(300)
def test_the_demonstration_runs_the_whole_inbox(started: Started, tmp_path: Path) -> None:
    earlier = tmp_path / "demo" / "store" / "kept"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("the store of an earlier demonstration")
    process = started.start(*DEMO)

    code = process.wait(LIMIT_S)

    output = started.output
    assert code == 0, output
    assert started.all_gone()
    assert "Traceback" not in output
    answered = output.partition("cards that the demonstration answered")[2]
    assert "06-free-some-space" in answered
    assert "08-the-thing" in answered
    assert "did not ask" not in output
    # The person's words are in the action, not those that were not understood.
    assert "May this be done: add_task(title='Give the thing back to Sam')?" in output
    assert "the files that were written" in output
    assert "No console is served now" in " ".join(output.split())
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
        check_links(client)


def check_links(client: Client) -> None:
    """Click every link that is reached from the list of records, also those that filter a log."""
    with TestClient(create_console(client), base_url=SITE) as browser:
        token = new_token(client, Role.ADMIN)
        browser.post("/login", data={"token": token}, headers={"Origin": SITE})
        assert broken_links(browser, "/records") == {}


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_ctrl_c_in_the_middle_of_the_demonstration_leaves_no_process(started: Started) -> None:
    process = started.start(*DEMO)
    until(lambda: "are up after" in started.output, what="its processes are up", within_s=LIMIT_S)

    code = press_ctrl_c(process)

    assert code == 130
    assert started.all_gone()
    assert started.tracebacks() == 0


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_in_a_terminal_the_demonstration_ends_with_the_console_until_ctrl_c(
    started: Started,
) -> None:
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        DEMO,
        cwd=ROOT,
        env=started.environment,
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
    assert started.all_gone()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL])
def test_a_killed_demonstration_leaves_no_process(started: Started, number: int) -> None:
    process = started.start(*DEMO)
    until(
        lambda: len(started.processes()) > 3, what="it has started some processes", within_s=LIMIT_S
    )

    process.send_signal(number)
    process.wait(STOP_S)

    until(started.all_gone, what="all processes are gone", within_s=STOP_S)
