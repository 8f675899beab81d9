"""Coding tasks as programs and external agents use them: submit, claim, report, list."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from interlock.kernel.errors import (
    CallError,
    FencedError,
    GuardRefusedError,
    HeldError,
    IllegalTransitionError,
    InvalidIdError,
)
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.tasks.client import TaskClaim, Tasks
from interlock.workers.tasks.verification.signals import InvalidSignalError
from tests.workers.gateways.git.scene import git, make_repository
from tests.workers.threads.threads import client_of


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def tasks(client: Client) -> Tasks:
    return Tasks(client)


def submitted(tasks: Tasks, name: str, *, priority: int = 5, **more: Any) -> str:
    return str(tasks.submit({"title": name, **more}, backlog="b", name=name, priority=priority).id)


def claimed(tasks: Tasks, **options: Any) -> TaskClaim:
    claim = tasks.claim_next("b", owner="ann", **options)
    assert claim is not None
    return claim


def test_tasks_are_claimed_by_priority_then_age_and_by_role(tasks: Tasks) -> None:
    submitted(tasks, "late", priority=9)
    submitted(tasks, "first")
    submitted(tasks, "second")
    submitted(tasks, "writing", role="writer")

    assert [claimed(tasks).task for _ in range(3)] == ["b/first", "b/second", "b/late"]
    assert tasks.claim_next("b", owner="ann") is None
    assert claimed(tasks, role="writer").task == "b/writing"


def test_a_task_that_cannot_be_claimed_now_is_skipped(tasks: Tasks) -> None:
    submitted(tasks, "later", depends_on=["missing"])
    submitted(tasks, "tomorrow", not_before=4_000_000_000_000)
    submitted(tasks, "others", tenant="acme")
    submitted(tasks, "now")

    assert claimed(tasks).task == "b/now"
    assert tasks.claim_next("b", owner="ann") is None
    assert claimed(tasks, tenant="acme").task == "b/others"
    with pytest.raises(GuardRefusedError):
        tasks.claim("b/later", owner="ann")


def test_a_claim_is_reported_on_with_its_own_token_only(tasks: Tasks) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)

    assert tasks.heartbeat(claim.key, claim.token) == "go"
    with pytest.raises(FencedError):
        tasks.report(claim.key, "1-forged", "started")
    assert tasks.report(claim.key, claim.token, "started").state == "in_progress"
    with pytest.raises(IllegalTransitionError):
        tasks.claim("b/one", owner="bob")
    done = tasks.report(claim.key, claim.token, "completed", {"summary": "done"})
    assert done.state == "done"
    assert tasks.heartbeat(claim.key, claim.token) == "lost"


def test_a_claimed_task_that_is_taken_away_stops_its_holder(tasks: Tasks, client: Client) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)
    client.fire("b/one", "released", {"reason": "another is better"})

    assert tasks.heartbeat(claim.key, claim.token) == "stop"
    with pytest.raises(FencedError):
        tasks.report(claim.key, claim.token, "completed", {"summary": "late"})


def test_two_tasks_that_own_one_file_are_not_worked_on_at_once(tasks: Tasks) -> None:
    submitted(tasks, "one", owned_files=["src"])
    submitted(tasks, "two", owned_files=["src/a.py"])
    first = claimed(tasks)

    assert tasks.claim_next("b", owner="bob") is None
    with pytest.raises(HeldError, match="b/one holds what it needs"):
        tasks.claim("b/two", owner="bob")
    tasks.report(first.key, first.token, "failed", {"reason": "no"})
    assert claimed(tasks).task == "b/two"


def test_a_task_cannot_be_claimed_by_firing_the_trigger(tasks: Tasks, client: Client) -> None:
    submitted(tasks, "one")

    with pytest.raises(HeldError, match="claim it, do not fire it"):
        client.fire("b/one", "claimed", {"owner": "x"})
    assert client.show("b/one").state == "open"


def test_a_task_whose_dependency_is_not_tried_again_is_shown_as_starved(tasks: Tasks) -> None:
    submitted(tasks, "base", max_retries=0)
    submitted(tasks, "top", depends_on=["base"])
    submitted(tasks, "lost", depends_on=["nobody"])
    waiting = {row["id"]: row["why"] for row in tasks.of("b")}
    assert (waiting["b/base"], waiting["b/top"]) == ("", "it waits for base")
    claim = claimed(tasks)
    tasks.report(claim.key, claim.token, "failed", {"reason": "no"})

    rows = {row["id"]: row["why"] for row in tasks.of("b")}
    assert rows["b/top"] == "it depends on base, which is failed and is not tried again"
    assert rows["b/lost"] == "it depends on nobody, which does not exist"


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({}, CallError),
        ({"title": "x", "surprise": 1}, CallError),
        ({"title": "x", "signals": [{"type": "?", "value": ""}]}, InvalidSignalError),
        ({"title": "x", "agent": "make"}, CallError),
        ({"title": "x", "repo": "/nowhere"}, CallError),
        ({"title": "x", "signals": [{"type": "path_exists", "value": "a"}]}, CallError),
        ({"title": "x", "agent": "make", "repo": "/nowhere"}, RefusedError),
        ({"title": "x", "owned_files": ["../up"]}, CallError),
    ],
)
def test_an_impossible_task_is_refused_before_anything_is_written(
    tasks: Tasks, client: Client, payload: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        tasks.submit(payload, backlog="b", name="x")
    assert client.list(machine="task") == []


def test_the_name_of_a_backlog_is_not_a_path(tasks: Tasks) -> None:
    with pytest.raises(InvalidIdError, match="<backlog>/<task>"):
        tasks.submit({"title": "x"}, backlog="a/b", name="x")


def test_a_dirty_repository_is_refused_in_one_sentence(tasks: Tasks, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["/usr/bin/env", "git", *arguments], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "begin")
    (tmp_path / "a").write_text("2")

    with pytest.raises(RefusedError, match="commit or stash"):
        tasks.submit({"title": "x", "agent": "make", "repo": str(tmp_path)}, backlog="b")


@pytest.fixture
def shell(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return a function that runs a command over the store of the test."""
    for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def test_a_list_names_the_backlogs_and_refuses_an_unknown_one(
    shell: Callable[..., Result], tasks: Tasks
) -> None:
    assert "there is no backlog" in shell("task", "list").output
    submitted(tasks, "one")
    submitted(tasks, "two")
    tasks.submit({"title": "x"}, backlog="other", name="x")

    (first, second) = json.loads(shell("task", "list", "--json").stdout)
    unknown = shell("task", "list", "nosuch", "--json")

    assert (first["backlog"], first["states"]) == ("b", {"open": 2})
    assert (second["backlog"], second["tasks"]) == ("other", 1)
    assert "other" in shell("task", "list").output
    assert unknown.exit_code == 1
    assert "there is no backlog 'nosuch'; there are: b, other" in unknown.stdout


