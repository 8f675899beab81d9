"""Coding tasks as programs and external agents use them: submit, claim, report, list."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from interlock.git.errors import RefusedError
from interlock.kernel.errors import (
    CallError,
    FencedError,
    GuardRefusedError,
    HeldError,
    IllegalTransitionError,
    InvalidIdError,
    StoreDownError,
)
from interlock.kernel.event import Note
from interlock.systems.tasks.client import TaskClaim, Tasks
from interlock.systems.tasks.external_claim import STOP_CONFIRMED
from interlock.systems.tasks.verification.signals import InvalidSignalError
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.terminal import screen
from tests.git.scene import git, make_repository
from tests.round_trips import round_trips
from tests.systems.tasks.claims import claimed as local_agent
from tests.systems.tasks.claims import fire, taken
from tests.systems.threads.threads import client_of
from tests.workers.supervision.published import Published


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


def test_a_task_whose_id_is_too_long_for_a_turn_is_claimed_without_one(
    tasks: Tasks, client: Client
) -> None:
    task = f"b/{'x' * 195}"
    client.submit({"title": "x"}, id=task, machine="task")

    claim = tasks.claim(task, owner="ann")

    assert tasks.report(claim.key, claim.token, "completed", {"summary": "x"}).state == "done"


@pytest.mark.parametrize(
    ("scope", "seconds"), [("small", 900), ("medium", 1_800), ("large", 3_600), ("xl", 7_200)]
)
def test_the_claim_of_an_external_agent_has_the_deadline_of_its_scope(
    tasks: Tasks, client: Client, scope: str, seconds: int
) -> None:
    submitted(tasks, "one", scope=scope)
    claim = claimed(tasks)

    tasks.report(claim.key, claim.token, "started")

    record = client.show("b/one")
    due_at = next(timer.due_at for timer in record.timers if timer.name == "deadline")
    assert due_at - record.since_ms == seconds * 1_000
    assert record.data["claim"]["deadline_reasons"] == [f"scope {scope}: {seconds} s"]


def test_the_time_that_an_external_agent_took_moves_the_deadline_of_the_next(
    tasks: Tasks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(tasks, "one")
    submitted(tasks, "two")
    claim = claimed(tasks)
    tasks.report(claim.key, claim.token, "started")
    since_ms = client.show("b/one").since_ms
    for seconds in (4_000, 4_010):  # the second time the reply was lost
        later = since_ms + seconds * 1_000
        monkeypatch.setattr(tasks.client.dispatch.views, "now_ms", lambda later=later: later)
        done = tasks.report(claim.key, claim.token, "completed", {"summary": "done"})
        assert (done.state, done.data["took_s"]) == ("done", 4_000)
    monkeypatch.undo()
    for trigger in ("verified", "merged"):
        fire(client, taken(client, "b/one"), trigger)

    second = claimed(tasks)

    assert (second.task, second.record.data["claim"]["deadline_s"]) == ("b/two", 6_000)


def test_a_claimed_task_that_is_taken_away_stops_its_holder(tasks: Tasks, client: Client) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)
    client.fire("b/one", "released", {"reason": "another is better"})

    assert tasks.heartbeat(claim.key, claim.token) == "stop"
    with pytest.raises(FencedError):
        tasks.report(claim.key, claim.token, "completed", {"summary": "late"})
    with pytest.raises(FencedError):
        tasks.report(claim.key, "1-forged", "released")
    assert tasks.claim_next("b", owner="bob") is None, "its holder may still be at work"
    for _ in range(2):  # The second is the repetition after a lost reply.
        assert tasks.report(claim.key, claim.token, "released").state == "open"
    with pytest.raises(FencedError):
        tasks.report(claim.key, "1-forged", "released")
    assert claimed(tasks).task == "b/one"


@pytest.mark.parametrize("settled", [True, False])
def test_the_confirmation_of_a_stop_is_repeated_after_a_lost_reply_or_a_crash(
    tasks: Tasks, client: Client, monkeypatch: pytest.MonkeyPatch, *, settled: bool
) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)
    client.fire("b/one", "released", {"reason": "another is better"})
    leases = tasks.client.dispatch.leases
    settle = leases.settle

    def lost(*arguments: Any) -> Any:
        if settled:
            settle(*arguments)
        raise StoreDownError("the reply is lost")

    monkeypatch.setattr(leases, "settle", lost)
    with pytest.raises(StoreDownError):
        tasks.report(claim.key, claim.token, "released")
    monkeypatch.setattr(leases, "settle", settle)
    assert tasks.report(claim.key, claim.token, "released").state == "open"
    notes = [line for line in client.history("b/one") if isinstance(line, Note)]
    assert [note.kind for note in notes].count(STOP_CONFIRMED) == 1
    assert claimed(tasks).task == "b/one"


def test_two_tasks_that_own_one_file_are_not_worked_on_at_once(tasks: Tasks) -> None:
    submitted(tasks, "one", owned_files=["src"])
    submitted(tasks, "two", owned_files=["src/a.py"])
    first = claimed(tasks)

    assert tasks.claim_next("b", owner="bob") is None
    with pytest.raises(HeldError, match="b/one holds what it needs"):
        tasks.claim("b/two", owner="bob")
    tasks.report(first.key, first.token, "failed", {"reason": "no"})
    assert claimed(tasks).task == "b/two"


def test_an_explanation_reads_what_a_claim_depends_on(tasks: Tasks, client: Client) -> None:
    submitted(tasks, "base")
    submitted(tasks, "top", depends_on_done=["base"])
    claim = {"owner": "ann", "identity": "b/identity~0123456789abcdef", "at_ms": 1}
    assert client.explain("b/top", "claimed", claim).target == ""
    done = claimed(tasks)
    tasks.report(done.key, done.token, "started")
    tasks.report(done.key, done.token, "completed", {"summary": "done"})

    for trigger, payload, trips in (("claimed", claim, 2), ("cancelled", {}, 1)):
        with round_trips() as sent:
            assert client.explain("b/top", trigger, payload).target == trigger
        assert sent() == trips


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
    assert "There is no backlog." in shell("task", "list").output
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


def test_a_claim_says_how_to_report_and_an_empty_queue_why(
    shell: Callable[..., Result], tasks: Tasks
) -> None:
    submitted(tasks, "one", text="word " * 100 + "end")
    submitted(tasks, "two", depends_on=["one"])

    granted = shell("task", "claim", "b", "--owner", "ann")
    refused = shell("task", "claim", "b", "--owner", "bob")

    entries = tasks.client.show("b/one").entries
    suffix = next(entry.suffix for entry in entries if entry.name == "agent")
    assert f"export INTERLOCK_KEY=b/one:{suffix} INTERLOCK_TOKEN=" in granted.output
    assert re.search(r"text +word .*word end", re.sub(r"\s+", " ", granted.output))
    assert shows(granted.output, "deadline +30 min after its start")
    assert "task done --summary '...'" in granted.output
    assert "Renew the claim at least every 60 s" in granted.output
    assert refused.exit_code == 1
    assert "No task of b can be claimed by this agent now" in refused.output
    assert "Its tasks: open 1  claimed 1" in refused.output
    assert "Of those that are open: 1 waiting for other tasks." in refused.output
    assert "task list b" in refused.output


def test_a_list_shows_both_ends_of_a_failure_and_show_all_of_it_once(
    shell: Callable[..., Result], tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)
    reason = "test_passes pytest: exit code 1; the last output:\n\nE  assert 41 == 42\n1 failed"
    tasks.report(claim.key, claim.token, "failed", {"reason": reason})

    submitted(tasks, "two", max_retries=0)
    claim = tasks.claim("b/two", owner="ann")
    tasks.report(claim.key, claim.token, "failed", {"reason": reason})

    shown = shell("show", "b/one").output
    asked = shell("show", "b/two").output

    monkeypatch.setattr(screen.out, "width", 100)
    listed = shell("task", "list", "b").output

    assert re.search(r"one  test_passe.*….*assert 41 == 42 1 failed$", listed, re.MULTILINE)
    for output in (shown, asked):
        assert output.count("test_passes pytest: exit code 1") == 1
        assert "E  assert 41 == 42 1 failed" in output
    assert "Try it again?" in asked


def test_a_list_tells_a_task_that_is_tried_again_from_one_that_is_given_up(
    shell: Callable[..., Result], tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen.out, "width", 80)
    for name, retries in (("later", 2), ("never", 0)):
        submitted(tasks, name, max_retries=retries)
        claim = tasks.claim(f"b/{name}", owner="ann")
        tasks.report(claim.key, claim.token, "failed", {"reason": "no luck"})
    later = tasks.client.show("b/later").since_ms + 5_000
    monkeypatch.setattr(tasks.client.dispatch.views, "now_ms", lambda: later)

    rows = {row["id"]: row for row in tasks.of("b")}
    listed = shell("task", "list", "b").output

    assert (rows["b/later"]["next_try_s"], rows["b/later"]["asks"]) == (25, False)
    assert (rows["b/never"]["next_try_s"], rows["b/never"]["asks"]) == (None, True)
    assert re.search(r"b/later +✗ failed +0 of 2 +tried again in \d+ s +later  no luck", listed)
    assert re.search(r"b/never +✗ failed +0 of 0 +asks a person +never  no luck", listed)
    assert "`interlock show TASK` prints what a task asks, and the answers" in listed
    assert max(map(len, listed.splitlines())) <= 80


def test_a_paused_task_names_no_time_of_its_next_try(tasks: Tasks, client: Client) -> None:
    submitted(tasks, "one")
    claim = claimed(tasks)
    tasks.report(claim.key, claim.token, "failed", {"reason": "no luck"})
    client.pause("b/one")

    assert tasks.of("b")[0]["next_try_s"] is None


def test_a_list_says_that_the_agent_of_a_closed_task_changed_nothing(
    tasks: Tasks, client: Client
) -> None:
    for name, files in (("none", 0), ("some", 1)):
        local_agent(client, f"b/{name}").alive().delivered()
        counts = {"files": files, "added": files, "removed": 0}
        found = {"commit": "0" * 40, "branch": "x", "changes": counts}
        fire(client, taken(client, f"b/{name}"), "verified", found)
        fire(client, taken(client, f"b/{name}"), "merged", {"commit": "0" * 40})

    whys = {row["id"]: (row["state"], row["why"]) for row in tasks.of("b")}

    assert whys == {
        "b/none": ("closed", "its agent changed nothing"),
        "b/some": ("closed", ""),
    }


def shows(output: str, pattern: str) -> bool:
    """Tell whether a whole line of an output is like this."""
    return any(re.fullmatch(pattern, line.rstrip()) for line in output.splitlines())


def test_show_says_where_the_work_of_a_task_is_who_does_it_and_what_comes_next(
    shell: Callable[..., Result], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen.out, "width", 80)
    command = "opencode run --model some-model " * 3
    signals = [{"type": "test_passes", "value": "make test"}]
    fields: dict[str, Any] = {"signals": signals, "deadline_s": 1_200}
    more = {"target": "trunk", "push": "origin", "owned_files": ["src"], "depends_on_done": ["a"]}
    client.submit({"title": "first"}, id="b/a", machine="task")
    claim = Tasks(client).claim("b/a", owner="ann")
    Tasks(client).report(claim.key, claim.token, "completed", {"summary": "ok"})
    agent = local_agent(client, "b/one", **{**fields, **more}, agent=command).alive()
    at_work = shell("show", "b/one").output
    agent.task_fires("failed", {"reason": "exit code 3", "abort": "unknown", "why": "aborted"})
    tried_again = shell("show", "b/one").output

    assert shows(at_work, r"repository +/nowhere, merged into trunk, then pushed to origin")
    assert shows(at_work, r"branch +interlock/b/one@1")
    assert command.replace(" ", "") in re.sub(r"\s", "", at_work), "it is folded, not cut"
    assert shows(at_work, r"verify +test_passes make test")
    assert shows(at_work, r"owns +src")
    assert shows(at_work, r"after +a")
    assert shows(at_work, r"output +interlock task logs b/one")
    assert shows(at_work, r"deadline +20 min for each try; (19|20) min left")
    assert shows(tried_again, r"retries +0 of 3 used; next try in \d+ s")
    assert shows(tried_again, r"why +exit code 3")
    assert "aborted" not in tried_again
    assert max(map(len, (at_work + tried_again).splitlines())) <= 80


def test_the_answer_to_an_approval_says_that_the_merge_comes_next(
    shell: Callable[..., Result], client: Client
) -> None:
    local_agent(client, "b/one", needs_approval=True, target="trunk").alive().delivered()
    assert "Its work is verified next." in shell("show", "b/one").output
    fire(client, taken(client, "b/one"), "verified", {"commit": "0" * 40})
    proposal = client.show("b/one").proposal

    answered = shell("task", "approve", "b/one", "--proposal", proposal).output

    assert (
        "b/one is ▶ being checked\nIts work is approved; it is merged into trunk next." in answered
    )


def test_show_says_what_an_open_task_waits_for(shell: Callable[..., Result], tasks: Tasks) -> None:
    submitted(tasks, "base")
    submitted(tasks, "top", depends_on=["base"])

    shown = shell("show", "b/top").output

    assert shows(shown, r"why +it waits for base")
    assert shows(shown, r"agent +anyone who claims it")


def test_show_says_how_long_a_task_waits_for_its_subtasks(
    shell: Callable[..., Result], tasks: Tasks
) -> None:
    submitted(tasks, "whole", subtasks_s=7_230)
    shell("task", "split", "b/whole", "--subtasks", '[{"title": "one"}, {"title": "two"}]')

    shown = shell("show", "b/whole").output
    assert shows(shown, r"subtasks +2, which may take 2 h; (119 min|2 h) left")


def test_logs_print_the_output_of_an_agent_of_this_computer(
    shell: Callable[..., Result],
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_HOST", "anvil")
    claim = local_agent(client, "b/one").alive(host="anvil")
    folder = tmp_path / "supervisors" / "b" / "one~1"
    folder.mkdir(parents=True)
    (folder / "output.log").write_text("thinking\x1b[2J\n")
    (folder / "errors.log").write_text("a warning\n")

    printed = shell("task", "logs", "b/one")

    assert (printed.stdout, printed.stderr) == ("thinking\\x1b[2J\n", "a warning\n")
    claim.task_fires("failed", {"reason": "no"})
    assert shell("task", "logs", "b/one", "--number", "1").stdout == printed.stdout
    assert "b/one has no run 2 of an agent; it has had 1" in (
        shell("task", "logs", "b/one", "--number", "2").stderr
    )
    monkeypatch.setenv("INTERLOCK_HOST", "forge")
    Published(client, tmp_path, "anvil").look("supervisors/b/one~1")
    elsewhere = shell("task", "logs", "b/one")
    assert elsewhere.stdout == printed.stdout
    assert "This is the end of its output: anvil has all that is kept of it." in elsewhere.stderr


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
def test_the_command_line_claims_and_reports(
    shell: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*arguments: str, noun: str = "task", code: int = 0) -> Any:
        result = shell(noun, *arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    ask("submit", "--title", "fix it", "--backlog", "b", "--name", "one", "--tag", "eu")
    claim = ask("claim", "b", "--owner", "ann")
    held = ("--key", claim["key"], "--token", claim["token"])
    assert ask("heartbeat", *held)["answer"] == "go"
    assert ask("b/one", noun="show")["data"]["tags"] == ["eu"]
    assert ask("start", *held)["state"] == "in_progress"
    assert ask("turn", "tool_started", *held, "--tool", "bash")["state"] == "tool_use"
    assert ask("turn", "tool_completed", *held, "--tool", "bash")["state"] == "running"
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
    assert ask("promote", identity["id"], noun="agent")["state"] == "trusted"
    claim = ask("claim", "b/one", "--owner", "ann")
    held = ("--key", claim["key"], "--token", claim["token"])
    assert ask("release", *held, "--reason", "not mine")["state"] == "open"
    claim = ask("claim", "b/one", "--owner", "ann")
    held = ("--key", claim["key"], "--token", claim["token"])
    parts = ("--subtasks", '[{"title": "half", "scope": "small"}]')
    ask("submit", "--title", "more", "--backlog", "b", "--name", "two")
    for wrong in ((*parts, "b/two", *held), parts, (*parts, *held[:2])):
        assert "the key and the token" in ask("split", *wrong, code=1)["message"]
    monkeypatch.setenv("INTERLOCK_KEY", claim["key"])
    monkeypatch.setenv("INTERLOCK_TOKEN", claim["token"])
    for task in ("b/two", "b/one"):
        assert ask("split", task, *parts)["state"] == "waiting_for_subtasks"
    for task in ("b/one", "b/two"):
        assert ask("cancel", task)["state"] == "cancelled"
    assert [row["state"] for row in ask("list", "b")] == ["cancelled", "cancelled"]


def test_a_person_who_names_a_task_or_a_remote_that_does_not_exist_is_told_at_once(
    shell: Callable[..., Result], client: Client, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo")
    work = ("task", "submit", "--title", "x", "--repo", str(repo), "--agent", "make", "--json")

    for option in ("--after", "--after-done"):
        refused = shell(*work, option, "nonesuch")
        assert "the backlog 'repo' has no task 'nonesuch' to wait for" in refused.stdout
    refused = shell(*work, "--push", "nowhere")
    assert "has no remote 'nowhere'; add it with git remote add" in refused.stdout
    assert client.list(machine="task") == []
    assert shell(*work, "--name", "one").exit_code == 0
    assert shell(*work, "--name", "two", "--after", "one").exit_code == 0
