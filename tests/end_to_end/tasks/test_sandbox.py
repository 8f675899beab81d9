"""An agent in a sandbox does its task, and reaches nothing of the deployment that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.tasks.coding import (
    AGENTS,
    FIXES,
    gate_of,
    git,
    make_repository,
    nothing_left,
    reaches,
    submit,
    task,
)

AUTHOR = "git -c user.name=u -c user.email=u@x"
SECRET = "redis-password-of-a-worker"
# What an agent tries, and what each prints if it succeeds.
ATTACKS = {
    "reads the token in the home": "cat $HOME_FOLDER/token",
    "reads the environment of a worker": f"grep -sl {SECRET} /proc/[0-9]*/environ",
    "sees the supervisor": "ps axww | grep '[i]nterlock.systems.tasks.supervisor'",
    "stops a worker": "kill -0 $WORKER && echo reached",
    "reads what another agent is to do": "cat $HOME_FOLDER/supervisors/*/victim*/task.md",
    "reads the worktree of another task": "cat $OTHER/answer.txt",
    "writes to the worktree of another task": "echo 7 >> $OTHER/notes.txt && echo written",
    "merges its own work": f"{AUTHOR} commit -qam mine; git push -q $REPO HEAD:main;"
    " git update-ref refs/heads/main HEAD; git log --format=%s main | grep mine",
    "makes git run a program": "git config core.fsmonitor /evil; grep fsmonitor $REPO/.git/config",
    "makes a hook": "echo exit 1 > $REPO/.git/hooks/pre-push; cat $REPO/.git/hooks/pre-push",
    "finds a setting of Interlock": "env | grep -E '^INTERLOCK_(STORE|HOME|API|BROKER)'",
}
# Where the attack's effect is on its own copy, what it sees there tells nothing.
LOOKED_AT_AFTERWARDS = ("merges its own work", "makes git run a program", "makes a hook")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = make_repository(tmp_path / "repo")
    (made / ".git" / "hooks").mkdir(exist_ok=True)
    return made


@pytest.fixture
def worker() -> Iterator[int]:
    """Return a process of the same user whose environment has a secret, as a worker's has."""
    environment = {**os.environ, "INTERLOCK_STORE_URL": SECRET}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=environment, stdin=-1) as process:
        yield process.pid
        process.kill()


def token_of(deployment: Deployment) -> Path:
    """Return a file with a secret in the home of a deployment."""
    token = deployment.folder / "home" / "token"
    token.parent.mkdir(exist_ok=True)
    token.write_text(SECRET)
    return token


def attacked(deployment: Deployment, repo: Path, tmp_path: Path, worker: int) -> set[str]:
    """Let an agent attack while another one works; return what succeeded."""
    token = token_of(deployment)
    deployment.full()
    waits = f"{gate_of(tmp_path / 'deployment0' / 'go')}; {FIXES}"
    victim = submit(deployment, "victim", task(repo, waits, needs_approval=True))
    other = reaches(deployment, victim, "in_progress")
    folder = deployment.client.show("b/turn~victim~1").data["worktree"]
    where = f"HOME_FOLDER={token.parent} OTHER={folder} REPO={repo} WORKER={worker}"
    tries = "\n".join(
        f'found=$({attack} 2>/dev/null); [ -n "$found" ] && echo "@@{name}"'
        for name, attack in ATTACKS.items()
    )
    attacker = f"export {where}; {FIXES}\n{tries}\ntrue"
    done = submit(deployment, "attacker", task(repo, attacker, needs_approval=True))
    reaches(deployment, done, "pending_approval")
    printed = (token.parent / "supervisors" / "b" / "attacker~1" / "output.log").read_text()
    (tmp_path / "deployment0" / "go").touch()
    reaches(deployment, victim, "pending_approval")
    assert other.state == "in_progress"
    return {name for name in ATTACKS if f"@@{name}" in printed}


def seen_in(repo: Path) -> set[str]:
    """Return which attacks had an effect on a repository."""
    found = {
        "merges its own work": "mine" in git(repo, "log", "--format=%s", "main"),
        "makes git run a program": "fsmonitor" in (repo / ".git" / "config").read_text(),
        "makes a hook": (repo / ".git" / "hooks" / "pre-push").exists(),
    }
    return {name for name, is_seen in found.items() if is_seen}