def test_a_list_shows_the_first_line_of_a_failure_and_show_the_rest(
    shell: Callable[..., Result], tasks: Tasks
) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)
    reason = "test_passes pytest: exit code 1; the last output:\n\nE  assert 41 == 42\n1 failed"
    tasks.report(claim.key, claim.token, "failed", {"reason": reason})

    listed, shown = shell("task", "list", "b").output, shell("show", "b/one").output

    assert "the last output: …" in listed
    assert "41 == 42" not in listed
    assert "E  assert 41 == 42 1 failed" in shown


def test_the_default_target_is_the_branch_that_the_repository_is_on(
    shell: Callable[..., Result], client: Client, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "branch", "-m", "main", "trunk")
    submit = ("task", "submit", "--title", "x", "--repo", str(repo), "--agent", "make")

    assert shell(*submit, "--name", "one").exit_code == 0
    git(repo, "checkout", "-q", "--detach")
    refused = shell(*submit, "--name", "two", "--json")

    assert client.show("repo/one").data["target"] == "trunk"
    assert "is on no branch (detached HEAD); name the branch to merge into (--target)" in (
        refused.stdout
    )
    assert shell(*submit, "--name", "two", "--target", "trunk").exit_code == 0


@pytest.mark.usefixtures("client")
def test_the_command_line_claims_and_reports(shell: Callable[..., Result]) -> None:

    def ask(*arguments: str, noun: str = "task", code: int = 0) -> Any:
        result = shell(noun, *arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    ask("submit", "--title", "fix it", "--backlog", "b", "--name", "one")
    claim = ask("claim", "b", "--owner", "ann")
    held = ("--key", claim["key"], "--token", claim["token"])
    assert ask("heartbeat", *held)["answer"] == "go"
    assert ask("start", *held)["state"] == "in_progress"
    refused = ask("block", *held, "--on", "a key", code=1)["message"]
    assert refused.endswith("blocked needs the trust level probationary; this agent's is untrusted")
    (identity,) = ask("trust", "b", noun="agent")
    assert (identity["trust"], identity["name"], identity["may"][-1]) == (
        "untrusted",
        "ann",
        "failed",
    )
    assert ask("promote", identity["id"], noun="agent")["state"] == "probationary"
    assert ask("block", *held, "--on", "a key")["state"] == "blocked"
    assert ask("unblock", "b/one")["state"] == "open"
    claim = ask("claim", "b/one", "--owner", "ann")
    held = ("--key", claim["key"], "--token", claim["token"])
    assert ask("fail", *held, "--reason", "no luck")["state"] == "failed"
    assert ask("retry", "b/one")["state"] == "open"
    assert ask("split", "b/one", "--subtasks", '[{"title": "half"}]')["state"] == (
        "waiting_for_subtasks"
    )
    assert ask("cancel", "b/one")["state"] == "cancelled"
    assert [row["state"] for row in ask("list", "b")] == ["cancelled"]
