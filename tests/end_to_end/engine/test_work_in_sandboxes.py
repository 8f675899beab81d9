"""Long-lived agents, runs and jobs work in a sandbox, and read no secret of their deployment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.loops.agents import Agents
from tests.end_to_end.runs.workspaces import RunWorkspace
from tests.end_to_end.tasks.coding import git

AUTHOR = "-c user.name=u -c user.email=u@x"


@pytest.fixture
def deployment(new_deployment: NewDeployment, tmp_path: Path) -> Deployment:
    """Return a deployment with a secret in its home; commands may write beside its home."""
    made = new_deployment(
        INTERLOCK_SANDBOX="required",
        INTERLOCK_SANDBOX_WRITABLE=str(tmp_path),
        INTERLOCK_WORKTREES=str(tmp_path / "trees"),
    )
    (made.folder / "home").mkdir()
    (made.folder / "home" / "token").write_text("secret")
    return made.full()


def test_a_long_lived_agent_keeps_its_commits_and_branches_from_session_to_session(
    deployment: Deployment, tmp_path: Path
) -> None:
    agents = Agents(deployment, tmp_path)
    token, seen = deployment.folder / "home" / "token", tmp_path / "seen"
    commit = f"git {AUTHOR} commit -qm"
    first = (
        f"cat {token} >> {seen}; echo 1 > one; git add one; {commit} one;"
        f"git switch -qc side; echo 2 > two; git add two; {commit} two; git switch -q -;"
        "git update-ref refs/heads/main HEAD"
    )
    main = git(agents.repo, "rev-parse", "main")
    agents.start("owl", next="on_mail")
    agents.send("owl", {"sh": first})
    agents.wait_for("owl", 1, "end")
    agents.send("owl", {"sh": f"git log --format=%s side interlock/agents/owl -- >> {seen}"})
    agents.wait_for("owl", 2, "end")

    agents.loops.stop("owl", wait_s=120)

    assert seen.read_text().split() == ["two", "one", "begin"]
    assert git(agents.repo, "log", "--format=%s", "interlock/agents/owl") == "one\nbegin"
    assert git(agents.repo, "rev-parse", "main") == main


def test_who_gets_mail_sees_what_its_sender_has_committed_before_it(
    deployment: Deployment, tmp_path: Path
) -> None:
    agents, seen = Agents(deployment, tmp_path), tmp_path / "seen"
    for name in ("owl", "bat"):
        agents.start(name, next="on_mail")
        agents.reaches(name, "session_complete")
    look = json.dumps({"sh": f"git log -1 --format=%s interlock/agents/owl > {seen}"})
    agents.send(
        "owl",
        {"sh": f"git {AUTHOR} commit -q --allow-empty -m 'for the bat'"},
        {"type": "mail", "to": "bat", "text": look},
        {"wait": str(tmp_path / "go")},  # its end brings in nothing, as there is none
    )
    agents.wait_for("bat", 2, "end")

    assert seen.read_text() == "for the bat\n"
    assert agents.record("owl").state == "running"
    for name in ("owl", "bat"):
        agents.loops.stop(name, wait_s=120)


def test_a_run_writes_to_its_workspace_and_to_no_program_of_git(
    deployment: Deployment, tmp_path: Path
) -> None:
    workspace = RunWorkspace(deployment, tmp_path)
    git(workspace.folder, "init", "-q")
    git_files = contents(workspace.folder / ".git")
    token = deployment.folder / "home" / "token"
    tries = (
        f"cat {token} >> seen; git config core.fsmonitor evil; mv .git away;"
        "echo .. > .git/commondir; mkdir .git/modules .git/worktrees;"
        "git --git-dir .interlock/checkpoints config core.fsmonitor evil; mv .interlock other;"
        "ln -s /evil .git/index; ln -s /evil .git/logs; true"
    )
    workspace.run_to_end(
        f"""
        sentinels:
          eye: {{on: [codon_started], command: "cat {token} >> seen; true"}}
        codons:
          - codon: one
            rig: [{{command: {{run: "{tries}"}}}}]
            sentinels: [eye]
            command: "{tries}; echo done > made"
        """,
        "completed",
    )
    assert (workspace.folder / "made").read_text() == "done\n"
    assert (workspace.folder / "seen").read_text() == ""
    assert contents(workspace.folder / ".git") == git_files
    assert "evil" not in (workspace.folder / ".interlock/checkpoints/config").read_text()
    assert not (workspace.folder / "other").exists()


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the files in a folder, and its folders without a content."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_a_job_sees_the_folders_of_its_graph_and_changes_its_own(
    deployment: Deployment, tmp_path: Path
) -> None:
    token = deployment.folder / "home" / "token"
    earlier = "echo found > $INTERLOCK_JOB_DIR/result"
    later = (
        f"cat {token} >> seen; cat $INTERLOCK_JOB_DIR/../a/result >> seen;"
        "echo evil > $INTERLOCK_JOB_DIR/../a/result; echo done > $INTERLOCK_JOB_DIR/own; true"
    )
    for name, command in {"a": earlier, "b": later}.items():
        phases = [{"worker": {"command": command}}]
        given = {"phases": phases, "folder": str(tmp_path), "auto_approve": True}
        waits = {"depends_on": ["g/a"]} if name == "b" else {}
        deployment.client.submit(given | waits, id=f"g/{name}", machine="job")
    deployment.reaches("g/b", "success")
    assert (tmp_path / "seen").read_text() == "found\n"
    jobs = deployment.folder / "home" / "jobs" / "g"
    assert [(jobs / file).read_text() for file in ("a/result", "b/own")] == ["found\n", "done\n"]
