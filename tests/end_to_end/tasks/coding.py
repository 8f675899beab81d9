"""What tests of coding tasks share: repositories, tasks, and looks at what is left."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from interlock.kernel.record import Record
from interlock.workers.tasks.agents import Agents
from tests.end_to_end.deployment import Deployment
from tests.processes import processes

AGENTS = {"INTERLOCK_AGENTS_MAX": "2", "INTERLOCK_LEASE_S": "3"}
FIXES = "echo 42 > answer.txt"


def git(folder: Path, *words: str) -> str:
    command = ["/usr/bin/env", "git", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_repository(folder: Path) -> Path:
    """Make a repository whose one test fails."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "answer.txt").write_text("41\n")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "begin")
    return folder


def task(repo: Path, agent: str, **more: Any) -> dict[str, Any]:
    signals = [{"type": "test_passes", "value": 'test "$(cat answer.txt)" = 42'}]
    return {"title": "mend it", "repo": str(repo), "agent": agent, "signals": signals, **more}


def submit(deployment: Deployment, name: str, payload: dict[str, Any]) -> str:
    return str(deployment.client.submit(payload, id=f"b/{name}", machine="task").id)


def reaches(deployment: Deployment, of: str, *states: str, within_s: float = 60) -> Record:
    return deployment.reaches(of, *states, within_s=within_s)


def events(deployment: Deployment, of: str) -> list[str]:
    return [event.target for event in deployment.events(of)]


def trees(repo: Path) -> int:
    return git(repo, "worktree", "list", "--porcelain").count("worktree ")


def nothing_left(deployment: Deployment, repo: Path, name: str, number: int = 1) -> None:
    """Wait until agent and turn have ended, and see that no worktree is left."""
    reaches(deployment, f"b/agent~{name}~{number}", "dead")
    reaches(deployment, f"b/turn~{name}~{number}", "reaped")
    deployment.sees(lambda: trees(repo) == 1, what="no worktree is left")


def trusted(deployment: Deployment, command: str, levels: int, *, name: str = "agent") -> str:
    """Vouch for an agent before its first task; return its identity."""
    agents = Agents(deployment.client)
    of = agents.known("b", name=name, command=command)
    for _ in range(levels):
        agents.promote(of)
    return of


def keepers(of: str = "") -> list[int]:
    """Return the keepers whose brief has this in its name; each leads a session of its own."""

    def keeps(pid: int, words: bytes) -> bool:
        mine = b"interlock.workers.tasks.supervisor" in words and of.encode() in words
        return mine and os.getsid(pid) == pid

    return processes(keeps)


def kill_keeper(of: str) -> None:
    """Kill the keeper that was told this brief."""
    found = keepers(of)
    assert found, f"there is no keeper of {of}"
    os.kill(found[0], signal.SIGKILL)
