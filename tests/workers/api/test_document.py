"""A really served API answers what its OpenAPI document says, whatever it is called with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.workers.access.roles import Role
from interlock.workers.api import followers
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served

CASES = 10_000
OF_ONE_ADDRESS = 430  # makes a few more than so many
VALUES = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.proof
@pytest.mark.slow(minutes=14)
def test_no_case_of_ten_thousand_is_a_fault_or_answered_outside_of_the_document(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LISTEN_S", 0.02)
    monkeypatch.setattr(followers, "POLL_S", 0.01)
    interlock = client_of(server.url, prefix, api_rate=100_000)
    for record_id, state in (("one", "awaiting_confirmation"), ("two", "awaiting_review")):
        bring(interlock, record_id, state)
    interlock.submit({"title": "x"}, id="b/one", machine="task")
    interlock.submit({"repo": "/nowhere", "command": "true"}, id="ann/1", machine="loop")
    report = tmp_path / "report.json"

    with served(interlock) as address:
        found = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", VALUES),
                *("run", f"{address}/openapi.json", "--no-color", "--warnings", "off"),
                *("--header", f"Authorization: Bearer {new_token(interlock, Role.ADMIN)}"),
                *("--max-examples", str(OF_ONE_ADDRESS), "--seed", "1", "--no-shrink"),
                *("--checks", "all", "--continue-on-failure"),
                # Whether a cursor, a version or an id is right depends on what is stored.
                *("--exclude-checks", "positive_data_acceptance"),
                *("--report", "json", "--report-json-path", report),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert found.returncode == 0, found.stdout
    assert json.loads(report.read_text())["test_cases"]["generated"] >= CASES
