"""Runs in the page's form: on the command line, and as its state file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from interlock.kernel.event import Note
from interlock.kernel.record import RecordId
from interlock.systems.runs.archive.export import ExportError
from interlock.systems.runs.client import Runs
from interlock.systems.runs.machines.events import run_event
from interlock.systems.runs.state_file import validate_state_file, write_state_file
from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from tests.damage import chances, damaged, torn
from tests.systems.runs.workspaces import StoredWorkspace

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
CODON = {"codonId": "c", "status": "preparing", "startTime": "2026-11-23T08:00:00.000Z"}
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
        (lose_session, "invalid_codon", "claudeSessionId: this field is missing, add it"),
        (change_checkpoint, "missing_checkpoint", "b" * 40),
        (lose_run_id, "corrupted_data", "runs.0 is invalid: runId: this field is missing, add it"),
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


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({"codons": [{"checkpoints": None}]}, "codon None of 1"),
        ({"codons": [{**CODON, "checkpoints": None, "starting": "x"}]}, ""),
        ({"codons": [{**CODON, "failedDuring": "x" * 9, "status": "failed"}]}, "codon c of 1"),
        ({"codons": None}, "runs.0 is invalid: codons: "),
        ({"codons": ["x"]}, "runs.0 is invalid: codons.0: "),
        ({"startingConditions": {"source": "x"}}, "runs.0 is invalid: startingConditions.source: "),
        ({"startingConditions": "x"}, "runs.0 is invalid: startingConditions: "),
        ({"startingConditions": {"source": None}}, ""),
        ({"initialCheckpoint": 7}, "runs.0 is invalid: initialCheckpoint: "),
    ],
)
def test_a_bad_state_file_is_described(tmp_path: Path, run: dict[str, Any], problem: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"runs": [{"runId": "1", **run}]}))

    found = validate_state_file(file, tmp_path)

    assert found is not None
    shown = [f"{one.where} {one.message}" for one in found.errors]
    assert len(shown) == bool(problem)
    assert all(problem in each for each in shown)


def test_a_state_file_that_is_nested_deeply_is_described(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    nested = '{"a": ' * 600 + "1" + "}" * 600
    file.write_text(f'{{"runs": [{{"runId": "1", "more": {nested}}}]}}')

    found = validate_state_file(file, tmp_path)

    assert found is not None
    assert [one.message for one in found.errors] == ["runs.0 is invalid: it is nested too deeply"]


@pytest.mark.parametrize("depth", [300, 50_000])
def test_an_event_that_is_nested_deeply_is_refused_by_the_command(
    workspace: StoredWorkspace, command: Command, depth: int
) -> None:
    workspace.completed_run()
    nested = '{"reason": ' * depth + "1" + "}" * depth
    event = f'{{"type": "RunFailed", "data": {nested}}}'

    assert "the event is invalid: " in command("tell", event, "--wait", "0", code=1)


def test_the_command_says_why_an_event_is_refused(
    workspace: StoredWorkspace, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = json.dumps({"type": "RunFailed", "data": {"run_id": workspace.completed_run()}})
    told = {"mail": "1-0", "reason": "the run has ended"}
    refused = Note(RecordId("w"), "2-0", "event_refused", told, 0)
    monkeypatch.setattr(Runs, "answer", lambda *_: refused)

    said = command("tell", event, code=1)

    assert "event_refused" in said
    assert "the run has ended" in said


def test_an_event_that_no_worker_reads_in_time_is_an_error_of_the_kind_that_programs_know(
    workspace: StoredWorkspace, command: Command
) -> None:
    event = json.dumps({"type": "RunFailed", "data": {"run_id": workspace.completed_run()}})

    said = json.loads(command("tell", event, "--wait", "0.01", "--json", code=1))

    assert said["error"] == "StoreDownError"
    assert "is not read yet; is a worker up?" in said["message"]


def test_an_export_replaces_no_complete_file_of_the_other_format(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    state, archive = (workspace.home.parent / name for name in ("state.json", "runs.json"))
    workspace.runs.export_state(workspace.folder, state)
    workspace.runs.export(workspace.folder, archive)
    before = state.read_bytes(), archive.read_bytes()

    with pytest.raises(ExportError, match="is a state file in the page's names"):
        workspace.runs.export(workspace.folder, state)
    with pytest.raises(ExportError, match="is an export that `interlock run import` can read"):
        workspace.runs.export_state(workspace.folder, archive)

    assert (state.read_bytes(), archive.read_bytes()) == before


def test_what_was_no_state_file_is_no_backup_of_one(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text("{torn")

    write_state_file(file, [])

    assert json.loads(file.read_text()) == {"currentRunId": None, "runs": []}
    assert not file.with_name("state.json.bak").exists()


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
def test_a_file_that_is_nearly_a_state_file_is_described(tmp_path: Path, chance: Random) -> None:
    file = tmp_path / "state.json"
    run = {"runId": "1", "codons": [CODON], "initialCheckpoint": "a" * 40}
    whole = {"runs": [run, {**run, "runId": "2"}], "currentRunId": "2"}
    text = json.dumps(damaged(whole, chance)).encode()
    for content in (text, torn(text, chance)):
        file.write_bytes(content)
        validate_state_file(file, None)
