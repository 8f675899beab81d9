"""Plain messages of producers: each is checked as the client checks, and acts once."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from interlock.kernel.errors import CallError, HeldError, KernelError, NewerSchemaError
from interlock.kernel.event import Event
from interlock.systems.jobs.client import Graphs
from interlock.systems.loops.client import Loops
from interlock.systems.loops.mailbox import Mailbox
from interlock.systems.runs.client import Runs
from interlock.systems.tasks.client import Tasks
from interlock.systems.threads.client import Threads
from interlock.workers.client import Client
from interlock.workers.config import Settings, SettingsError
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.producer_message import EARLY_READS_MAX, check_accepted, receive
from tests.damage import chances, damaged
from tests.git.scene import make_repository
from tests.systems.threads.threads import bring, client_of, thread_payload

PLAN = {"plan": "tidy", "codons": [{"codon": "sort", "command": "true"}]}


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    (tmp_path / "folder").mkdir()
    make_repository(tmp_path / "repository")
    return client_of(server.url, prefix, host="here")


def sent(client: Client, verb: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Take a message in and return its answer."""
    return receive(client, verb, [request], {})


def rejected(client: Client, verb: str, request: Mapping[str, Any]) -> str:
    """Take in a message that is rejected, and return the reason."""
    before = sum(client.dispatch.rejected.counts().values())
    answer = sent(client, verb, request)
    assert answer["answer"] == "rejected", answer
    assert sum(client.dispatch.rejected.counts().values()) == before + 1
    return str(answer["reason"])


def loop(tmp_path: Path, life: str = "owl/1", **fields: Any) -> dict[str, Any]:
    payload = {"repo": str(tmp_path / "repository"), "command": "my-agent", **fields}
    return {"id": life, "machine": "loop", "payload": payload}


def run(tmp_path: Path, name: str = "tonight", **fields: Any) -> dict[str, Any]:
    payload = {"plan": PLAN, "folder": str(tmp_path / "folder"), **fields}
    return {"id": name, "machine": "run", "payload": payload}


def test_an_agent_is_started_once_on_the_computer_that_has_its_repository(
    client: Client, tmp_path: Path
) -> None:
    answers = [sent(client, "submit", loop(tmp_path)) for _ in range(2)]

    assert [answer["answer"] for answer in answers] == ["accepted", "known"]
    assert client.show("owl/1").data["host"] == "here"
    # The repository of another computer is checked there.
    assert sent(client, "submit", loop(tmp_path, "ant/1", repo="/r", host="far"))["answer"]
    assert client.show("ant/1").data["host"] == "far"
    with pytest.raises(HeldError):  # an earlier life of the name is at work
        sent(client, "submit", loop(tmp_path, "owl/2"))


@pytest.mark.parametrize(
    ("life", "fields", "problem"),
    [
        ("owl/1", {"repo": "/nowhere"}, "in `host` the computer that has it: this one is here"),
        ("owl/1", {"repo": "near", "host": "far"}, "no absolute path"),
        ("owl/1", {"base": "no-such-branch"}, "no-such-branch"),
        ("owl/1", {"command": " "}, "must not be blank"),
        ("owl/1", {"colour": "blue"}, "colour"),
        ("Owl/1", {}, "no agent's name"),
        ("owl", {}, "<agent>"),
    ],
)
def test_an_agent_that_cannot_be_started_is_refused_at_the_door(
    client: Client, tmp_path: Path, life: str, fields: dict[str, Any], problem: str
) -> None:
    assert problem in rejected(client, "submit", loop(tmp_path, life, **fields))
    assert client.list(machine="loop") == []


