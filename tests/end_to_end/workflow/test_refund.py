"""The refund of docs/workflows.md, as its reader runs it: by `interlock up refund.py`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.up import Up, running_up
from tests.fakes.bank import Bank, open_bank
from tests.waiting import until

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "examples" / "own" / "refund.py"
PAGE = (ROOT / "docs" / "workflows.md").read_text("utf-8")
pytestmark = pytest.mark.slow(minutes=0.5)


@pytest.fixture(scope="module")
def bank() -> Iterator[Bank]:
    with open_bank() as bank:
        yield bank


@pytest.fixture(scope="module")
def up(bank: Bank) -> Iterator[Up]:
    """Run `interlock up refund.py` in a folder whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="own-"))
    shutil.copy(PROGRAM, folder / "refund.py")
    variables = {"PAYMENT_URL": bank.url, "INTERLOCK_LEASE_S": "2"}
    with running_up(folder, "refund.py", "--reload", **variables) as running:
        yield running


def hand_in(up: Up, refund: str, cents: int) -> None:
    code = (
        "from interlock import Client; from refund import Refund, refund; "
        f"Client(actor='shop').submit(refund, Refund(order='o-1', cents={cents}), id='{refund}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=up.folder,
        env=up.environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def shown(up: Up, refund: str) -> Any:
    return json.loads(up.command("show", refund, "--json"))


def card(up: Up, refund: str) -> Any:
    """Wait for the card of a refund and return it."""

    def found() -> Any:
        cards = json.loads(up.command("cards", "--json"))
        return next((one for one in cards if one["record_id"] == refund), None)

    return until(found, what=f"{refund} asks a person")


def test_the_page_shows_the_program_that_is_tested() -> None:
    assert f"```python\n{PROGRAM.read_text('utf-8')}```" in PAGE
    lines = [line for line in PROGRAM.read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 35


def test_a_person_is_asked_above_a_hundred_and_it_is_paid_once(up: Up, bank: Bank) -> None:
    hand_in(up, "large", 500_00)
    asked = card(up, "large")

    up.command("decide", "large", "approve", "--proposal", asked["proposal"])
    until(lambda: shown(up, "large")["state"] == "done", what="it is paid")

    # Another test may have changed the file before.
    assert asked["question"].endswith(" 50000 cents of order o-1?")
    assert bank.paid["large"] == 1
    assert "p-large" in up.command("show", "large")
    assert "refund" in up.command("list")


def test_a_payment_whose_worker_is_killed_is_not_repeated_and_a_person_says_what_is_so(
    up: Up, bank: Bank
) -> None:
    bank.silent.add("cut-off")
    hand_in(up, "cut-off", 50)
    until(lambda: bank.paid["cut-off"], what="the bank has paid")

    os.kill(worker_of(up), signal.SIGKILL)
    asked = card(up, "cut-off")

    assert re.match(r"pay was begun, and whether it was done is not known", asked["question"])
    up.command(
        *("decide", "cut-off", "done", "--proposal", asked["proposal"]),
        *("--answer", '{"payment": "p-7"}'),
    )
    assert shown(up, "cut-off")["state"] == "done"
    assert bank.paid["cut-off"] == 1


def test_a_changed_file_is_used_at_once_unless_it_is_wrong(up: Up) -> None:
    hand_in(up, "waits", 500_00)
    card(up, "waits")
    file, notices = up.folder / "refund.py", up.folder / "notices"
    text = file.read_text("utf-8")

    file.write_text(text.replace("{cents} cents", "{centz} cents"), "utf-8")
    until(lambda: "is not used, since it is wrong" in notices.read_text(), what="it is refused")
    file.write_text(text.replace("Refund {cents}", "Pay back {cents}"), "utf-8")

    until(lambda: "have its new code" in notices.read_text(), what="it is used")
    assert "names {centz}" in notices.read_text()
    assert card(up, "waits")["question"] == "Pay back 50000 cents of order o-1?"
    hand_in(up, "after", -1)
    until(lambda: shown(up, "after")["state"] == "failed", what="the new workers work")


def worker_of(up: Up) -> int:
    """Return the process of the worker that runs steps."""
    for process in up.processes():
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
        if any(word.startswith("worker@") for word in words):
            return process
    raise AssertionError("there is no worker")
