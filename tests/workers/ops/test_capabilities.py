"""`interlock capabilities`: what threads can do, and what is left out with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.gateways.server import free_port

FILE = """
[[module]]
name = "tests.end_to_end.threads.capabilities"

[[mcp]]
name = "words"
command = "no-such-server"

[[mcp.tool]]
tool = "word_count"
idempotent = true
irreversibility = "low"
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name capabilities of which one has a server that does not start, and a store that is down."""
    file = tmp_path / "some.toml"
    file.write_text(FILE, "utf-8")
    monkeypatch.setenv("INTERLOCK_CAPABILITIES", str(file))
    monkeypatch.setenv("INTERLOCK_STORE_URL", f"redis://127.0.0.1:{free_port()}/0")


def test_capabilities_lists_each_with_its_schema_and_risk_for_programs() -> None:
    result = CliRunner().invoke(app, ["capabilities", "--json"])

    value = json.loads(result.stdout)
    listed = {found["name"]: found for found in value["capabilities"]}
    assert result.exit_code == 0
    assert {"decompose", "jot", "press"} <= set(listed)
    assert listed["press"]["parameters"]["required"] == ["copies"]
    assert listed["press"]["irreversibility"] in ("low", "medium", "high")
    assert "word_count" not in listed
    assert list(value["left_out"]) == ["word_count"]
    assert "No such file" in value["left_out"]["word_count"]


def test_capabilities_are_printed_for_people_with_what_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    output = CliRunner().invoke(app, ["capabilities"]).stdout

    (row,) = [line for line in output.splitlines() if line.strip().startswith("press")]
    assert row.split()[:3] == ["press", "copies", "low"]
    (left_out,) = [line for line in output.splitlines() if line.startswith("left out word_count: ")]
    assert "No such file" in left_out
