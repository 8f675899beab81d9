"""Each command of `interlock agent` and what it prints, for people and for programs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient

from interlock.systems.loops.paths import AgentPaths
from interlock.workers.api.app import create_app
from interlock.workers.engine import printed_output
from tests.systems.loops.cli.conftest import Run, RunJson, RunText
from tests.systems.loops.lives import InProcessAgents
from tests.workers.access.tokens import new_token
from tests.workers.supervision.published import Published


@pytest.fixture(autouse=True)
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a worker that is asked for output as much time as a slow computer needs."""
    monkeypatch.setattr(printed_output, "ANSWER_S", 60)


def output(agents: InProcessAgents, life: str) -> Path:
    """Return the output file of a life's last session, in a work folder that exists."""
    record = agents.record(life)
    folder = AgentPaths(life, agents.worker.client.settings).session(int(record.data["attempt"]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "errors.log").touch()
    return folder / "output.log"


def test_an_agent_is_started_in_a_repository_of_this_computer(
    agents: InProcessAgents, run_json: RunJson, repo: Path
) -> None:
    printed = run_json("start", "owl", "--repo", "repository", "--command", "my-agent --print")

    assert printed == {"id": "owl", "state": "initializing"}
    record = agents.record("owl/1")
    expected = {
        "repo": str(repo),
        "command": "my-agent --print",
        "host": agents.host,
        "base": "",
        "identity": "",
        "instructions": "",
        "next": "at_once",
        "grace_s": 30,
        "max_consecutive_errors": 5,
        "max_total_errors": 20,
        "reset_on": "session_started",
        "min_runtime_s": 60,
        "parks": False,
        "acknowledged": "0-0",
    }
    assert expected.items() <= record.data.items()
    assert "session_timeout_s" not in record.data
    assert "every_s" not in record.data
    assert [entry.name for entry in record.entries] == ["worktree"]


def test_every_option_of_start_sets_its_field(
    agents: InProcessAgents, run_text: RunText, repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "instructions.md").write_text("Look at the log.\n", "utf-8")
    options = {
        "--identity": "You keep watch.",
        "--instructions": "instructions.md",
        "--every": 90,
        "--session-timeout": 600,
        "--grace": 7,
        "--max-consecutive-errors": 2,
        "--max-total-errors": 3,
        "--reset-on": "min_runtime",
        "--min-runtime": 11,
        "--tag": "barn",
        "--as": "ann",
    }
    arguments = [str(part) for pair in options.items() for part in pair]

    printed = run_text("start", "owl", "--repo", repo, "--command", "true", "--park", *arguments)

    assert printed == "owl is ▶ initializing"
    expected = {
        "identity": "You keep watch.",
        "instructions": "Look at the log.\n",
        "next": "later",
        "every_s": 90,
        "session_timeout_s": 600,
        "grace_s": 7,
        "max_consecutive_errors": 2,
        "max_total_errors": 3,
        "reset_on": "min_runtime",
        "min_runtime_s": 11,
        "parks": True,
        "tags": ["barn"],
    }
    assert expected.items() <= agents.record("owl/1").data.items()
    [created] = agents.events("owl/1", "created")
    assert created.cause.actor == "ann"


def test_an_agent_on_mail_waits_for_mail(
    agents: InProcessAgents, run_json: RunJson, repo: Path
) -> None:
    run_json("start", "owl", "--repo", repo, "--command", "true", "--on-mail")

    assert agents.record("owl/1").data["next"] == "on_mail"


def test_a_name_that_was_stopped_is_started_anew_with_the_mail_that_was_left(
    agents: InProcessAgents, run_json: RunJson, repo: Path
) -> None:
    start = ("start", "owl", "--repo", repo, "--command", "true", "--on-mail")
    run_json(*start)
    seen = run_json("send", "owl", "seen")["id"]
    run_json("send", "owl", "left")
    agents.run_session("owl/1", seen)
    agents.stop("owl/1")

    assert run_json(*start) == {"id": "owl", "state": "initializing"}

    assert agents.build_prompt("owl/2", seen).data["acknowledged"] == seen
    [row] = run_json("list")
    assert (row["id"], row["state"], row["mail_waiting"]) == ("owl/2", "spawning", 1)


def test_an_agent_is_stopped_for_a_reason_and_to_stop_it_again_changes_nothing(
    agents: InProcessAgents, run_json: RunJson, run_text: RunText
) -> None:
    agents.stop(agents.create("owl/1"))
    stopped = agents.record("owl/1")

    assert run_text("stop", "owl") == "owl is ■ stopped"
    assert run_json("stop", "owl", "--reason", "really") == {
        "id": "owl",
        "state": "stopped",
        "left": [],
    }

    again = agents.record("owl/1")
    assert (again.version, again.data) == (stopped.version, stopped.data)


def test_a_stop_that_is_not_finished_in_time_names_what_is_left_and_exits_with_1(
    agents: InProcessAgents, run: Run
) -> None:
    agents.create("owl/1")

    as_json = run("stop", "owl", "--reason", "the night is over", "--wait", 0, "--json")
    shown = run("stop", "owl", "--wait", 0)

    assert (as_json.exit_code, shown.exit_code) == (1, 1)
    expected = {"id": "owl", "state": "stopped", "left": ["agent_cleanup"]}
    assert json.loads(as_json.stdout) == expected
    assert shown.stdout == "owl is ■ stopped\n"
    message = f"error owl has not left {agents.host} after 0 s; still owed there: agent_cleanup"
    assert shown.stderr.strip() == message
    stopped = {"by": "operator", "reason": "the night is over"}
    assert agents.record("owl/1").data["stopped"] == stopped


def test_a_fatal_stop_keeps_its_reason(
    agents: InProcessAgents, run: Run, run_text: RunText, run_json: RunJson
) -> None:
    agents.create("owl/1")

    run("stop", "owl", "--fatal", "--reason", "no key", "--wait", 0, "--as", "ann")

    assert agents.record("owl/1").data["stopped"] == {"by": "fatal", "reason": "no key"}
    assert agents.events("owl/1", "fatal_error")[0].cause.actor == "ann"
    assert "stopped fatal: no key" in run_text("show", "owl")
    assert run_json("show", "owl")["due"] == {}


def test_mail_is_sent_with_all_its_options(
    agents: InProcessAgents, run_json: RunJson, run_text: RunText
) -> None:
    agents.create("owl/1")
    options = ("--kind", "task", "--thread", "barn", "--reply-to", "1-0", "--as", "bat", "--urgent")

    first = run_json("send", "owl", "look", "at the", "fuse box")
    second = run_text("send", "owl", "fire!", *options)

    newest, oldest = agents.mailbox.newest("owl")
    assert first == {"id": oldest["id"], "answer": "sent"}
    assert second == f"{newest['id']}: sent"
    assert (oldest["text"], oldest["sender"]) == ("look at the fuse box", "operator")
    assert (oldest["kind"], oldest["urgent"]) == ("message", False)
    assert (newest["text"], newest["sender"]) == ("fire!", "bat")
    assert (newest["kind"], newest["urgent"]) == ("task", True)
    assert (newest["thread"], newest["reply_to"]) == ("barn", "1-0")


def test_mail_is_listed_with_when_it_was_delivered(
    agents: InProcessAgents, run_json: RunJson, run_text: RunText
) -> None:
    agents.create("owl/1")
    seen = run_json("send", "owl", "look at the\nfuse box")["id"]
    start = agents.run_session("owl/1", seen)
    run_json("send", "owl", "fire!", "--urgent", "--as", "bat")

    newest, oldest = run_json("mail", "owl")
    assert (oldest["id"], oldest["delivered_at_ms"]) == (seen, start.at_ms)
    assert (newest["text"], newest["delivered_at_ms"]) == ("fire!", None)
    assert run_json("mail", "owl", "--limit", 1) == [newest]
    shown = run_text("mail", "owl")
    assert shown.startswith("mail age from kind delivered text ")
    assert re.search(rf"{seen} \d+ s operator message \d+ s look at the fuse box", shown)
    assert shown.endswith("bat urgent message waits fire!"), "the newest last"


@pytest.mark.parametrize("text", ["[red]stop[/red]", "[/]", "a [bold", "[link=x]y", ":smile:"])
def test_markup_in_mail_is_printed_as_it_was_written(
    agents: InProcessAgents, run_text: RunText, text: str
) -> None:
    agents.create("owl/1", command=f"echo {text}")
    agents.mailbox.send("owl", text, sender=text)

    assert run_text("mail", "owl").count(text) == 2
    assert run_text("show", "owl").count(text) == 3


def test_an_empty_mailbox_is_shown(
    agents: InProcessAgents, run_json: RunJson, run_text: RunText
) -> None:
    agents.create("owl/1")

    assert run_json("mail", "owl") == []
    assert run_text("mail", "owl") == "Nobody has written to it."


def test_all_agents_are_listed_by_name_with_their_waiting_mail(
    agents: InProcessAgents, run_json: RunJson, run_text: RunText
) -> None:
    assert run_json("list") == []
    agents.create("owl/1")
    agents.stop(agents.create("bat/9"))
    agents.stop(agents.create("bat/10"))
    agents.mailbox.send("owl", "a")
    agents.mailbox.send("owl", "b", urgent=True)

    bat, owl = run_json("list")

    assert (bat["name"], bat["id"], bat["state"]) == ("bat", "bat/10", "stopped")
    expected = {
        "name": "owl",
        "id": "owl/1",
        "state": "initializing",
        "since_ms": agents.record("owl/1").since_ms,
        "session": 1,
        "errors": 0,
        "errors_in_all": 0,
        "mail_waiting": 2,
        "urgent_waiting": 1,
        "mail_is_minimum": False,
        "host": agents.host,
        "why": "",
    }
    assert owl == expected
    assert bat["why"] == "the test is over"
    shown = run_text("list")
    row = r"owl ▶ initializing \d+ (s|min) 1 0 in a row, 0 in all 2 waiting, 1 urgent "
    assert re.search(row, shown)
    assert "bat ■ stopped" in shown


def test_show_prints_everything_about_an_agent(
    agents: InProcessAgents, run_json: RunJson, run_text: RunText
) -> None:
    agents.create("owl/1", command="my-agent --print")
    sent = agents.mailbox.send("owl", "look at the fuse box")
    agents.run_session("owl/1", sent, "session_error", detail="it broke", exit_code=3)

    found = run_json("show", "owl")

    expected = {
        "id": "owl/1",
        "state": "cooling_down",
        "command": "my-agent --print",
        "branch": "b",
        "worktree": "/w",
        "attempt": 1,
        "session_seq": 1,
        "pid": None,
        "prompt": "do it",
        "errors": 1,
        "errors_in_all": 1,
        "mail_waiting": 0,
    }
    assert expected.items() <= found.items()
    assert found["last"]["detail"] == "it broke"
    assert [one["id"] for one in found["mail"]] == [sent]
    assert list(found["due"]) == ["backoff"]
    shown = run_text("show", "owl")
    for arguments in (
        "state ○ pausing after an error",
        "command my-agent --print",
        "errors 1 in a row, 1 in all",
        "last session error it broke",
        "timer backoff in ",
        "look at the fuse box",
    ):
        assert arguments in shown


def test_logs_print_the_output_of_the_last_session(
    agents: InProcessAgents, run_text: RunText, run: Run
) -> None:
    agents.create("owl/1")
    assert "it has not started" in run("logs", "owl").stderr
    agents.run_session("owl/1", "0-0")
    output(agents, "owl/1").write_bytes(b"one\ntwo \xff [red]\n")

    assert run("logs", "owl").stdout == "one\ntwo \ufffd [red]\n"
    output(agents, "owl/1").write_bytes("a\tb\x1b[1A\u202ec\n".encode())
    assert run("logs", "owl").stdout == "a       b\\x1b[1A\\u202ec\n", "it moves no cursor"
    output(agents, "owl/1").write_bytes(b"one\ntwo \xff [red]\n")
    agents.stop("owl/1")
    assert run_text("logs", "owl") == "one two \ufffd [red]", "also after the agent has stopped"


def test_tail_of_an_agent_that_has_stopped_prints_nothing(
    agents: InProcessAgents, run: Run
) -> None:
    agents.create("owl/1")
    agents.run_session("owl/1", "0-0")
    output(agents, "owl/1").write_text("old\n")
    agents.stop("owl/1")

    result = run("tail", "owl")

    assert (result.exit_code, result.stdout) == (0, "")


class BetweenPolls:
    """At each pause between two polls, runs the next action and lets the worker publish."""

    def __init__(self, agents: InProcessAgents, *actions: Callable[[], object]) -> None:
        client = agents.worker.client
        self.actions = list(actions)
        self.published = Published(client, client.settings.home, client.settings.host)

    def sleep(self, _: float) -> None:
        if self.actions:
            self.actions.pop(0)()
        self.published.publisher.publish()


@pytest.fixture(params=["store", "http"])
def run_anywhere(
    request: pytest.FixtureRequest,
    agents: InProcessAgents,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Run]:
    """Return a function that runs a command, on the store and over HTTP."""
    if request.param == "store":
        yield run
        return
    client = agents.worker.client
    with TestClient(create_app(client), base_url="http://interlock.example") as served:
        monkeypatch.setenv("INTERLOCK_API_URL", "http://interlock.example")
        monkeypatch.setenv("INTERLOCK_API_TOKEN", new_token(client, "viewer"))
        monkeypatch.setattr(httpx2, "Client", lambda **_: served)
        yield run


def test_tail_prints_the_output_of_sessions_that_ended_between_two_polls(
    agents: InProcessAgents, run_anywhere: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.create("owl/1")
    agents.build_prompt("owl/1", "0-0")
    first = output(agents, "owl/1")
    first.write_text("old\n")

    def two_more_sessions() -> None:
        first.write_text("old\nlast arguments\n")
        for number in (2, 3):
            agents.run_session("owl/1", "0-0")
            agents.mailbox.send("owl", f"go {number}")
            agents.build_prompt("owl/1", "0-0")
            output(agents, "owl/1").write_text(f"session {number}\n")

    def print_and_stop() -> None:
        with output(agents, "owl/1").open("a") as more:
            more.write("[red]goodbye\n")
        agents.stop("owl/1")

    def nothing() -> None:
        """Let the worker publish what was asked for."""

    polls = BetweenPolls(agents, nothing, two_more_sessions, *2 * [nothing], print_and_stop)
    monkeypatch.setattr(time, "sleep", polls.sleep)
    result = run_anywhere("tail", "owl")
    logs, unknown = run_anywhere("logs", "owl"), run_anywhere("logs", "nobody")

    assert logs.stdout == "session 3\n[red]goodbye\n", logs.stderr
    assert "the agent 'nobody' was never started" in unknown.stderr
    assert result.exit_code == 0, result.output
    assert result.stdout == "last arguments\nsession 2\nsession 3\n[red]goodbye\n"


def test_tail_goes_on_with_the_next_life(
    agents: InProcessAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.create("owl/1")
    agents.build_prompt("owl/1", "0-0")
    output(agents, "owl/1").write_text("")

    def another_life() -> None:
        with output(agents, "owl/1").open("a") as more:
            more.write("goodbye\n")
        agents.stop("owl/1")
        agents.create("owl/2")
        agents.build_prompt("owl/2", "0-0")
        output(agents, "owl/2").write_text("hello\n")

    actions = (lambda: None, another_life, lambda: None, lambda: agents.stop("owl/2"))
    monkeypatch.setattr(time, "sleep", BetweenPolls(agents, *actions).sleep)

    latest = partial(agents.loops.latest_life, "owl")
    assert "".join(agents.loops.client.tail("owl/1", newest=latest)) == "goodbye\nhello\n"
