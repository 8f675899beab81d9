"""`interlock agent` as a person and a program type it: each verb, and what it prints."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from interlock.workers.gateways.git.repository import Repository
from interlock.workers.loops import client as loop_client
from interlock.workers.loops.home import Home
from tests.workers.gateways.git.scene import tip_of
from tests.workers.loops.cli.conftest import Ask, Run, Tell
from tests.workers.loops.lives import Nest


def output(nest: Nest, of: str) -> Path:
    """Return the file of what a life's last session printed, in its folder."""
    record = nest.record(of)
    folder = Home(of, nest.hands.client.settings).session(int(record.data["attempt"]))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "output.log"


# --- to begin --------------------------------------------------------------------------------


def test_an_agent_is_started_in_a_repository_of_this_machine(
    nest: Nest, ask: Ask, repo: Path
) -> None:
    done = ask("start", "owl", "--repo", "repository", "--command", "my-agent --print")

    assert done == {"id": "owl", "state": "initializing"}
    record = nest.record("owl/1")
    expected = {
        "repo": str(repo),
        "command": "my-agent --print",
        "host": nest.host,
        "base": tip_of(Repository.open(repo)),
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


def test_every_option_is_the_field_that_it_says(
    nest: Nest, told: Tell, repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "orders.md").write_text("Look at the log.\n", "utf-8")
    options = {
        "--identity": "You keep watch.",
        "--instructions": "orders.md",
        "--every": 90,
        "--session-timeout": 600,
        "--grace": 7,
        "--max-consecutive-errors": 2,
        "--max-total-errors": 3,
        "--reset-on": "min_runtime",
        "--min-runtime": 11,
        "--as": "ann",
    }
    words = [str(word) for pair in options.items() for word in pair]

    said = told("start", "owl", "--repo", repo, "--command", "true", "--park", *words)

    assert said == "owl is initializing"
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
    }
    assert expected.items() <= nest.record("owl/1").data.items()
    [born] = nest.events("owl/1", "created")
    assert born.cause.actor == "ann"


def test_an_agent_on_mail_waits_for_mail(nest: Nest, ask: Ask, repo: Path) -> None:
    ask("start", "owl", "--repo", repo, "--command", "true", "--on-mail")

    assert nest.record("owl/1").data["next"] == "on_mail"


def test_a_name_that_was_stopped_is_started_anew_with_the_mail_that_was_left(
    nest: Nest, ask: Ask, repo: Path
) -> None:
    start = ("start", "owl", "--repo", repo, "--command", "true", "--on-mail")
    ask(*start)
    seen = ask("send", "owl", "seen")["id"]
    ask("send", "owl", "left")
    nest.session("owl/1", seen)
    nest.ended("owl/1")

    assert ask(*start) == {"id": "owl", "state": "initializing"}

    assert nest.prompted("owl/2", seen).data["acknowledged"] == seen
    [row] = ask("list")
    assert (row["id"], row["state"], row["mail_waiting"]) == ("owl/2", "spawning", 1)


# --- to stop ---------------------------------------------------------------------------------


def test_an_agent_is_stopped_for_a_reason_and_to_stop_it_again_changes_nothing(
    nest: Nest, ask: Ask, told: Tell
) -> None:
    nest.ended(nest.born("owl/1"))
    stopped = nest.record("owl/1")

    assert told("stop", "owl") == "owl is stopped"
    assert ask("stop", "owl", "--reason", "really") == {"id": "owl", "state": "stopped", "left": []}

    again = nest.record("owl/1")
    assert (again.version, again.data) == (stopped.version, stopped.data)


def test_what_is_left_of_a_stopped_agent_is_said_and_ends_with_1(nest: Nest, run: Run) -> None:
    nest.born("owl/1")

    as_json = run("stop", "owl", "--reason", "the night is over", "--wait", 0, "--json")
    shown = run("stop", "owl", "--wait", 0)

    assert (as_json.exit_code, shown.exit_code) == (1, 1)
    expected = {"id": "owl", "state": "stopped", "left": ["retirement"]}
    assert json.loads(as_json.stdout) == expected
    assert shown.stdout == "owl is stopped\n"
    told = f"error owl has not left {nest.host} after 0 s; still owed there: retirement"
    assert shown.stderr.strip() == told
    stopped = {"by": "operator", "reason": "the night is over"}
    assert nest.record("owl/1").data["stopped"] == stopped


