"""The processes and branches of a lost try are removed for the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.tasks.coding import (
    AGENTS,
    BRANCHES,
    FIXES,
    git,
    make_repository,
    nothing_left,
    reaches,
    submit,
    supervisors,
    task,
)
from tests.processes import is_alive, marked


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a repository whose one test fails."""
    return make_repository(tmp_path / "repo")


@pytest.mark.proof
def test_leftovers_of_a_supervisor_and_watchdog_killed_at_once_are_killed_before_the_next_try(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    deployment = new_deployment(**AGENTS).full()
    pids, alive, stay, agent = (tmp_path / name for name in ("pids", "alive", "stay", "agent"))
    stay.write_text(f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 0.1; done")
    agent.write_text(
        f"echo begun\nif [ ! -e {pids} ]; then setsid bash {stay} & exec bash {stay}; fi\n"
        f"for pid in $(cat {pids}); do grep -q '^State:.[^ZX]' /proc/$pid/status && touch {alive}; "
        f"done\n{FIXES}"
    )
    task_id = submit(deployment, "both", task(repo, f"bash {agent}"))
    reaches(deployment, task_id, "in_progress")
    deployment.sees(
        lambda: pids.exists() and len(pids.read_text().split()) == 2, what="both processes run"
    )
    supervisor = supervisors("both~1")[0]
    watchdogs = [
        pid
        for pid, words in marked("DEPLOYMENT_FOLDER", str(deployment.folder)).items()
        if "processes.agent.watchdog" in words
    ]
    assert watchdogs, "the watchdogs were not found"

    for pid in (supervisor, *watchdogs):
        os.kill(pid, signal.SIGSTOP)
    for pid in (supervisor, *watchdogs):
        os.kill(pid, signal.SIGKILL)

    record = reaches(deployment, task_id, "closed", within_s=90)
    assert record.data["crashes"] == 1
    assert not alive.exists(), "a process of the first agent ran beside the second"
    assert not [pid for pid in pids.read_text().split() if is_alive(int(pid))]
    nothing_left(deployment, repo, "both", 2)
    assert git(repo, *BRANCHES) == ""
