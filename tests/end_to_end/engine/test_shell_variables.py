"""A worker whose shell has variables that lead elsewhere runs all work in its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.runs.workspaces import RunWorkspace
from tests.end_to_end.tasks.coding import AGENTS, git, make_repository, task

PLAN = """
sentinels:
  eye: {on: [codon_transitioned], command: "echo $GIT_DIR$CDPATH > sentinel.txt"}
codons:
  - codon: one
    rig: [{command: {run: "echo $GIT_DIR$CDPATH > rig.txt"}}]
    sentinels: [eye]
    command: "echo $GIT_DIR$CDPATH > codon.txt; git init -q inside"
"""
COMMITS = "echo 42 > answer.txt; git add -A; git -c user.name=a -c user.email=a@x commit -qm mine"
IN_ITS_FOLDER = 'cd inner && test "$(pwd -P)" = "$(cd .. && git rev-parse --show-toplevel)/inner"'


def test_all_kinds_of_work_run_in_their_own_folder(
    new_deployment: NewDeployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, repo = make_repository(tmp_path / "other"), make_repository(tmp_path / "repo")
    for folder in (other, repo):
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
        git(folder, "add", "-A")
        git(folder, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "inner")
    before = git(other, "show-ref")
    shell = {
        "GIT_DIR": str(other / ".git"),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "CDPATH": str(other),
        "PWD": str(other),
    }
    deployment = new_deployment(**AGENTS)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    deployment.full()
    for name in shell:
        monkeypatch.delenv(name)
    workspace = RunWorkspace(deployment, tmp_path / "runs")

    signals = [{"type": "test_passes", "value": IN_ITS_FOLDER}]
    payload = task(repo, COMMITS, signals=signals, stop_hooks=[IN_ITS_FOLDER])
    deployment.client.submit(payload, id="b/t", machine="task")
    worker = {"command": "echo $GIT_DIR$CDPATH > job.txt; git init -q inside"}
    job = {"phases": [{"worker": worker}], "folder": str(tmp_path), "dir": str(tmp_path / "job")}
    deployment.client.submit({**job, "auto_approve": True}, id="g/j", machine="job")
    workspace.run_to_end(PLAN, "completed")
    deployment.reaches("g/j", "success")
    deployment.reaches("b/t", "closed")

    assert git(repo, "log", "--topo-order", "--format=%s", "main").splitlines()[1:2] == ["mine"]
    assert git(other, "show-ref") == before
    said = [*workspace.folder.glob("*.txt"), tmp_path / "job.txt"]
    assert {file.stem: file.read_text() for file in said} == dict.fromkeys(
        ("sentinel", "rig", "codon", "job"), "\n"
    )
    assert all((folder / "inside" / ".git").is_dir() for folder in (workspace.folder, tmp_path))
