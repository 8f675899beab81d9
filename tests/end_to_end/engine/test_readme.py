"""The programs on the pages for producers run as printed."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.processes.bound_process import end_bound, start_bound
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import ROOT, Deployment

README, PRODUCERS = ROOT / "README.md", ROOT / "docs" / "producers.md"


def programs(page: Path) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


(TYPED,) = programs(README)
TYPED_AGAIN, WAITING, PLAIN, ANSWERED = programs(PRODUCERS)
ENVELOPE = re.findall(r"^```json\n([^`]*)^```$", PRODUCERS.read_text(), re.MULTILINE)[-1]
IMPORTS = ("from celery import Celery",)


@pytest.fixture
def deployment(new_deployment: NewDeployment, tmp_path: Path) -> Deployment:
    return new_deployment(
        INTERLOCK_MODEL="embedded:wordllama",
        INTERLOCK_CAPABILITIES=str(ROOT / "examples" / "capabilities.toml"),
        EXAMPLE_DESK=str(tmp_path / "desk"),
    )


def test_the_producer_of_the_readme_brings_its_request_to_an_end(
    deployment: Deployment, tmp_path: Path
) -> None:
    deployment.full()

    environment = {**os.environ, **deployment.environment}
    output = run_program([TYPED, WAITING], cwd=str(ROOT), environment=environment)

    question, state, end, log = output.splitlines()
    assert question.startswith("May this be done: add_task(")
    assert state == "done"
    assert end.startswith("done {'file': ")
    assert "execution_done" in log
    assert deployment.ends("mail-1042")[0].state == "done"
    assert "dentist" in (tmp_path / "desk" / "todo.txt").read_text()


def test_the_page_for_producers_has_the_program_of_the_readme() -> None:
    assert TYPED_AGAIN == TYPED


def test_the_plain_message_for_producers_is_taken_in(deployment: Deployment) -> None:
    payload = {"inciting": {"source": "mail", "title": "Call the dentist", "text": "On my list."}}

    def filled(text: str) -> str:
        """Fill in the broker and the payload, and the names of this deployment's queues."""
        text = text.replace("broker=...", f"broker={deployment.store_url!r}")
        text = text.replace("{...}", repr(payload))
        return re.sub(r"interlock\.(intake|answers)", rf"{deployment.prefix}.\1", text)

    run_program([*IMPORTS, filled(PLAIN)], cwd="/", environment=dict(os.environ))

    with intake(deployment):
        program = [*IMPORTS, filled(ANSWERED)]
        printed = run_program(program, cwd="/", environment=dict(os.environ))
        store = deployment.client.dispatch.client
        store.lpush(f"{deployment.prefix}.intake", filled(ENVELOPE))
        taken: Any = store.brpop([f"{deployment.prefix}.answers.importer"], 60)
    assert ast.literal_eval(printed) == {
        "id": "mail-1042",
        "answer": "known",
        "record": "mail-1042",
    }
    answer = json.loads(base64.b64decode(json.loads(taken[1])["body"]))
    assert answer == {"id": "mail-1043", "answer": "accepted", "record": "mail-1043"}
    assert deployment.client.show("mail-1042").data["inciting"]["title"] == "Call the dentist"


@contextmanager
def intake(deployment: Deployment) -> Iterator[None]:
    """Run an intake worker within the block."""
    command = [sys.executable, "-m", "celery", "-A", "interlock.workers.intake", "worker"]
    command += ["-n", "intake@%h", "-P", "threads", "-c", "1", "--without-mingle"]
    with (deployment.folder / "intake.log").open("wb") as output:
        bound = start_bound(
            command,
            folder=ROOT,
            output=output,
            grace_s=10,
            environment={**os.environ, **deployment.environment},
        )
        try:
            yield
        finally:
            end_bound(bound, patience_s=60)


def run_program(lines: list[str], *, cwd: str, environment: dict[str, str]) -> str:
    """Run a program in a process of its own and return what it prints; fail if it fails."""
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, check=True, timeout=90, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def test_the_readme_has_at_most_120_lines() -> None:
    assert len(README.read_text().splitlines()) <= 120
