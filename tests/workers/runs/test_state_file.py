"""Runs in the page's form: on the command line, and as its state file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.machines.runs.events import run_event
from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.runs.state_file import write_state_file
from tests.workers.runs.workspaces import StoredWorkspace

# The fields that the page lists for a codon that is completed, and was ended in its first state.
OF_COMPLETED = {
    "status",
    "codonId",
    "startTime",
    "endTime",
    "claudeLogPath",
    "claudeSessionId",
    "assistantMessageCount",
    "sentinels",
    "finalCost",
    "finalTokens",
    "exitCode",
    "resultMessageReceived",
    "contextExceeded",
    "completionCheckpoint",
}
Command = Callable[..., str]


@pytest.fixture
def command(
    workspace: StoredWorkspace,
    server: EmbeddedServer,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    """Return a function that runs `interlock run ...` in the workspace's folder."""
    given = {"STORE_URL": server.url, "PREFIX": prefix, "HOME": workspace.home}
    for name, value in given.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", str(value))
    monkeypatch.chdir(workspace.folder)

    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["run", *words])
        assert done.exit_code == code, done.output
        return done.output

    return run


def state_file(workspace: StoredWorkspace) -> Path:
    """Return the state file of a completed run and of one whose codon is running."""
    workspace.completed_run()
    workspace.codon(workspace.start_run(), upto="running")
    file = workspace.home.parent / "state.json"
    workspace.runs.export_state(workspace.folder, file)
    return file


def test_the_commands_print_the_pages_names_and_units(
    workspace: StoredWorkspace, command: Command
) -> None:
    run = workspace.completed_run()
    published = ("--json", "--names", "hankweave")

    status = json.loads(command("status", *published))
    costs = json.loads(command("costs", "--since", "1", *published))
    lines = [json.loads(line) for line in command("watch", *published).splitlines()]

    assert (status["runId"], status["status"], status["branch"]) == (run, "completed", "run-1")
    (codon,) = status["codons"]
    assert set(codon) == OF_COMPLETED
    assert (codon["finalCost"], codon["claudeSessionId"]) == (0.0005, "s")
    assert codon["sentinels"]["executed"][0]["llmCallCount"] == 0
    assert {name: costs[name] for name in ("currentRun", "total", "since")} == {
        "currentRun": 0.0005,
        "total": 0.0005,
        "since": 0.0005,
    }
    assert costs["codons"] == [codon]
    metadata = [line["event"]["data"].get("metadata", {}) for line in lines]
    assert {"claudePid": 7, "claudeLogPath": "clean.log"} in metadata
    ours = [dict(one.event) for one in workspace.runs.events_after(workspace.open()) if one.event]
    assert [run_event(line["event"]) for line in lines] == [run_event(event) for event in ours]
    assert "--json" in command("status", "--names", "hankweave", code=2)


def test_a_state_file_is_written_with_a_backup_and_is_valid(
    workspace: StoredWorkspace, command: Command
) -> None:
    file = state_file(workspace)
    before = file.read_bytes()

    command("export", str(file), "--names", "hankweave")

    assert file.with_name("state.json.bak").read_bytes() == before
    assert not file.with_name("state.json.tmp").exists()
    state = json.loads(file.read_text())
    assert [run["runId"] for run in state["runs"]] == [f"{workspace.id}/1", f"{workspace.id}/2"]
    assert state["currentRunId"] == f"{workspace.id}/2"
    assert [run["codons"][0]["status"] for run in state["runs"]] == ["completed", "running"]
    found = workspace.runs.validate_export(file, workspace.folder)
    assert (found.valid, found.errors, found.warnings) == (True, (), ())


def lose_current_run(state: dict[str, Any]) -> None:
    state["currentRunId"] = "other"


def lose_session(state: dict[str, Any]) -> None:
    del state["runs"][1]["codons"][0]["claudeSessionId"]


def change_checkpoint(state: dict[str, Any]) -> None:
    state["runs"][0]["codons"][0]["completionCheckpoint"] = "b" * 40


def lose_run_id(state: dict[str, Any]) -> None:
    del state["runs"][0]["runId"]


def change_cost(state: dict[str, Any]) -> None:
    state["runs"][0]["codons"][0]["finalCost"] = "much"


@pytest.mark.parametrize(
    ("damage", "fault", "problem"),
    [
        (lose_current_run, "missing_run", "currentRunId is other, which is no run"),
        (lose_session, "invalid_codon", "claudeSessionId: Field required"),
        (change_checkpoint, "missing_checkpoint", "b" * 40),
        (lose_run_id, "corrupted_data", "runs.0 is invalid: runId: Field required"),
        (
            change_cost,
            "corrupted_data",
            "runs.0 is invalid: codons.0.finalCost: 'much' is",
        ),
    ],
)
def test_a_state_file_is_validated_by_the_kinds_of_the_page(
    workspace: StoredWorkspace, damage: Callable[[dict[str, Any]], None], fault: str, problem: str
) -> None:
    file = state_file(workspace)
    state = json.loads(file.read_text())
    damage(state)
    file.write_text(json.dumps(state))

    (finding,) = workspace.runs.validate_export(file, workspace.folder).errors

    assert str(finding.type) == fault
    assert problem in finding.message


def test_what_was_no_state_file_is_no_backup_of_one(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text("{torn")

    write_state_file(file, [])

    assert json.loads(file.read_text()) == {"currentRunId": None, "runs": []}
    assert not file.with_name("state.json.bak").exists()