def test_a_run_is_started_once_with_the_plan_of_its_message(client: Client, tmp_path: Path) -> None:
    answers = [sent(client, "submit", run(tmp_path)) for _ in range(2)]

    assert [answer["answer"] for answer in answers] == ["accepted", "known"]
    assert len({answer["record"] for answer in answers}) == 1
    runs = Runs(client)
    record = runs.last(runs.workspace(tmp_path / "folder"))
    assert (record.id, runs.plan(record).name) == (answers[0]["record"], "tidy")
    other = {**PLAN, "plan": "other"}
    assert "was submitted before" in rejected(client, "submit", run(tmp_path, plan=other))
    with pytest.raises(HeldError):  # another run is running there
        sent(client, "submit", run(tmp_path, "tomorrow"))
    runs.stop(tmp_path / "folder", force=True)
    assert sent(client, "submit", run(tmp_path))["answer"] == "known"
    # The folder of another computer is checked there.
    assert sent(client, "submit", run(tmp_path, "far", folder="/w", host="far"))["record"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"plan": {}}, "name the plan"),
        ({"plan": {**PLAN, "codons": []}}, "it is empty; write at least one codon"),
        ({"plan": {**PLAN, "codons": [{"codon": "sort"}]}}, "write what it runs"),
        ({"plan": "plan.yaml"}, "plan: Input should be a valid dictionary"),
        ({"folder": "/nowhere"}, "name in `host` the computer that has it: this one is here"),
        ({"folder": "near"}, "no absolute path"),
        ({"folder": "/a\0b", "host": "far"}, "no absolute path"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_a_run_that_cannot_begin_is_refused_at_the_door(
    client: Client, tmp_path: Path, fields: dict[str, Any], problem: str
) -> None:
    assert problem in rejected(client, "submit", run(tmp_path, **fields))
    assert client.list() == []


@pytest.mark.parametrize("machine", ["workspace", "codon", "turn", "agent", "identity"])
def test_what_only_interlock_creates_is_refused(client: Client, machine: str) -> None:
    request = {"id": "w/1/1", "machine": machine, "payload": {"folder": "/w", "codon_id": "sort"}}

    assert f"only Interlock creates a {machine}" in rejected(client, "submit", request)


def test_a_card_is_answered_once_in_the_name_of_a_person(client: Client) -> None:
    card = bring(client, "one", "awaiting_confirmation").proposal
    request = {"id": "m1", "record": "one", "choice": "approve", "proposal": card, "actor": "ann"}

    answers = [sent(client, "decide", request) for _ in range(2)]

    assert (
        answers == [{"id": "m1", "answer": "accepted", "record": "one", "state": "executing"}] * 2
    )
    decided = [line for line in client.history("one") if isinstance(line, Event)][-1]
    assert (decided.cause.actor, decided.op_id) == ("ann", "call:m1")
    assert "look again" in rejected(client, "decide", {**request, "id": "m2"})


def test_a_trigger_is_fired_once_in_the_name_of_its_sender(client: Client) -> None:
    bring(client, "one", "awaiting_confirmation")
    payload = {"to": "ann", "kind": "person", "reference": "#7"}
    request = {"id": "m1", "record": "one", "trigger": "handed_off", "payload": payload}

    answers = [sent(client, "fire", {**request, "actor": "shop"}) for _ in range(2)]

    expected = {"id": "m1", "answer": "accepted", "record": "one", "state": "handed_off"}
    assert answers == [expected, expected]
    last = client.history("one")[-1]
    assert isinstance(last, Event)
    assert (last.cause.actor, last.op_id) == ("shop", "call:m1")
    assert "has ended" in rejected(client, "fire", {**request, "id": "m2"})


def test_a_message_is_refused_in_the_words_of_the_client(client: Client, tmp_path: Path) -> None:
    bring(client, "one", "awaiting_confirmation")
    sent(client, "submit", loop(tmp_path, "bat/1"))
    tasks, graphs, card = Tasks(client), Graphs(client), client.show("one").proposal
    # They are called with values of wrong types, as a program without a type checker may do.
    threads: Any = Threads(client)
    mailbox: Any = Loops(client)
    new: dict[str, Any] = {"id": "new", "payload": {"inciting": {"title": "Pens"}}}
    wrong = {"title": "x", "signals": 3}
    command = {"title": "x", "repo": str(tmp_path / "repository"), "agent": "\0"}
    files = {**command, "agent": "true", "owned_files": [3]}
    relative = {**command, "agent": "true", "repo": "near/shop"}
    here = {"id": "m", "record": "one"}
    cases: list[tuple[str, dict[str, Any], Callable[[], Any]]] = [
        (
            "submit",
            {**new, "priority": 12},
            lambda: threads.submit(new["payload"], id="new", priority=12),
        ),
        ("submit", {**new, "payload": []}, lambda: threads.submit([], id="new")),
        ("submit", {**new, "id": "a b"}, lambda: threads.submit(new["payload"], id="a b")),
        *(
            (
                "submit",
                {"id": "b/t", "machine": "task", "payload": task},
                partial(tasks.submit, task, backlog="b", name="t"),
            )
            for task in (wrong, command, files, relative)
        ),
        (
            "submit",
            {"id": "g/a", "machine": "job", "payload": {"phases": 3}},
            lambda: graphs.create("g/a", {"phases": 3}, held=False, local=False),
        ),
        ("fire", {**here, "trigger": "fly"}, lambda: client.fire_by_hand("one", "fly")),
        ("fire", {**here, "trigger": "execute"}, lambda: client.fire_by_hand("one", "execute")),
        (
            "fire",
            {**here, "trigger": "handed_off"},
            lambda: client.fire_by_hand("one", "handed_off"),
        ),
        (
            "fire",
            {**here, "trigger": "handed_off", "version": 1},
            lambda: client.fire_by_hand("one", "handed_off", version=1),
        ),
        ("cancel", {"id": "m", "record": ""}, lambda: client.cancel("")),
        (
            "decide",
            {**here, "choice": "", "proposal": card},
            lambda: client.decide("one", "", proposal=card),
        ),
        (
            "decide",
            {**here, "choice": "edit", "proposal": card, "answer": {"x": 1}},
            lambda: client.decide("one", "edit", {"x": 1}, proposal=card),
        ),
        (
            "send",
            {"id": "m", "to": "bat", "text": None, "urgent": "maybe"},
            lambda: mailbox.send("bat", None, sender="tester", urgent="maybe"),
        ),
    ]
    for verb, request, call in cases:
        with pytest.raises(KernelError) as refusal:
            call()
        assert rejected(client, verb, request) == str(refusal.value), request
    assert set(client.dispatch.rejected.counts()) == {"refused at intake"}


def test_a_record_is_cancelled_once(client: Client) -> None:
    bring(client, "one", "awaiting_confirmation")
    request = {"id": "m1", "record": "one", "reason": "nobody wants it"}

    answers = [sent(client, "cancel", request) for _ in range(2)]

    expected = {"id": "m1", "answer": "accepted", "record": "one", "state": "dismissed"}
    assert answers == [expected, expected]
    last = client.history("one")[-1]
    assert isinstance(last, Event)
    assert (last.cause.actor, last.cause.reason) == ("tester", "nobody wants it")
    assert "has ended" in rejected(client, "cancel", {**request, "id": "m2"})


def test_mail_is_sent_once_even_if_its_agent_has_stopped_meanwhile(
    client: Client, tmp_path: Path
) -> None:
    sent(client, "submit", loop(tmp_path))
    request = {"id": "m1", "to": "owl", "text": "hello", "urgent": True, "actor": "importer"}

    first = sent(client, "send", request)
    sent(client, "cancel", {"id": "m0", "record": "owl/1"})

    assert sent(client, "send", request) == first
    (mail,) = Mailbox(client.records).newest("owl")
    assert (mail["id"], mail["sender"], mail["urgent"]) == (first["mail"], "importer", True)
    assert "owl" in rejected(client, "send", {**request, "id": "m2"})


@pytest.mark.parametrize(
    ("verb", "request_"),
    [
        ("cancel", {"id": "m1"}),
        ("cancel", {"record": "one"}),
        ("cancel", {"id": "", "record": "one"}),
        ("cancel", {"id": "m1", "record": "missing"}),
        ("cancel", {"id": "m1", "record": "one", "colour": "blue"}),
        ("cancel", {"id": "m1", "record": "one", "actor": "orphans"}),
        ("cancel", {"id": "m1", "record": "one", "actor": "ann\x1b[31m"}),
        ("decide", {"id": "m1", "record": "one", "choice": "approve"}),
        ("decide", {"id": "m1", "record": "one", "choice": "fly", "proposal": "one:8"}),
        ("decide", {"id": "m1", "record": "one", "choice": "approve", "proposal": "one:1"}),
        ("decide", {"id": "m1", "record": "one", "choice": "edit", "proposal": 8, "answer": []}),
        ("send", {"id": "m1", "to": "owl"}),
        ("send", {"id": "m1", "to": "owl", "text": "hello"}),
        ("send", {"id": "m1", "to": 3, "text": "hello", "actor": ["ann"]}),
    ],
)
def test_a_wrong_message_changes_nothing_and_is_kept(
    client: Client, verb: str, request_: dict[str, Any]
) -> None:
    before = bring(client, "one", "awaiting_confirmation")

    assert rejected(client, verb, request_)
    assert client.show("one") == before


def test_intake_does_only_what_the_deployment_allows(server: EmbeddedServer, prefix: str) -> None:
    client = client_of(server.url, prefix, intake_accepts=["submit"])
    bring(client, "one", "awaiting_confirmation")

    assert "INTERLOCK_INTAKE_ACCEPTS" in rejected(client, "cancel", {"id": "m", "record": "one"})
    assert client.show("one").state == "awaiting_confirmation"
    with pytest.raises(SettingsError, match="'fly' is no kind of message; there are submit"):
        check_accepted(Settings(intake_accepts=("submit", "fly")))


def test_the_messages_on_the_page_for_producers_are_accepted(client: Client) -> None:
    text = (Path(__file__).parents[2] / "docs" / "producers.md").read_text()
    submitted = re.findall(r"^```json\n(\{\"id\".*?)^```$", text, re.MULTILINE | re.DOTALL)
    others = re.findall(r"^\| `interlock\.(\w+)` \|.*`(\{.*\})` \|$", text, re.MULTILINE)
    proposal = bring(client, "mail-1042", "awaiting_confirmation").proposal

    answers = [sent(client, "submit", json.loads(request)) for request in submitted]
    # A card has to be answered before its record is cancelled.
    for verb, request in sorted(others, key=lambda each: each[0] == "cancel"):
        answers.append(sent(client, verb, json.loads(request.replace("mail-1042:8", proposal))))

    assert len(answers) == 7
    assert [answer for answer in answers if answer["answer"] != "accepted"] == []


def test_a_report_is_taken_from_who_holds_the_claim_of_a_task(client: Client) -> None:
    Tasks(client).submit({"title": "fix it", "text": ""}, backlog="b", name="one")
    claim = Tasks(client).claim("b/one", owner="helper")
    bring(client, "two", "awaiting_confirmation")
    report = {"id": "p-1", "key": claim.key, "token": claim.token, "type": "ready"}

    assert sent(client, "report", report)["state"] == "in_progress"
    for wrong, why in (
        ({"token": "17-x"}, "its work has moved on"),
        ({"type": "cheer"}, "'cheer' is no type of report"),
        ({"type": "mail", "fields": {"to": "owl", "text": "hi"}}, "for agents that Interlock runs"),
        ({"key": "two:1.0:x"}, "it is not of a claim of a task"),
        ({"key": "two"}, "an effect's id is <record>:"),
    ):
        assert why in rejected(client, "report", {**report, **wrong})
    assert client.dispatch.rejected.counts() == {"refused at intake": 5}, "none is a fault of ours"


def test_a_report_that_comes_again_counts_once(client: Client) -> None:
    Tasks(client).submit({"title": "fix it", "text": ""}, backlog="b", name="one")
    claim = Tasks(client).claim("b/one", owner="helper")
    tool = {"tool": "sh", "id": "t"}
    reports: list[tuple[str, dict[str, Any]]] = [
        ("ready", {}),
        ("usage", {"tokens_in": 5}),
        ("tool_started", tool),
        ("tool_completed", {**tool, "success": True}),
        ("compact_needed", {}),
        ("compacted", {}),
    ]

    for number, (kind, fields) in enumerate(reports):
        report = {"id": f"p-{number}", "key": claim.key, "token": claim.token, "type": kind}
        first, again = (sent(client, "report", {**report, "fields": fields}) for _ in range(2))
        assert (first["answer"], again) == ("accepted", first)

    task, turn = client.show("b/one"), client.history("b/turn~one~1")
    assert task.counters["tokens_in"] == 5
    reported = [one.trigger for one in turn if isinstance(one, Event)][4:]
    assert reported == ["tool_started", "tool_completed", "compact_needed", "verify_requested"]


def test_the_message_of_a_job_is_rejected_if_its_dependency_never_comes(client: Client) -> None:
    payload = {"phases": [{"worker": {"command": "true"}}], "depends_on": ["g/none"]}
    message = {"id": "g/a", "machine": "job", "payload": payload}

    for reads in range(EARLY_READS_MAX):
        with pytest.raises(CallError) as refused:
            receive(client, "submit", [message], {}, reads_before=reads)
        assert refused.value.is_early
    assert client.dispatch.rejected.counts() == {}
    last = receive(client, "submit", [message], {}, reads_before=EARLY_READS_MAX)

    assert (last["answer"], last["error"]) == ("rejected", "UnknownDependencyError")
    assert client.dispatch.rejected.counts() == {"refused at intake": 1}


def test_a_message_about_a_record_of_a_newer_version_waits_for_an_intake_that_knows_it(
    client: Client,
) -> None:
    bring(client, "one", "awaiting_confirmation")
    client.dispatch.client.hset(client.dispatch.keys.record("one"), "schema", "99")

    with pytest.raises(NewerSchemaError):
        sent(client, "cancel", {"id": "m1", "record": "one"})
    assert client.dispatch.rejected.counts() == {}


def test_a_message_on_which_interlock_fails_is_kept_and_answered_with_its_id(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(client, "cancel", fail)

    answer = sent(client, "cancel", {"id": "m1", "record": "r"})

    assert answer == {"id": "m1", "answer": "rejected", "error": "KeyError", "reason": "'a bug'"}
    assert client.dispatch.rejected.counts() == {"failed at intake": 1}
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("machine", ["task", "loop", "run"])
def test_a_message_is_known_again_when_its_repository_or_folder_is_gone(
    client: Client, tmp_path: Path, machine: str
) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "folder"
    (tmp_path / "link").symlink_to(repository)
    task = {"title": "Add", "repo": str(repository), "agent": "true"}
    message = {
        "task": {"id": "shop/total", "machine": "task", "payload": task},
        "loop": loop(tmp_path, repo=str(tmp_path / "link")),
        "run": run(tmp_path),
    }[machine]
    first = sent(client, "submit", message)
    shutil.rmtree(repository)
    folder.rmdir()

    again = sent(client, "submit", message)

    assert (first["answer"], again["answer"]) == ("accepted", "known")
    assert first["record"] == again["record"]
    other = {"title": "Other", "command": "other", "plan": {**PLAN, "plan": "other"}}
    changed = {name: other.get(name, value) for name, value in message["payload"].items()}
    assert rejected(client, "submit", {**message, "payload": changed})


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
@example(chance=None)
def test_interlock_fails_on_no_message_that_is_nearly_right(
    client: Client, tmp_path: Path, chance: Random | None
) -> None:
    if not client.list():
        bring(client, "one", "awaiting_confirmation")
        bring(client, "two", "awaiting_confirmation")
    card = client.show("one").proposal
    work = {"title": "x", "repo": str(tmp_path / "repository"), "agent": "make", "deadline": "2h"}
    decided = {"id": "d", "record": "one", "choice": "reject", "proposal": card, "actor": "ann"}
    fired = {"id": "f", "record": "two", "trigger": "dismissed_by_user", "version": 1}
    right: list[tuple[str, dict[str, Any]]] = [
        ("submit", {"id": "t", "payload": thread_payload(), "machine": "thread", "priority": 3}),
        ("submit", {"id": "b/one", "payload": work, "machine": "task"}),
        ("submit", {"id": "g", "payload": {"defaults": {}}, "machine": "graph"}),
        ("submit", {"id": "g/j", "payload": {"goal": "x", "after": []}, "machine": "job"}),
        ("submit", loop(tmp_path)),
        ("submit", run(tmp_path)),
        ("fire", {**fired, "payload": {"reason": "x"}, "reason": "y"}),
        ("cancel", {"id": "c", "record": "two", "reason": "x"}),
        ("decide", {**decided, "answer": {"reason": "x"}}),
        ("send", {"id": "s", "to": "ann", "text": "x", "kind": "note", "thread": "t"}),
    ]
    # No field of this type is read as text before it is kept.
    verb, wrong = "submit", {**loop(tmp_path), "payload": {"\ud800": 1}}
    if chance is not None:
        verb, whole = chance.choice(right)
        wrong = damaged(whole, chance)
    with suppress(HeldError, CallError):
        receive(client, verb, [wrong], {})
    assert "failed at intake" not in client.dispatch.rejected.counts()