def test_a_fatal_end_keeps_its_reason(nest: Nest, run: Run, told: Tell, ask: Ask) -> None:
    nest.born("owl/1")

    run("stop", "owl", "--fatal", "--reason", "no key", "--wait", 0, "--as", "ann")

    assert nest.record("owl/1").data["stopped"] == {"by": "fatal", "reason": "no key"}
    assert nest.events("owl/1", "fatal_error")[0].cause.actor == "ann"
    assert "stopped fatal: no key" in told("show", "owl")
    assert ask("show", "owl")["due"] == {}


# --- mail ------------------------------------------------------------------------------------


def test_mail_is_sent_with_all_that_it_says(nest: Nest, ask: Ask, told: Tell) -> None:
    nest.born("owl/1")
    about = ("--kind", "task", "--thread", "barn", "--reply-to", "1-0", "--as", "bat", "--urgent")

    first = ask("send", "owl", "look", "at the", "fuse box")
    second = told("send", "owl", "fire!", *about)

    newest, oldest = nest.mailbox.listed("owl")
    assert first == {"id": oldest["id"], "answer": "sent"}
    assert second == f"{newest['id']}: sent"
    assert (oldest["text"], oldest["sender"]) == ("look at the fuse box", "operator")
    assert (oldest["kind"], oldest["urgent"]) == ("message", False)
    assert (newest["text"], newest["sender"]) == ("fire!", "bat")
    assert (newest["kind"], newest["urgent"]) == ("task", True)
    assert (newest["thread"], newest["reply_to"]) == ("barn", "1-0")


def test_mail_is_listed_with_when_it_was_delivered(nest: Nest, ask: Ask, told: Tell) -> None:
    nest.born("owl/1")
    seen = ask("send", "owl", "look at the\nfuse box")["id"]
    began = nest.session("owl/1", seen)
    ask("send", "owl", "fire!", "--urgent", "--as", "bat")

    newest, oldest = ask("mail", "owl")
    assert (oldest["id"], oldest["delivered_at_ms"]) == (seen, began.at_ms)
    assert (newest["text"], newest["delivered_at_ms"]) == ("fire!", None)
    assert ask("mail", "owl", "--limit", 1) == [newest]
    shown = told("mail", "owl")
    assert shown.startswith("mail from kind delivered text ")
    assert f"{seen} operator message " in shown
    assert shown.endswith("bat urgent message waits fire!"), "the newest last"
    assert "look at the fuse box" in shown


@pytest.mark.parametrize("text", ["[red]stop[/red]", "[/]", "a [bold", "[link=x]y", ":smile:"])
def test_mail_is_shown_as_it_was_written(nest: Nest, told: Tell, text: str) -> None:
    nest.born("owl/1", command=f"echo {text}")
    nest.mailbox.send("owl", text, sender=text)

    assert told("mail", "owl").count(text) == 2
    assert told("show", "owl").count(text) == 3


def test_an_empty_mailbox_is_shown(nest: Nest, ask: Ask, told: Tell) -> None:
    nest.born("owl/1")

    assert ask("mail", "owl") == []
    assert told("mail", "owl") == "mail from kind delivered text"


# --- to be seen ------------------------------------------------------------------------------


def test_all_agents_are_listed_by_name_with_what_waits_for_them(
    nest: Nest, ask: Ask, told: Tell
) -> None:
    assert ask("list") == []
    nest.born("owl/1")
    nest.ended(nest.born("bat/9"))
    nest.ended(nest.born("bat/10"))
    nest.mailbox.send("owl", "a")
    nest.mailbox.send("owl", "b", urgent=True)

    bat, owl = ask("list")

    assert (bat["name"], bat["id"], bat["state"]) == ("bat", "bat/10", "stopped")
    expected = {
        "name": "owl",
        "id": "owl/1",
        "state": "initializing",
        "since_ms": nest.record("owl/1").since_ms,
        "session": 1,
        "errors": 0,
        "errors_in_all": 0,
        "mail_waiting": 2,
        "urgent_waiting": 1,
        "host": nest.host,
        "why": "",
    }
    assert owl == expected
    assert bat["why"] == "the test is over"
    shown = told("list")
    row = r"owl initializing \d+ s 1 0 in a row, 0 in all 2 waiting, 1 urgent "
    assert re.search(row, shown)
    assert "bat stopped" in shown


