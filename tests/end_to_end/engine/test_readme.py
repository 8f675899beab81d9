"""The README's programs for producers run as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.workers.processes.bound_process import end_bound, start_bound
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import ROOT, Deployment

BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
TYPED, PLAIN = BLOCKS
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

    run_program([TYPED], cwd=str(ROOT), environment={**os.environ, **deployment.environment})

    assert deployment.ends("mail-1042")[0].state == "done"
    assert "dentist" in (tmp_path / "desk" / "todo.txt").read_text()


def test_the_plain_message_of_the_readme_is_taken_in(deployment: Deployment) -> None:
    payload = {"inciting": {"source": "mail", "title": "Call the dentist", "text": "On my list."}}
    queue = f"{deployment.prefix}.intake"
    filled = (
        PLAIN.replace("broker=...", f"broker={deployment.store_url!r}")
        .replace("{...}", repr(payload))
        .replace('"interlock.intake"', repr(queue))
    )

    run_program([*IMPORTS, filled], cwd="/", environment=dict(os.environ))

    with intake(deployment):
        deployment.sees(
            lambda: deployment.client.list(machine="thread", limit=1),
            what="the record exists",
            within_s=60,
        )
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
            end_bound(bound, patience_s=15)


def run_program(lines: list[str], *, cwd: str, environment: dict[str, str]) -> None:
    """Run a program in a process of its own; fail if it fails."""
    command = [sys.executable, "-c", "\n".join(lines)]
    subprocess.run(command, cwd=cwd, env=environment, check=True, timeout=90)
