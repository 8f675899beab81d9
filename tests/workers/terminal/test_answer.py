"""The command line, in JSON for programs and in words for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.machines import MACHINES
from interlock.kernel.table import Terminal
from interlock.workers.cli import app, main
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.tasks.claims import claim
from tests.workers.threads.threads import bring, client_of, thread_payload

INBOX = Path(__file__).parents[3] / "examples" / "inbox"
Run = Callable[..., Any]
Ask = Callable[..., Any]


@pytest.fixture
def here(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Client:
    """Return a client of the store that the command line finds in its environment."""
    for name, value in {
        "STORE_URL": server.url,
        "PREFIX": prefix,
        "NAMESPACE": prefix,
        "CAPABILITIES": "tests.end_to_end.threads.capabilities",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    return client_of(server.url, prefix)


@pytest.fixture
def run() -> Run:
    """Return what types a command."""
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def ask(run: Run) -> Ask:
    """Return what types a command that succeeds, and reads its JSON."""

    def asked(*words: object) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return asked


def test_a_request_is_submitted_by_its_title(here: Client, ask: Ask) -> None:
    words = ("submit", "--title", "Call the dentist", "--id", "call", "--priority", 2)

    assert ask(*words) == [{"id": "call", "replayed": False, "error": None}]
    assert ask(*words) == [{"id": "call", "replayed": True, "error": None}]
    assert here.show("call").priority == 2


def test_a_folder_of_requests_is_submitted_and_known_afterwards(here: Client, run: Run) -> None:
    first, again = run("submit", INBOX), run("submit", INBOX)

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.stdout.count("accepted") == len(list(INBOX.glob("*.md")))
    assert again.stdout.count("known already") == first.stdout.count("accepted")
    assert len(here.list(machine="thread")) >= 12


def test_a_refused_one_among_many_is_told_and_ends_with_1(here: Client, run: Run) -> None:
    here.submit(thread_payload(), machine="thread", id="02-dentist")

    result = run("submit", INBOX, "--json")

    assert result.exit_code == 1
    errors = {row["id"]: row["error"] for row in json.loads(result.stdout) if row["error"]}
    assert list(errors) == ["02-dentist"]
    assert "id_taken" in errors["02-dentist"]


def test_a_held_request_waits_for_a_person(here: Client, ask: Ask) -> None:
    done = ask("submit", "--title", "Later", "--hold", "--policy", "hands_off")

    assert here.show(done[0]["id"]).state == "proposed"
    assert [one["name"] for one in ask("cards")[0]["affordances"]] == ["begin", "drop"]


def test_show_tells_record_card_children_and_runs(here: Client, ask: Ask, run: Run) -> None:
    bring(here, "one", "awaiting_confirmation")

    value = ask("show", "one")

    assert (value["state"], value["card"]["kind"]) == ("awaiting_confirmation", "consent")
    assert (value["children"], value["runs"]) == ([], [])
    said = run("show", "one").stdout
    assert "Paper" in said
    for name in ("approve", "edit", "reject"):
        assert f"  interlock decide one {name} --proposal {value['card']['proposal']}\n" in said


def test_show_tells_a_tasks_deadline_with_its_reasons(here: Client, run: Run) -> None:
    given = {"title": "mend it", "repo": "/nowhere", "agent": "make", "scope": "large"}
    here.submit(given, id="b/one", machine="task")
    assert claim(here.dispatch, here.show("b/one"), agent="b/agent~one~1") is not None

    said = run("show", "b/one").stdout

    assert "mend it" in said
    assert "3600 s: " in said
    assert "large" in said


def test_history_is_the_whole_log(here: Client, ask: Ask, run: Run) -> None:
    bring(here, "one", "awaiting_confirmation")

    lines = ask("history", "one")

    events = [line for line in lines if line["line"] == "event"]
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert events[1]["cause"]["actor"] == "tester"
    assert "begin_inference" in run("history", "one").stdout


def test_list_counts_and_filters(here: Client, ask: Ask, run: Run) -> None:
    bring(here, "one", "awaiting_confirmation")
    bring(here, "two", "awaiting_inference")

    value = ask("list", "--state", "awaiting_confirmation")

    assert value["counts"] == {"awaiting_confirmation": 1, "awaiting_inference": 1}
    assert [row["id"] for row in value["records"]] == ["one"]
    assert "awaiting_inference 1" in run("list").stdout


def test_a_card_is_decided(here: Client, ask: Ask) -> None:
    bring(here, "one", "awaiting_confirmation")
    card = ask("cards")[0]

    words = ("--answer", '{"parameters": {"text": "new"}}', "--proposal", card["proposal"])
    edited = ask("decide", "one", "edit", *words, "--as", "ann")
    approved = ask("decide", "one", "approve", "--proposal", here.show("one").proposal)

    assert (edited["state"], approved["state"]) == ("awaiting_confirmation", "executing")
    action = here.show("one").data["proposals"]["action"]
    assert action["payload"]["parameters"] == {"text": "new"}


@pytest.mark.parametrize(
    ("state", "choice", "field"),
    [
        ("awaiting_intent_clarification", "provide", "text"),
        ("awaiting_review", "redirect", "feedback"),
        ("awaiting_confirmation", "reject", "reason"),
    ],
)
def test_the_words_of_an_answer_go_where_they_belong(
    here: Client, ask: Ask, state: str, choice: str, field: str
) -> None:
    seen = bring(here, "one", state).proposal

    ask("decide", "one", choice, "--text", "these are my words", "--proposal", seen)

    last = [line for line in ask("history", "one") if line["line"] == "event"][-1]
    assert last["payload"][field] == "these are my words"


def test_a_person_acts_on_a_record(here: Client, ask: Ask, run: Run) -> None:
    bring(here, "one", "awaiting_confirmation")

    assert ask("pause", "one", "--reason", "lunch") == {"id": "one", "answer": "paused"}
    assert ask("resume", "one") == {"id": "one", "answer": "resumed"}
    nothing = run("retry", "one", "--json")
    assert (json.loads(nothing.stdout)["answer"], nothing.exit_code) == ("nothing", 1)
    words = ("--to", "the office", "--reference", "ticket 12", "--kind", "system")
    assert ask("handoff", "one", *words) == {"id": "one", "state": "handed_off"}
    bring(here, "three", "awaiting_confirmation")
    assert ask("cleanup", "three") == {"id": "three", "state": "cleaning_up"}
    bring(here, "two", "awaiting_confirmation")
    assert "two is dismissed" in run("cancel", "two", "--reason", "no").stdout


def test_machines_tell_states_and_rows_in_the_agreed_shape(ask: Ask) -> None:
    machines = ask("machines")

    assert [machine["name"] for machine in machines] == list(MACHINES)
    for machine in machines:
        table = MACHINES[machine["name"]]
        assert [one["name"] for one in machine["states"]] == [str(s.state) for s in table.stages]
        for state in machine["states"]:
            assert {"name", "kind", "entry_effect", "timers"} <= set(state)
            assert state["kind"] in ("active", "waiting", "terminal")
        rows = [(r["source"], r["trigger"], r["target"], r["ours"]) for r in machine["rows"]]
        assert rows == [
            (str(r.source), str(r.trigger), str(r.target), bool(r.ours)) for r in table.transitions
        ]
        ends = {one["name"] for one in machine["states"] if one["kind"] == "terminal"}
        assert ends == {str(s.state) for s in table.stages if isinstance(s, Terminal)}


def test_the_machines_are_shown_to_people_too(run: Run) -> None:
    said = run("machines").stdout

    assert "thread: states" in said
    assert "thread: rows" in said


def test_verify_and_doctor_look_the_store_over(here: Client, ask: Ask, run: Run) -> None:
    bring(here, "one", "awaiting_confirmation")

    assert ask("verify")["faults"] == []
    assert ask("verify", "one")["records"] == 1
    doctor = ask("doctor")
    assert (doctor["level"], doctor["enqueue"]) == ("D1", "fused")
    assert doctor["machines"]["thread"] == {"awaiting_confirmation": 1}
    assert "every log folds to its record" in run("verify").stdout
    assert "D1" in run("doctor").stdout


def test_verify_ends_with_1_where_a_record_does_not_agree(here: Client, run: Run) -> None:
    bring(here, "one", "awaiting_confirmation")
    name = here.dispatch.keys.record("one")
    here.dispatch.client.hset(name, "state", "done")

    result = run("verify", "one")

    assert result.exit_code == 1
    assert "fault one: the log leads to awaiting_confirmation" in result.stdout


def test_the_version_needs_no_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "nonsense")

    assert run("version").stdout == f"interlock {version('interlock')}\n"


COMMANDS = [
    ("show", "nobody"),
    ("history", "nobody"),
    ("decide", "nobody", "approve"),
    ("handoff", "nobody", "--to", "Ann", "--reference", "x"),
    ("cancel", "nobody"),
    ("pause", "nobody"),
    ("resume", "nobody"),
    ("retry", "nobody"),
]


@pytest.mark.parametrize("words", [*COMMANDS, ("show", "no id"), ("list", "--state", "asleep")])
def test_an_error_is_one_sentence_on_stderr_and_1(
    here: Client, run: Run, words: tuple[str, ...]
) -> None:
    del here
    result = run(*words)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", COMMANDS)
def test_an_error_is_json_for_programs(here: Client, run: Run, words: tuple[str, ...]) -> None:
    del here
    result = run(*words, "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"] == "UnknownRecordError"
    assert "nobody" in json.loads(result.stdout)["message"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("decide", "one", "approve", "--answer", "{"), "--answer is not JSON"),
        (("decide", "one", "approve", "--answer", "[]"), "must be a JSON object"),
        (("decide", "one", "approve"), "--proposal one:10 is the current one"),
        (
            ("decide", "one", "accept", "--proposal", "one:10"),
            "there are: approve, edit, reject",
        ),
        (("decide", "one", "approve", "--proposal", "one:1"), "look again"),
        (("submit",), "give files or folders, or a --title"),
        (("submit", "--title", "x", str(INBOX)), "not both"),
        (("submit", "--title", "x", "--policy", "reckless"), "composition cannot be 'reckless'"),
        (("submit", "no-such-file.md"), "no-such-file.md"),
        (("list", "--machine", "washing"), "there is no machine 'washing'"),
    ],
)
def test_a_wrong_command_says_what_to_do(
    here: Client, run: Run, words: tuple[str, ...], problem: str
) -> None:
    bring(here, "one", "awaiting_confirmation")

    result = run(*words)

    assert result.exit_code == 1
    assert problem in result.output
    assert "Traceback" not in result.output


def test_a_setting_that_is_none_is_named(
    here: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del here
    monkeypatch.setenv("INTERLOCK_STORE", "redis://elsewhere")

    result = run("cards")

    assert result.exit_code == 1
    assert "INTERLOCK_STORE is no setting" in result.stderr


def test_a_store_that_is_down_is_a_sentence(
    here: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del here
    monkeypatch.setenv("INTERLOCK_STORE_URL", f"redis://127.0.0.1:{free_port()}/0")

    result = run("cards")

    assert result.exit_code == 1
    assert "the store does not answer" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_trigger_is_explained_for_programs(here: Client, ask: Ask) -> None:
    here.submit(thread_payload(), machine="thread", id="one")

    told = ask("explain", "one", "dismissed_by_user", "--payload", '{"reason": "enough"}')
    refused = ask("explain", "one", "execute")

    assert (told["accepted"], told["target"]) == (True, "dismissed")
    assert (refused["accepted"], refused["target"], refused["trigger"]) == (False, "", "execute")
    assert "legal here" in refused["answer"]


@pytest.mark.parametrize("words", [["frobnicate"], ["list", "--limit", "many"], ["show"]])
def test_what_is_typed_wrongly_is_said_in_json_too(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["interlock", *words, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()

    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 2
    assert told["error"] == "UsageError"
    assert told["message"]


def test_a_store_that_is_down_is_said_with_what_starts_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", f"redis://127.0.0.1:{free_port()}")
    result = run("list")

    assert result.exit_code == 1
    assert "`interlock up` starts a store here" in result.output
