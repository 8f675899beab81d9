"""Commands print JSON for programs, and tables and sentences for people."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from interlock.kernel.machines import MACHINES
from interlock.kernel.table import Terminal, Waiting
from interlock.systems.tasks.claims import claim
from interlock.workers.cli import main
from interlock.workers.client import Client
from interlock.workers.gateways.server import free_port
from tests.systems.threads.threads import WAITS, bring, thread_payload
from tests.workers.terminal.conftest import Run, RunJson

INBOX = Path(__file__).parents[3] / "examples" / "inbox"
OFFERED = {
    str(stage.state): [name for name, _ in stage.affordances]
    for stage in MACHINES["thread"].stages
    if isinstance(stage, Waiting)
}


def test_a_request_is_submitted_by_its_title(interlock: Client, run_json: RunJson) -> None:
    arguments = ("submit", "--title", "Call the dentist", "--id", "call", "--priority", 2)

    assert run_json(*arguments) == [{"id": "call", "replayed": False, "error": None}]
    assert run_json(*arguments) == [{"id": "call", "replayed": True, "error": None}]
    assert interlock.show("call").priority == 2


def test_a_folder_of_requests_is_submitted_once(interlock: Client, run: Run) -> None:
    first, again = run("submit", INBOX), run("submit", INBOX)

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.stdout.count("accepted") == len(list(INBOX.glob("*.md")))
    assert again.stdout.count("known already") == first.stdout.count("accepted")
    assert len(interlock.list(machine="thread")) >= 12


def test_a_request_notes_the_computer_on_which_it_was_submitted(
    interlock: Client, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOST", "north")

    run_json("submit", INBOX / "02-dentist.md")

    assert interlock.show("02-dentist").data["inciting"]["fields"]["request_host"] == "north"


def test_a_refused_request_among_many_is_reported_and_exits_with_1(
    interlock: Client, run: Run
) -> None:
    interlock.submit(thread_payload(), machine="thread", id="02-dentist")

    result = run("submit", INBOX, "--json")

    assert result.exit_code == 1
    errors = {row["id"]: row["error"] for row in json.loads(result.stdout) if row["error"]}
    assert list(errors) == ["02-dentist"]
    assert "id_taken" in errors["02-dentist"]


def test_a_held_request_waits_for_a_person(interlock: Client, run_json: RunJson) -> None:
    submitted = run_json(
        "submit", "--title", "Later", "--hold", "--policy=ask_every_step", "--tag=eu"
    )
    assert interlock.show(submitted[0]["id"]).state == "proposed"
    (card,) = run_json("cards", "--tag=eu")
    assert [item["name"] for item in card["affordances"]] == ["begin", "drop"]


def test_show_prints_record_card_children_and_runs(
    interlock: Client, run_json: RunJson, run: Run
) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    value = run_json("show", "one")

    assert (value["state"], value["cards"][0]["kind"]) == ("awaiting_confirmation", "consent")
    assert (value["children"], value["runs"]) == ([], [])
    output = run("show", "one").stdout
    assert "Paper" in output
    for choice in value["cards"][0]["affordances"]:
        assert f"  {choice['command']}\n" in output


def test_show_prints_the_deadline_of_a_task_with_its_reasons(interlock: Client, run: Run) -> None:
    payload = {"title": "repair it", "repo": "/nowhere", "agent": "make", "scope": "large"}
    interlock.submit(payload, id="b/one", machine="task")
    assert claim(interlock.records, interlock.show("b/one"), agent="b/agent~one~1") is not None

    output = run("show", "b/one").stdout

    assert "repair it" in output
    assert "60 min for this try (scope large: 3600 s)" in output


def test_history_is_the_whole_log(interlock: Client, run_json: RunJson, run: Run) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    lines = run_json("history", "one")

    events = [line for line in lines if line["line"] == "event"]
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert events[1]["cause"]["actor"] == "tester"
    assert [event["because"] for event in events[:2]] == ["it was handed in", "it may be worked on"]
    shown = run("history", "one").stdout
    assert "begin_inference" in shown
    assert "it may be worked on" in shown


def test_list_counts_and_filters(interlock: Client, run_json: RunJson, run: Run) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    bring(interlock, "two", "awaiting_inference")
    value = run_json("list", "--machine", "thread", "--state", "awaiting_confirmation")

    assert (value["counts"], value["more"]) == ({"thread": {"awaiting_confirmation": 1}}, False)
    assert [row["id"] for row in value["records"]] == ["one"]
    assert "awaiting_inference 1" in run("list").stdout
    (row,) = run_json("list", "--text", "pap", "--id", "tw")["records"]
    assert (row["id"], row["title"]) == ("two", "Paper")
    assert run_json("list", "--parent", "two")["records"] == []


def test_a_card_is_decided(interlock: Client, run_json: RunJson) -> None:
    bring(interlock, "one", "awaiting_confirmation", tags=["me", "eu"])
    (card,) = run_json("cards", "--tag=EU", "--tag=me") + run_json("cards", "--tag=EU", "--tag=us")

    arguments = ("--answer", '{"parameters": {"text": "new"}}', "--proposal", card["proposal"])
    edited = run_json("decide", "one", "edit", *arguments, "--as", "ann")
    approved = run_json("decide", "one", "approve", "--proposal", interlock.show("one").proposal)

    assert (edited["state"], approved["state"]) == ("awaiting_confirmation", "executing")
    action = interlock.show("one").data["proposals"]["action"]
    assert action["payload"]["parameters"] == {"text": "new"}


@pytest.mark.parametrize(
    ("state", "choice"), [(state, name) for state in WAITS for name in OFFERED[state]]
)
def test_a_command_that_a_card_prints_works_when_it_is_pasted(
    interlock: Client, run: Run, state: str, choice: str
) -> None:
    before = bring(interlock, "one", state)
    printed = [line.strip() for line in run("show", "one").stdout.splitlines()]
    # What a card suggests is printed before its choices.
    *_, command = [line for line in printed if line.startswith(f"interlock decide one {choice} ")]

    if "..." in command:
        assert "replace ... by your answer" in run(*shlex.split(command)[1:]).stderr
        assert interlock.show("one").version == before.version
    result = run(*shlex.split(command.replace("...", "the words"))[1:])

    assert (result.exit_code, result.stderr) == (0, "")
    assert interlock.show("one").version > before.version


def test_an_edit_that_is_pasted_has_the_proposed_values_unchanged(
    interlock: Client, run: Run
) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")
    values = {"parameters": {"text": "it's \x1b[2K \u202e'quoted'"}}
    interlock.decide("one", "edit", values, proposal=record.proposal)

    output = run("show", "one").stdout
    (command,) = [line for line in output.splitlines() if "decide one edit" in line]

    assert command.isprintable()
    assert json.loads(shlex.split(command)[-1]) == values


def test_the_refusal_of_an_empty_answer_names_the_options(interlock: Client, run: Run) -> None:
    seen = bring(interlock, "one", "awaiting_intent_clarification").proposal

    result = run("decide", "one", "provide", "--proposal", seen)

    assert result.exit_code == 1
    assert (
        "provide needs an answer by --text or --answer, for example --text '...'" in result.stderr
    )


def test_a_person_at_a_terminal_is_asked_for_the_words(
    interlock: Client,
) -> None:
    bring(interlock, "one", "awaiting_intent_clarification")

    output = at_terminal(["decide", "one", "provide"], b"the thick kind\n")

    assert "provide, in words:" in output
    assert "[y/N]" not in output
    assert interlock.show("one").data["feedback"][-1]["text"] == "the thick kind"


def at_terminal(arguments: list[str], typed: bytes) -> str:
    """Run a command in a terminal, type into it, and return what it printed."""
    master, slave = os.openpty()
    command = [sys.executable, "-m", "interlock", *arguments]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        os.write(master, typed)
        output = b""
        with suppress(OSError):  # the terminal is closed at the command's end
            while chunk := os.read(master, 65_536):
                output += chunk
        process.wait(180)
    os.close(master)
    return output.decode()


HOSTILE = "Order coffee\x1b[2K\x1b[1A\r\x08\x7f\x9b\u202e\u200b\ufeff\U000e0041\nforged awaiting_x"
COMMANDS_THAT_SHOW_IT = [("cards",), ("show", "one"), ("history", "one")]


@pytest.mark.parametrize("arguments", COMMANDS_THAT_SHOW_IT)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_text_from_outside_repaints_a_screen(
    interlock: Client, run: Run, arguments: tuple[str, ...], form: tuple[str, ...]
) -> None:
    bring(interlock, "one", "awaiting_confirmation", title=HOSTILE)

    output = run(*arguments, *form).stdout

    assert [letter for letter in output if not letter.isprintable() and letter != "\n"] == []
    assert not any(line.startswith("forged") for line in output.splitlines())
    if not form and arguments != ("history", "one"):
        assert r"Order coffee\x1b[2K\x1b[1A\r\x08\x7f\x9b\u202e\u200b\ufeff" in output


@pytest.mark.parametrize(
    ("state", "choice", "option", "field"),
    [
        ("awaiting_intent_clarification", "provide", "--text", "text"),
        ("awaiting_review", "redirect", "--text", "feedback"),
        ("awaiting_confirmation", "reject", "--text", "reason"),
        ("awaiting_confirmation", "reject", "--reason", "reason"),
    ],
)
def test_the_text_of_an_answer_goes_into_the_field_of_its_trigger(
    interlock: Client, run_json: RunJson, state: str, choice: str, option: str, field: str
) -> None:
    seen = bring(interlock, "one", state).proposal

    run_json("decide", "one", choice, option, "these are my words", "--proposal", seen)

    last = [line for line in run_json("history", "one") if line["line"] == "event"][-1]
    assert last["payload"][field] == "these are my words"


def test_a_person_acts_on_a_record(interlock: Client, run_json: RunJson, run: Run) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    assert run_json("pause", "one", "--reason", "lunch") == {"id": "one", "answer": "paused"}
    assert run_json("resume", "one") == {"id": "one", "answer": "resumed"}
    nothing = run("retry", "one", "--json")
    assert (json.loads(nothing.stdout)["answer"], nothing.exit_code) == ("nothing", 1)
    arguments = ("--to", "the office", "--reference", "ticket 12", "--kind", "system")
    assert run_json("handoff", "one", *arguments) == {"id": "one", "state": "handed_off"}
    bring(interlock, "three", "awaiting_confirmation")
    assert run_json("cleanup", "three") == {"id": "three", "state": "cleaning_up"}
    bring(interlock, "two", "awaiting_confirmation")
    assert "two is ■ dropped" in run("cancel", "two", "--reason", "no").stdout


def test_machines_prints_states_and_rows_in_the_documented_shape(run_json: RunJson) -> None:
    machines = run_json("machines")

    assert [machine["name"] for machine in machines] == list(MACHINES)
    for machine in machines:
        table = MACHINES[machine["name"]]
        assert [item["name"] for item in machine["states"]] == [str(s.state) for s in table.stages]
        for state in machine["states"]:
            assert {"name", "kind", "entry_effect", "timers"} <= set(state)
            assert state["kind"] in ("active", "waiting", "terminal")
        rows = [(r["source"], r["trigger"], r["target"], r["ours"]) for r in machine["rows"]]
        assert rows == [
            (str(r.source), str(r.trigger), str(r.target), bool(r.ours)) for r in table.transitions
        ]
        ends = {state["name"] for state in machine["states"] if state["kind"] == "terminal"}
        assert ends == {str(s.state) for s in table.stages if isinstance(s, Terminal)}


def test_machines_prints_tables_for_people(run: Run) -> None:
    output = run("machines").stdout

    assert "thread: states" in output
    assert "thread: rows" in output
    assert "thread: rows" not in run("machines", "turn").stdout
    assert "there is no machine 'tusk'" in run("machines", "tusk").stderr


def test_verify_and_doctor_check_the_store(interlock: Client, run_json: RunJson, run: Run) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    assert run_json("verify")["faults"] == []
    assert run_json("verify", "one")["records"] == 1
    assert "every record agrees with its log" in run("verify").stdout


def test_doctor_shows_the_store_and_each_rejected_message(
    interlock: Client, run_json: RunJson, run: Run
) -> None:
    interlock.dispatch.rejected.put("unknown task", "nobody knows it", "x")

    found, shown = run_json("doctor"), run("doctor").stdout

    assert (found["level"], found["enqueue"]) == ("D0", "fused"), "no append-only file"
    assert (found["problems"], found["workers"]) == ([], {})
    assert found["rejected_messages"][0]["reason"] == "nobody knows it"
    assert "D0" in shown
    assert "nobody knows it" in shown


def test_doctor_fails_where_effects_are_owed_and_nobody_works(interlock: Client, run: Run) -> None:
    interlock.submit(thread_payload(), machine="thread", id="one")

    result = run("doctor")

    assert result.exit_code == 1
    assert "work waits (1 effects, " in result.stdout


def test_verify_exits_with_1_if_a_record_does_not_agree(interlock: Client, run: Run) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    name = interlock.dispatch.keys.record("one")
    interlock.dispatch.client.hset(name, "state", "done")

    result = run("verify", "one")

    assert result.exit_code == 1
    assert "fault one: the log leads to awaiting_confirmation" in result.stdout


def test_the_version_needs_no_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "nonsense")

    assert run("--version").stdout == f"interlock {version('interlock')}\n"


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


@pytest.mark.parametrize("arguments", [*COMMANDS, ("show", "no id"), ("list", "--state", "asleep")])
def test_an_error_is_one_sentence_on_stderr_and_exits_with_1(
    interlock: Client, run: Run, arguments: tuple[str, ...]
) -> None:
    del interlock
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", COMMANDS)
def test_an_error_is_json_for_programs(
    interlock: Client, run: Run, arguments: tuple[str, ...]
) -> None:
    del interlock
    result = run(*arguments, "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"] == "UnknownRecordError"
    assert "nobody" in json.loads(result.stdout)["message"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("decide", "one", "approve", "--answer", "{"), "--answer is not JSON"),
        (("decide", "one", "approve", "--answer", "[]"), "must be a JSON object"),
        (("decide", "one", "approve"), "--proposal one:10 is the current one"),
        (
            ("decide", "one", "accept", "--proposal", "one:10"),
            "there are: approve, edit, reject",
        ),
        (
            ("decide", "one", "yes"),
            "'yes' is no answer to one in awaiting_confirmation; there are: a",
        ),
        (("decide", "one", "approve", "--proposal", "one:1"), "look again"),
        (("submit",), "give files or folders with requests (*.md), or --title"),
        (("submit", "--title", "x", str(INBOX)), "not both"),
        (("submit", "--title", "x", "--policy", "reckless"), "composition cannot be 'reckless'"),
        (("submit", "no-such-file.md"), "no-such-file.md"),
        (("list", "--machine", "washing"), "there is no machine 'washing'"),
    ],
)
def test_a_wrong_command_says_what_to_do(
    interlock: Client, run: Run, arguments: tuple[str, ...], problem: str
) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    result = run(*arguments)

    assert result.exit_code == 1
    assert problem in result.output
    assert "Traceback" not in result.output


def test_an_unknown_setting_is_named(
    interlock: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del interlock
    monkeypatch.setenv("INTERLOCK_STORE", "redis://elsewhere")

    result = run("cards")

    assert result.exit_code == 1
    assert "INTERLOCK_STORE is no setting" in result.stderr


def test_a_list_shows_titles(interlock: Client, run: Run, run_json: RunJson) -> None:
    request = thread_payload() | {"inciting": {"source": "cli", "title": "Call the dentist"}}
    interlock.submit(request, machine="thread", id="one")

    assert [row["title"] for row in run_json("list")["records"]] == ["Call the dentist"]
    assert "Call the dentist" in run("list").stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((), "nothing is given to submit"), (("--title", " "), "the --title is empty")],
)
def test_what_is_missing_in_a_submission_is_named(
    run: Run, arguments: tuple[str, ...], problem: str
) -> None:
    assert problem in run("submit", *arguments).stderr


def test_every_faulty_file_of_a_folder_is_named_and_none_is_submitted(
    interlock: Client, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("---\npolicy: whatever\n---\nOne")
    (tmp_path / "b.md").write_text("---\ntitle: x\npriority: 12\n---\nTwo")
    (tmp_path / "c.md").write_text("Three")

    result = run("submit", tmp_path)

    assert result.exit_code == 1
    assert "a.md:2:1: policy: 'whatever'" in result.stderr
    assert "b.md:3:1: priority: 12" in result.stderr
    assert interlock.list(machine="thread") == []


def test_a_store_that_is_down_is_reported_in_a_line_with_the_command_that_starts_one(
    interlock: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del interlock
    monkeypatch.setenv("INTERLOCK_STORE_URL", f"redis://127.0.0.1:{free_port()}/0")

    result = run("cards")

    assert result.exit_code == 1
    assert "the store does not answer" in result.stderr
    assert "`interlock up` starts a store here" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_trigger_is_fired_only_in_the_state_that_was_seen(
    interlock: Client, run: Run, run_json: RunJson
) -> None:
    seen = bring(interlock, "one", "awaiting_intent_confirmation").entered
    fire = ("fire", "one", "redirected", "--payload", '{"feedback": "no"}')

    stale = run(*fire, "--version", seen - 1)

    assert (stale.exit_code, stale.stdout) == (1, "")
    assert f"proposal one:{seen - 1}, but the current one is one:{seen}" in stale.stderr
    assert run_json(*fire, "--version", seen) == {"id": "one", "state": "awaiting_inference"}


def test_a_trigger_that_decides_about_a_proposal_needs_the_version_that_was_seen(
    interlock: Client, run: Run, run_json: RunJson
) -> None:
    seen = bring(interlock, "one", "awaiting_intent_confirmation").entered

    refused = run("fire", "one", "confirmed")

    assert "must say what was seen: the card's proposal, or the version" in refused.stderr
    assert run_json("fire", "one", "confirmed", "--version", seen)["state"] == "awaiting_inference"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("inference_done",), "inference_done is invalid: proposal"),
        (("inference_failed",), "only orphans or stalls may fire it"),
        (("execute",), "execute is not allowed in awaiting_inference; legal here"),
        (("exucute",), "no trigger 'exucute'"),
        (("handed_off", "--payload", "[]"), "--payload must be a JSON object"),
        (("handed_off",), "handed_off is invalid"),
    ],
)
def test_a_trigger_that_cannot_be_fired_is_refused_in_a_sentence(
    interlock: Client, run: Run, arguments: tuple[str, ...], problem: str
) -> None:
    bring(interlock, "one", "awaiting_inference")

    refused = run("fire", "one", *arguments)

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert problem in refused.stderr
    assert interlock.show("one").state == "awaiting_inference"


@pytest.mark.parametrize("arguments", [["frobnicate"], ["list", "--limit", "many"], ["show"]])
def test_a_usage_error_is_json_with_json(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["interlock", *arguments, "--json"])
    with pytest.raises(SystemExit) as exit_error:
        main()

    value = json.loads(capsys.readouterr().out)
    assert exit_error.value.code == 2
    assert value["error"] == "UsageError"
    assert value["message"]