def new_one(new_deployment: NewDeployment, tmp_path: Path, sandbox: str, **more: str) -> Deployment:
    # All of the deployment can be written, but for what is hidden in it.
    folder = str(tmp_path / "deployment0")
    where = {"INTERLOCK_WORKTREES": f"{folder}/trees", "INTERLOCK_SANDBOX_WRITABLE": folder}
    return new_deployment(**{**AGENTS, **where, "INTERLOCK_SANDBOX": sandbox, **more})


def test_an_agent_reaches_nothing_and_its_task_is_done(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path, worker: int
) -> None:
    deployment = new_one(new_deployment, tmp_path, "required")
    config = (repo / ".git" / "config").read_bytes()

    succeeded = attacked(deployment, repo, tmp_path, worker)

    assert succeeded - {*LOOKED_AT_AFTERWARDS} == set()
    assert seen_in(repo) == set()
    assert (repo / ".git" / "config").read_bytes() == config
    for name in ("attacker", "victim"):
        record = deployment.client.show(f"b/{name}")
        assert record.data["claim"]["sandbox"] == "bubblewrap"
        deployment.client.decide(record.id, "approve", proposal=record.proposal)
        reaches(deployment, record.id, "closed")
    for name in ("attacker", "victim"):
        nothing_left(deployment, repo, name)
        # The first process of a sandbox is none that its agent has left behind.
        ended = deployment.events(f"b/agent~{name}~1")[-1]
        assert ended.payload.get("left_behind", 0) == 0
    assert git(repo, "show", "main:answer.txt") == "42"
    git(repo, "fsck", "--strict")


def test_without_a_sandbox_each_of_these_attacks_succeeds(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path, worker: int
) -> None:
    git(repo, "config", "receive.denyCurrentBranch", "ignore")
    deployment = new_one(new_deployment, tmp_path, "off")
    assert attacked(deployment, repo, tmp_path, worker) == {*ATTACKS} - {
        "finds a setting of Interlock"  # no agent is given any
    }
    assert seen_in(repo) == {*LOOKED_AT_AFTERWARDS}
    assert deployment.client.show("b/attacker").data["claim"]["sandbox"] == "none"


def test_what_checks_the_work_of_an_agent_is_in_a_sandbox_too(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    deployment = new_one(new_deployment, tmp_path, "required").full()
    token = token_of(deployment)
    confined = f"! cat {token} && ! git update-ref refs/heads/main HEAD && git status"
    signals = [{"type": "test_passes", "value": confined}]
    hooks = [confined.replace("git status", "git diff")]
    task_id = submit(deployment, "checked", task(repo, FIXES, signals=signals, stop_hooks=hooks))
    checked = reaches(deployment, task_id, "closed", "failed")
    assert checked.state == "closed", checked.data


def test_a_session_works_on_task_after_task_in_one_sandbox(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    deployment = new_one(new_deployment, tmp_path, "required", INTERLOCK_AGENTS_MAX="1").full()
    token = token_of(deployment)
    program = tmp_path / "deployment0" / "session.py"
    program.write_text(
        "import json, os, sys\n"
        "report = os.fdopen(int(os.environ['INTERLOCK_REPORT_FD']), 'w')\n"
        "for number, line in enumerate(sys.stdin):\n"
        "    given = json.loads(line)\n"
        "    os.chdir(given['worktree'])\n"
        f"    assert not os.path.exists({str(token)!r})\n"
        "    open(given['title'] + '.txt', 'w').write(str(number))\n"
        "    kind = {'type': 'verify_requested', 'summary': str(os.listdir('..'))}\n"
        "    print(json.dumps(kind), file=report, flush=True)\n"
    )
    command = f"{sys.executable} {program}"
    signals = [{"type": "glob_exists", "value": "*.txt"}]
    for name in ("one", "two"):
        given = {"title": name, "signals": signals, "session": True, "idle_limit_s": 60}
        task_id = submit(deployment, name, task(repo, command) | given)
        reaches(deployment, task_id, "closed")
    assert [git(repo, "show", f"main:{name}.txt") for name in ("one", "two")] == ["0", "1"]