def test_an_agent_is_shown_whole(nest: Nest, ask: Ask, told: Tell) -> None:
    nest.born("owl/1", command="my-agent --print")
    sent = nest.mailbox.send("owl", "look at the fuse box")
    nest.session("owl/1", sent, "session_error", detail="it broke", exit_code=3)

    found = ask("show", "owl")

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
    shown = told("show", "owl")
    for words in (
        "state cooling_down",
        "command my-agent --print",
        "errors 1 in a row, 1 in all",
        "last session error it broke",
        "due: backoff",
        "look at the fuse box",
    ):
        assert words in shown


# --- what its sessions print -----------------------------------------------------------------


def test_logs_are_what_the_last_session_printed(nest: Nest, told: Tell, run: Run) -> None:
    nest.born("owl/1")
    assert run("logs", "owl").stdout == ""
    nest.session("owl/1", "0-0")
    output(nest, "owl/1").write_bytes(b"one\ntwo \xff [red]\n")

    assert run("logs", "owl").stdout == "one\ntwo \ufffd [red]\n"
    nest.ended("owl/1")
    assert told("logs", "owl") == "one two \ufffd [red]", "also when it has stopped"


def test_tail_ends_when_an_agent_has_stopped_and_begins_with_what_is_new(
    nest: Nest, run: Run
) -> None:
    nest.born("owl/1")
    nest.session("owl/1", "0-0")
    output(nest, "owl/1").write_text("old\n")
    nest.ended("owl/1")

    result = run("tail", "owl")

    assert (result.exit_code, result.stdout) == (0, "")


class Between:
    """What happens between two looks of who tails: an act instead of each pause."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)

    def sleep(self, _: float) -> None:
        assert self.acts, "it looks on though the agent has stopped"
        self.acts.pop(0)()


def test_tail_misses_nothing_of_sessions_that_ended_between_two_looks(
    nest: Nest, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    nest.born("owl/1")
    nest.prompted("owl/1", "0-0")
    first = output(nest, "owl/1")
    first.write_text("old\n")

    def two_more_sessions() -> None:
        first.write_text("old\nlast words\n")
        for number in (2, 3):
            nest.session("owl/1", "0-0")
            nest.mailbox.send("owl", f"go {number}")
            nest.prompted("owl/1", "0-0")
            output(nest, "owl/1").write_text(f"session {number}\n")

    def the_end() -> None:
        with output(nest, "owl/1").open("a") as more:
            more.write("[red]goodbye\n")
        nest.ended("owl/1")

    monkeypatch.setattr(time, "sleep", Between(two_more_sessions, the_end).sleep)
    result = run("tail", "owl")

    assert result.exit_code == 0, result.output
    assert result.stdout == "last words\nsession 2\nsession 3\n[red]goodbye\n"


def test_tail_cuts_no_character_in_two(nest: Nest, monkeypatch: pytest.MonkeyPatch) -> None:
    nest.born("owl/1")
    nest.prompted("owl/1", "0-0")
    file, whole = output(nest, "owl/1"), "a\u00e4\u20ac".encode()
    file.write_bytes(b"")
    growing = [partial(file.write_bytes, whole[:n]) for n in range(1, len(whole) + 1)]
    between = Between(*growing, lambda: nest.ended("owl/1"))
    monkeypatch.setattr(time, "sleep", between.sleep)

    assert list(nest.loops.tail("owl")) == ["a", "\u00e4", "\u20ac"]


def test_tail_reads_a_long_output_in_parts(nest: Nest, monkeypatch: pytest.MonkeyPatch) -> None:
    nest.born("owl/1")
    nest.prompted("owl/1", "0-0")
    file = output(nest, "owl/1")
    monkeypatch.setattr(loop_client, "READ_BYTES_MAX", 5)
    between = Between(lambda: file.write_text("\u20ac" * 7), lambda: nest.ended("owl/1"))
    monkeypatch.setattr(time, "sleep", between.sleep)

    assert "".join(nest.loops.tail("owl")) == "\u20ac" * 7


def test_tail_goes_on_with_the_next_life(nest: Nest, monkeypatch: pytest.MonkeyPatch) -> None:
    nest.born("owl/1")
    nest.prompted("owl/1", "0-0")
    output(nest, "owl/1").write_text("old\n")

    def another_life() -> None:
        with output(nest, "owl/1").open("a") as more:
            more.write("goodbye\n")
        nest.ended("owl/1")
        nest.born("owl/2")
        nest.prompted("owl/2", "0-0")
        output(nest, "owl/2").write_text("hello\n")

    between = Between(another_life, lambda: nest.ended("owl/2"))
    monkeypatch.setattr(time, "sleep", between.sleep)

    assert "".join(nest.loops.tail("owl")) == "goodbye\nhello\n"
