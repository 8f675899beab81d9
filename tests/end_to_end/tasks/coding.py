"""Repositories, tasks and checks for leftovers, for the end-to-end tests of coding tasks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from interlock.kernel.record import Record
from interlock.systems.tasks.agents import Agents
from tests.end_to_end.deployment import Deployment
from tests.git.scene import begin_original
from tests.processes import processes

AGENTS = {"INTERLOCK_AGENTS_MAX": "2"}
# Of a deployment that tests share: the agents that a test leaves behind must not keep others out.
SHARED_AGENTS = AGENTS | {"INTERLOCK_AGENTS_MAX": "24"}
FIXES = "echo 42 > answer.txt"
# An agent that reports this works, even if it ends at once.
READY = """echo '{"type": "ready"}' >&$INTERLOCK_REPORT_FD"""
# Arguments of git that list the branches of all claims.
BRANCHES = ("branch", "--list", "interlock/*", "--format=%(refname:short)")


def git(folder: Path, *arguments: str) -> str:
    command = ["/usr/bin/env", "git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_repository(folder: Path) -> Path:
    """Make a repository whose one test fails."""
    return Path(shutil.copytree(_original(), folder))


@cache
def _original() -> Path:
    folder = begin_original()
    (folder / "answer.txt").write_text("41\n")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "begin")
    return folder


def task(repo: Path, agent: str, **more: Any) -> dict[str, Any]:
    signals = [{"type": "test_passes", "value": 'test "$(cat answer.txt)" = 42'}]
    return {"title": "fix it", "repo": str(repo), "agent": agent, "signals": signals, **more}


def submit(deployment: Deployment, name: str, payload: dict[str, Any]) -> str:
    return str(
        deployment.client.submit(payload, id=f"{deployment.scope}/{name}", machine="task").id
    )


def reaches(deployment: Deployment, record_id: str, *states: str, within_s: float = 120) -> Record:
    return deployment.reaches(record_id, *states, within_s=within_s)


def gate_of(go: Path) -> str:
    """Return a command that prints a line, so that its agent works, and waits for a file."""
    return f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done"


def events(deployment: Deployment, record_id: str) -> list[str]:
    return [event.target for event in deployment.events(record_id)]


def trees(repo: Path) -> int:
    return git(repo, "worktree", "list", "--porcelain").count("worktree ")


def nothing_left(deployment: Deployment, repo: Path, name: str, number: int = 1) -> None:
    """Wait until agent and turn have ended, and until no worktree is left."""
    reaches(deployment, f"{deployment.scope}/agent~{name}~{number}", "dead")
    reaches(deployment, f"{deployment.scope}/turn~{name}~{number}", "reaped")
    deployment.sees(lambda: trees(repo) == 1, what="no worktree is left")


def trusted(deployment: Deployment, command: str, levels: int, *, name: str = "agent") -> str:
    """Promote an agent before its first task; return its identity."""
    agents = Agents(deployment.client)
    identity = agents.register(deployment.scope, name=name, command=command)
    for _ in range(levels):
        agents.promote(identity)
    return identity


def supervisors(name: str = "") -> list[int]:
    """Return the supervisors with this name in the path of their launch spec.

    Each is the leader of its own operating-system session.
    """

    def supervises(pid: int, command: bytes) -> bool:
        matches = b"interlock.systems.tasks.supervisor" in command and name.encode() in command
        return matches and os.getsid(pid) == pid

    return processes(supervises)


def kill_supervisor(name: str) -> None:
    """Kill the supervisor with this name in the path of its launch spec."""
    found = supervisors(name)
    assert found, f"there is no supervisor of {name}"
    os.kill(found[0], signal.SIGKILL)
