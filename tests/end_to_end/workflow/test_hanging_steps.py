"""A step that hangs harms its record alone: the others of its worker go on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.up import INTERLOCK, Up, running_up
from tests.processes import is_alive
from tests.waiting import until

PROGRAM = """
import os
import time
from pathlib import Path
from typing import Literal

from interlock import Data, Work, Workflow, seconds


class Nothing(Data):
    pass


hang = Workflow("hang", Nothing)


@hang.step(timeout=seconds(2), max_attempts=2, retry_delay=seconds(0.1))
def wait_for_it(_: Nothing, work: Work) -> Literal["done"]:
    with Path(os.environ["ATTEMPTS"]).open("a") as file:
        file.write(f"{work.id} {work.attempt} {os.getpid()}\\n")
    while True:
        time.sleep(3600)
    return "done"


hang.ends(done=True)
quickly = Workflow("quickly", Nothing)


@quickly.step
def go(_: Nothing) -> Literal["done"]:
    return "done"


quickly.ends(done=True)
"""
pytestmark = pytest.mark.slow(minutes=0.5)


@pytest.fixture
def up() -> Iterator[Up]:
    folder = Path(tempfile.mkdtemp(prefix="hang-"))
    (folder / "hang.py").write_text(PROGRAM)
    variables = {"INTERLOCK_CONCURRENCY": "2", "ATTEMPTS": str(folder / "attempts")}
    with running_up(folder, "hang.py", **variables) as running:
        yield running


def submit(up: Up, machine: str, *names: str) -> None:
    code = "from interlock import Client; c = Client(actor='shop'); " + "".join(
        f"c.submit({{}}, machine='{machine}', id='{name}');" for name in names
    )
    environment = {**up.environment, "INTERLOCK_SYSTEMS": "hang"}
    subprocess.run([sys.executable, "-c", code], cwd=up.folder, env=environment, check=True)


def state(up: Up, name: str) -> Any:
    return json.loads(up.command("show", name, "--json"))["state"]


def attempts(up: Up) -> list[tuple[str, int, int]]:
    file = up.folder / "attempts"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [(name, int(attempt), int(process)) for name, attempt, process in lines]


def log(up: Up) -> str:
    return (up.home / "log" / "worker.log").read_text("utf-8")


def doctor(up: Up) -> str:
    done = subprocess.run(
        [INTERLOCK, "doctor"],
        env={**up.environment, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_steps_that_hang_keep_no_thread_from_other_records_and_ask_a_person(up: Up) -> None:
    hanging = ["h1", "h2", "h3"]  # more than the worker has threads
    submit(up, "hang", *hanging)

    def asked() -> bool:
        cards = json.loads(up.command("cards", "--json"))
        questions = {card["record_id"]: card["question"] for card in cards}
        return all("it took longer than 2 s" in questions.get(name, "") for name in hanging)

    until(asked, what="a person is asked about each", within_s=120)
    submit(up, "quickly", "q1", "q2", "q3")
    until(
        lambda: {state(up, name) for name in ("q1", "q2", "q3")} == {"done"}, what="others are done"
    )

    found = attempts(up)
    assert sorted((name, attempt) for name, attempt, _ in found) == [
        (name, attempt) for name in hanging for attempt in (1, 2)
    ]
    [worker] = {process for _, attempt, process in found if attempt == 1}
    alone = {process for _, attempt, process in found if attempt == 2}
    assert worker not in alone
    assert len(alone) == 3
    assert not [process for process in alone if is_alive(process)], "each was ended at its time"
    ended = "raised expected: 'it took longer than 2 s"
    until(lambda: log(up).count(ended) == len(hanging), what="each process says how it ended")
    said = doctor(up)
    for name in hanging:
        hangs = f"hang.wait_for_it of {name} hangs for \\d+ (s|min)"
        assert re.search(f"{hangs}, though 2 s is its limit, at .*hang.py", said), said

    os.kill(worker, signal.SIGTERM)
    until(lambda: not is_alive(worker), what="a worker whose threads hang ends when it is to")
    submit(up, "quickly", "q4")
    until(lambda: state(up, "q4") == "done", what="it is started anew")
