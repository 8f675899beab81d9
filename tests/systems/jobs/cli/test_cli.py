"""`interlock job` for people and programs: each verb, its output, and its refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from interlock.kernel.event import Event
from interlock.systems.jobs.manifest import MANIFEST_FILE, job_folder, manifest_now
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.cli.conftest import Ask, Refuse, Run
from tests.systems.jobs.test_graphs import CHAIN, COMMAND, brought, settle, stored


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.yaml"
    path.write_text(CHAIN)
    return path


@contextmanager
def at_work(worker: InProcessWorker, *ids: str) -> Iterator[None]:
    """Let a worker perform all due effects of these jobs meanwhile."""
    stopping, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            while not stopping.wait(0.02):
                settle(worker, *ids)
        except BaseException as error:  # noqa: BLE001 - reported at the end of the block
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
    assert not failed, failed


def state(worker: InProcessWorker, job_id: str = "g/j") -> str:
    return worker.graphs.job(job_id).state


def test_a_job_is_created_as_a_draft_where_it_was_typed(
    worker: InProcessWorker, ask: Ask, printed: Ask, tmp_path: Path
) -> None:
    done = ask("create", "g/a", "--command", "true", "--description", "first", "--priority", 2)

    assert done == {
        "graph": "g",
        "jobs": [{"id": "g/a", "replayed": False}],
        "activated": False,
    }
    record = worker.graphs.job("g/a")
    assert (record.state, record.priority, record.data["description"]) == ("draft", 2, "first")
    assert record.data["folder"] == str(tmp_path)
    assert record.data["dir"] == str(tmp_path / "home" / "jobs" / "g" / "a")
    assert record.data["host"] == worker.client.settings.host
    again = printed("create", "g/a", "--command", "true", "--description", "first", "--priority", 2)
    assert again == "g: 0 jobs created, 1 known already interlock job status g"


def test_a_job_takes_any_field_and_names_of_dependencies_without_the_graph(
    worker: InProcessWorker, ask: Ask
) -> None:
    fields = {"manual": True, "stewards": ["ann"], "limits": {"iterations": 3}}
    for name in ("g/a", "h/b"):
        ask("create", name, "--command", "true")
    words = ("--after", "a", "--after", "h/b", "--fields", json.dumps(fields), "--activate")

    ask("create", "g/c", "--command", "true", *words, "--tag", "eu", "--tag", "Docs")

    record = worker.graphs.job("g/c")
    assert (record.state, record.data["tags"]) == ("pending", ["eu", "Docs"])
    assert record.data["depends_on"] == ["g/a", "h/b"]
    assert fields.items() <= record.data.items()


def test_a_creation_that_was_interrupted_before_the_activation_is_completed_by_repeating_it(
    worker: InProcessWorker, ask: Ask
) -> None:
    ask("create", "g/a", "--command", "true")

    words = ("create", "g/a", "--command", "true", "--activate")
    assert ask(*words)["jobs"] == [{"id": "g/a", "replayed": True}]
    assert state(worker, "g/a") == "pending"
    worker.graphs.command("g/a", "suspend")
    ask(*words)
    assert state(worker, "g/a") == "suspended"


def test_a_graph_is_created_from_its_file_active_or_as_drafts(
    worker: InProcessWorker, ask: Ask, printed: Ask, file: Path
) -> None:
    assert printed("create", "-f", file) == "g: 3 jobs created interlock job status g"
    assert {job.state for job in worker.graphs.jobs("g")} == {"draft"}

    done = ask("create", "--file", file, "--activate")

    assert [one["replayed"] for one in done["jobs"]] == [True] * 3
    assert {job.state for job in worker.graphs.jobs("g")} == {"pending"}


def test_a_file_with_errors_reports_each_with_its_line_and_writes_nothing(
    worker: InProcessWorker, refuse: Refuse, file: Path
) -> None:
    file.write_text(CHAIN.replace("slots", "slot").replace("echo a", "").replace("[a]", "[d]"))
    before = stored(worker)

    message = refuse("create", "-f", file, "--activate")

    places = [line.split(": ")[0] for line in message.splitlines()]
    assert places == [f"{file}:{place}" for place in ("3:1", "10:15", "12:18")]
    assert stored(worker) == before


def test_the_problems_of_a_file_are_shown_where_no_store_answers(
    refuse: Refuse, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "unix:///nowhere")
    file.write_text(CHAIN.replace("slots", "slot"))

    assert refuse("create", "-f", file).startswith(f"{file}:3:1: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create",), "give a GRAPH/JOB or a --file with a graph"),
        (("create", "g/a", "-f", "x.yaml"), "give a GRAPH/JOB or a --file, not both"),
        (("create", "g/a"), "name the worker: --command, or `phases` in --fields"),
        (("create", "a", "--command", "x"), "'a' names no job: write it as <graph>/<job>"),
        (("create", "g/a", "--fields", "{"), "--fields is not JSON: "),
        (("create", "g/a", "--fields", "[]"), "--fields must be a JSON object"),
        (("create", "g/a", "--command", "x", "--fields", '{"slot": 1}'), "slot: Extra inputs"),
        (("create", "g/a", "--command", "x", "--after", "b", "--activate"), "no such job"),
        (("create", "-f", "none.yaml"), "none.yaml: "),
        (
            ("create", "-f", "x.yaml", "--tag", "x"),
            "--tag, --priority and --fields are for one job",
        ),
        (("config", "g/j"), "nothing would change: name at least one field and its new value"),
        (("config", "g", "--details", "x"), "--details is for a job: name it as GRAPH/JOB"),
        (("config", "g", "--fields", "{}"), "nothing would change: name at least one field"),
        (("config", "g/j", "--fields", '{"retries_max": -7}'), "or equal to 0, not -7"),
        (("config", "g/j", "--cost", "much"), "--cost 'much': write US dollars like 5 or 0.05"),
        (("config", "g/j", "--cost", "-1"), "--cost '-1': write US dollars like 5 or 0.05"),
        (("config", "g/j", "--cost", "0.0000001"), "write US dollars like 5 or 0.05, with at m"),
        (("config", "g/j", "--time", "soon"), "--time 'soon': "),
        (("config", "none", "--slots", "1"), "there is no graph 'none'"),
        (("activate", "g/none"), "there is no record 'g/none'; it was never created"),
        (("show", "g/none"), "there is no record 'g/none'"),
        (("show", "g"), "g is a graph, not a job"),
        (("status", "none"), "there is no graph 'none'; `interlock job list` names those we have"),
        (("suspend", "none"), "there is no graph 'none'"),
    ],
)
def test_a_wrong_command_is_refused_in_a_sentence_and_changes_nothing(
    worker: InProcessWorker, refuse: Refuse, words: tuple[str, ...], message: str
) -> None:
    brought(worker, "g/j", "draft")
    before = stored(worker)

    assert message in refuse(*words)

    assert stored(worker) == before


@pytest.mark.parametrize("words", [("reject", "g/j"), ("force-success", "g/j"), ("restep", "g/j")])
def test_a_required_option_that_is_missing_is_named(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words)

    assert result.exit_code == 2
    assert "Missing option" in result.stderr


@pytest.mark.parametrize("words", [("show", "g/j"), ("status", "g/j"), ("suspend", "g/j")])
def test_the_manifest_of_a_job_that_has_ended_is_restored_by_a_command_for_it(
    worker: InProcessWorker, run: Run, words: tuple[str, ...]
) -> None:
    record = brought(worker, "g/j", "success")
    file = job_folder(worker.client.records, record) / MANIFEST_FILE
    file.write_text('{"status": "RUNNING"}')

    run(*words)

    assert json.loads(file.read_text()) == manifest_now(worker.client.records, "g/j")


def test_a_draft_is_configured_and_activated(
    worker: InProcessWorker, ask: Ask, printed: Ask
) -> None:
    brought(worker, "g/j", "draft")

    words = ("--command", "echo", "--description", "new", "--cost", "0.5", "--time", "2h")
    assert ask("config", "g/j", *words, "--iterations", 4) == {"id": "g/j", "state": "draft"}
    texts = {"objective": "the notes", "details": "in English"}
    criteria = ("--acceptance", "two pages", "--acceptance", "no jargon")
    ask(
        "config", "g/j", *(word for name in texts for word in (f"--{name}", texts[name])), *criteria
    )

    data = worker.graphs.job("g/j").data
    assert {"objective": data["objective"], "details": data["details"]} == texts
    assert data["acceptance"] == ["two pages", "no jargon"]
    assert data["phases"][0]["worker"]["command"] == "echo"
    assert data["description"] == "new"
    assert data["limits"] == {"cost_micro": 500_000, "time_s": 7_200, "iterations": 4}
    assert printed("activate", "g/j") == "g/j is ○ waiting to run"


def test_a_graph_is_configured_and_its_drafts_are_activated(
    worker: InProcessWorker, ask: Ask, printed: Ask
) -> None:
    brought(worker, "g/j", "draft")

    assert printed("config", "g", "--slots", 3, "--cost", 1) == "g is ○ open"
    own = worker.graphs.graph("g")
    assert own is not None
    assert (own.data["slots"], own.data["limits"]) == (3, {"cost_micro": 1_000_000})
    assert ask("activate", "g") == {"g/j": "pending", "g/never": "pending"}
    assert printed("activate", "g") == "no job takes this now"


# The state of a job, the command, and the state afterwards.
VERBS: list[tuple[str, tuple[str, ...], str]] = [
    ("pending", ("suspend", "g/j", "--reason", "a holiday"), "suspended"),
    ("suspended", ("resume", "g/j"), "pending"),
    ("running", ("pause", "g/j"), "paused"),
    ("running", ("pause", "g/j", "--for", "90"), "paused"),
    ("paused", ("unpause", "g/j"), "running"),
    ("reviewing", ("cancel", "g/j", "--reason", "no need"), "canceled"),
    ("intervention_required", ("resubmit", "g/j", "--reason", "mind it"), "pending"),
    ("intervention_required", ("resubmit", "g/j", "--cost", "2", "--iterations", "9"), "pending"),
    ("intervention_required", ("resubmit", "g/j", "--to", "review"), "review_required"),
    ("intervention_required", ("terminate", "g/j", "--reason", "in vain"), "canceled"),
    ("running", ("force-success", "g/j", "--reason", "done by hand"), "success"),
    ("review_required", ("restep", "g/j", "--phase", "default"), "pending"),
]


@pytest.mark.parametrize(("state_before", "words", "then"), VERBS)
def test_each_verb_changes_a_job_and_returns_its_state(
    worker: InProcessWorker, ask: Ask, state_before: str, words: tuple[str, ...], then: str
) -> None:
    brought(worker, "g/j", state_before)

    assert ask(*words, "--as", "ann") == {"id": "g/j", "state": then}

    events = [line for line in worker.client.history("g/j") if isinstance(line, Event)]
    reason = words[-1] if "--reason" in words else ""
    assert (events[-1].cause.actor, events[-1].cause.reason) == ("ann", reason)


def test_the_state_after_a_verb_is_printed_for_people(
    worker: InProcessWorker, printed: Ask
) -> None:
    brought(worker, "g/j", "reviewing")

    assert printed("cancel", "g/j", "--reason", "no need", "--as", "ann") == "g/j is ■ canceled"


def test_a_graph_is_suspended_resumed_and_canceled_with_all_of_its_jobs(
    worker: InProcessWorker, ask: Ask, printed: Ask
) -> None:
    brought(worker, "g/a", "running")
    brought(worker, "g/b", "approval_required")
    brought(worker, "g/c", "success")

    assert ask("suspend", "g") == {
        "g/a": "suspended",
        "g/b": "suspended",
        "g/never": "suspended",
    }
    assert printed("resume", "g") == "job state" + "".join(
        f" g/{one} ○ waiting to run" for one in ("a", "b", "never")
    )
    assert ask("cancel", "g", "--reason", "over") == {
        "g/a": "canceled",
        "g/b": "canceled",
        "g/never": "canceled",
    }
    assert ask("pause", "g") == ask("unpause", "g") == {}


def test_a_starved_job_is_waived_one_loss_at_a_time_or_all(
    worker: InProcessWorker, ask: Ask, printed: Ask, refuse: Refuse
) -> None:
    lost = ["g/x", "g/y"]
    for job_id in lost:
        brought(worker, job_id, "canceled")
    worker.graphs.create("g/j", {"phases": COMMAND, "depends_on": lost}, held=False)
    settle(worker, "g/j")

    assert "waive is refused" in refuse("waive", "g/j", "--dependency", "g/z")
    ask("waive", "g/j", "--dependency", "g/x", "--reason", "goes without")
    assert worker.graphs.job("g/j").data["lost"] == {"g/y": "canceled"}
    assert printed("waive", "g/j") == "g/j is ○ waiting to run"
    settle(worker, "g/j", but=["worker"])
    assert state(worker) == "running"


# A command: the state of the job, and the message.
REFUSED: dict[tuple[str, ...], tuple[str, str]] = {
    ("approve", "g/j", "--proposal", "g/j:1"): (
        "draft",
        (
            "g/j is draft: approve is not allowed; legal now: config (person or producer), "
            "activate (person or producer), suspend (person), cancel (person or producer)"
        ),
    ),
    ("suspend", "g/j"): (
        "success",
        "g/j is success: suspend is not allowed; nothing is legal here: it has ended",
    ),
    ("step", "g/j"): (
        "running",
        (
            "g/j is running: step is not allowed; legal now: suspend (person), pause (person), "
            "cancel (person or producer), force-success (ann or bob)"
        ),
    ),
    ("terminate", "g/j"): (
        "intervention_required",
        (
            "g/j is intervention_required: terminate is refused: "
            "person is no steward; only ann or bob may decide: "
            "add --as NAME; legal now: suspend (person), "
            "cancel (person or producer), resubmit (ann or bob), "
            "resubmit --to review (ann or bob), terminate (ann or bob), "
            "force-success (ann or bob), restep (ann or bob)"
        ),
    ),
}


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[0])
def test_a_command_that_is_not_legal_names_the_state_and_the_legal_ones(
    worker: InProcessWorker, refuse: Refuse, words: tuple[str, ...]
) -> None:
    state_before, message = REFUSED[words]
    before = brought(worker, "g/j", state_before, stewards=["ann", "bob"])

    assert refuse(*words) == message

    assert worker.record("g/j") == before


def test_a_step_does_the_one_thing_that_the_state_names_and_waits_for_it(
    worker: InProcessWorker, ask: Ask, printed: Ask, refuse: Refuse
) -> None:
    payload = {"phases": COMMAND, "manual": True, "review": {"command": "true"}}
    worker.graphs.create("g/j", payload, held=False)
    settle(worker, "g/j")

    with at_work(worker, "g/j"):
        assert ask("step", "g/j") == {"id": "g/j", "state": "review_required"}
    assert worker.graphs.job("g/j").data["runs"] == 1
    settle(worker, "g/j")
    # The job does not go on without another command.
    assert state(worker) == "review_required"
    with at_work(worker, "g/j"):
        assert printed("step", "g/j") == "g/j is ◆ waiting for sign-off"
    assert "step is not allowed; legal now: " in refuse("step", "g/j")
    assert state(worker) == "approval_required"


def test_a_step_is_over_when_its_work_is_to_be_retried_or_its_job_is_starved(
    worker: InProcessWorker, ask: Ask
) -> None:
    busy = {"phases": [{"worker": {"command": "exit 75"}}], "manual": True}
    worker.graphs.create("g/j", busy, held=False)
    brought(worker, "g/lost", "canceled")
    worker.graphs.create("g/vain", {**busy, "depends_on": ["g/lost"]}, held=False)
    settle(worker, "g/j", "g/vain")

    with at_work(worker, "g/j", "g/vain"):
        assert ask("step", "g/j") == {"id": "g/j", "state": "pending"}
        assert ask("step", "g/vain") == ask("run", "g/vain") == {"id": "g/vain", "state": "pending"}
    assert (worker.count_events("g/j", "retry"), worker.count_events("g/vain", "scheduled")) == (
        1,
        0,
    )


def test_a_run_goes_on_to_the_next_gate_and_is_refused_at_one(
    worker: InProcessWorker, ask: Ask, refuse: Refuse
) -> None:
    payload = {"phases": COMMAND, "manual": True, "review": {"command": "true"}}
    worker.graphs.create("g/j", payload, held=False)
    settle(worker, "g/j")

    with at_work(worker, "g/j"):
        assert ask("run", "g/j") == {"id": "g/j", "state": "approval_required"}

    assert "run is not allowed; legal now: " in refuse("run", "g/j")
    assert worker.count_events("g/j", "run") == 1
    worker.graphs.create("g/all", {**payload, "auto_approve": True}, held=False)
    with at_work(worker, "g/all"):
        assert ask("run", "g/all") == {"id": "g/all", "state": "success"}


def test_a_step_that_takes_longer_prints_the_present_state(
    worker: InProcessWorker, ask: Ask
) -> None:
    worker.graphs.create("g/j", {"phases": COMMAND, "manual": True}, held=False)
    settle(worker, "g/j")

    assert ask("step", "g/j", "--wait", 0) == {"id": "g/j", "state": "pending"}


def test_a_status_shows_the_condition_of_a_graph_and_which_jobs_need_a_person(
    worker: InProcessWorker, ask: Ask, printed: Ask
) -> None:
    worker.graphs.open("g", {"limits": {"iterations": 4}})
    brought(worker, "g/signed", "success")
    brought(worker, "g/asks", "intervention_required")
    brought(worker, "g/waits", "pending")

    value, shown = ask("status", "g"), printed("status", "g")

    assert (value["stands"], value["jobs"]) == ("waits for a person", 4)
    assert shown.startswith("g Waits for a person: 1 of 4 jobs succeeded.")
    assert "1 draft, 1 pending, 1 intervention required, 1 success" in shown
    assert "Limit of iterations: 2 of 4 runs used" in shown
    assert "g/asks ◆ waiting for help a decision exit code 3: no output" in shown
    assert ask("status", "g/asks") == {"id": "g/asks", "state": "intervention_required"}


def test_graphs_and_the_jobs_of_one_are_listed(
    worker: InProcessWorker, ask: Ask, printed: Ask
) -> None:
    assert printed("list") == "There is no graph yet. docs/jobs.md shows how to write one."
    brought(worker, "g/waits", "pending")
    brought(worker, "h/done", "success")

    assert [one["graph"] for one in ask("list")] == ["g", "h"]
    assert "h ended 1 1 0 0" in printed("list")
    rows = ask("list", "g")
    assert [(row["id"], row["why"]) for row in rows] == [
        ("g/never", ""),
        ("g/waits", "waits for never"),
    ]
    assert "g/waits ○ waiting to run" in printed("list", "g")


def test_a_job_is_shown_whole(worker: InProcessWorker, ask: Ask, printed: Ask) -> None:
    reply = '{"action": "COMPLETED", "summary": "made", "evidence_files": ["x"], "cost": 0.5}'
    write = f"""echo 1 > "$INTERLOCK_JOB_DIR"/x; echo '{reply}' > "$INTERLOCK_JOB_REPLY" """
    phases = [{"worker": {"command": write}}]
    brought(worker, "g/before", "success")
    payload = {"phases": phases, "depends_on": ["g/before"], "stewards": ["ann"]}
    record = brought(worker, "g/j", "approval_required", **payload)

    value, shown = ask("show", "g/j"), printed("show", "g/j")

    assert value["manifest"]["status"] == "APPROVAL_REQUIRED"
    assert value["manifest"]["metrics"]["cumulative_cost"] == 50
    assert value["proposal"] == record.proposal
    assert value["dependencies"] == {"g/before": "success"}
    assert value["evidence"][0]["path"] == "x"
    kept = value["evidence"][0]["kept"]
    assert Path(kept).read_text() == "1\n"
    assert worker.client.cards_of("g/j")[0].inspect == f"less {kept}"
    for part in (
        "g/j state ◆ waiting for sign-off",
        "g/before ✓ success",
        "default ○ waiting for review made",
        f"folder {value['dir']} computer {worker.client.settings.host}",
        "evidence sha-256 bytes x ",
        f"less {kept}",
        "cost $0.50",
        "asks made. The reviewer: no reviewer is configured. Approve it?",
        "stewards ann",
        "legal now suspend, cancel, approve, reject, force-success, restep",
        f"proposal {record.proposal}",
    ):
        assert part in shown


def test_the_schemas_of_replies_are_printed_as_json(
    worker: InProcessWorker, printed: Ask, ask: Ask
) -> None:
    schema = json.loads(printed("schema"))

    assert set(schema) == {"states", "verdicts", "worker", "reviewer", "manifest"}
    assert len(schema["states"]) == 12
    assert schema["verdicts"] == ["APPROVAL_REQUIRED", "INTERVENTION_REQUIRED"]
    for name in ("worker", "reviewer", "manifest"):
        Draft202012Validator.check_schema(schema[name])
    worker_schema, reviewer, manifest = (
        Draft202012Validator(schema[name]) for name in ("worker", "reviewer", "manifest")
    )
    assert worker_schema.is_valid({"action": "RETRY", "retry_after_s": 3, "rate_limited": True})
    assert not worker_schema.is_valid({"action": "DONE"})
    assert not worker_schema.is_valid({"action": "STUCK", "verdict": "APPROVAL_REQUIRED"})
    assert reviewer.is_valid({"action": "COMPLETED", "verdict": "APPROVAL_REQUIRED"})
    assert not reviewer.is_valid({"action": "COMPLETED", "verdict": "SUCCESS"})
    brought(worker, "g/j", "success")
    assert manifest.is_valid(ask("show", "g/j")["manifest"])


def test_a_graph_is_exported_as_the_file_that_would_create_it_again(
    worker: InProcessWorker, ask: Ask, printed: Ask, run: Run, file: Path, tmp_path: Path
) -> None:
    ask("create", "-f", file)
    copy = tmp_path / "copy.yaml"

    text = run("export", "g").stdout
    assert printed("export", "g", "--out", copy) == f"file {copy}"

    assert copy.read_text() == text
    again = ask("create", "-f", copy)
    assert [one["replayed"] for one in again["jobs"]] == [True] * 3
    assert worker.graphs.job("g/a").data["phases"][0]["worker"]["command"] == "echo a"


def test_a_graph_is_drawn_with_the_states_of_its_jobs(
    worker: InProcessWorker, printed: Ask, run: Run, tmp_path: Path
) -> None:
    brought(worker, "g/done", "success")
    brought(worker, "g/j", "pending", depends_on=["g/done", "g/never"])
    path = tmp_path / "graph.svg"

    mermaid = run("graph", "g").stdout
    printed("graph", "g", "--format", "svg", "--out", path)

    assert "flowchart" in mermaid
    for name in ("done", "never", "j"):
        assert name in mermaid
    assert ET.fromstring(path.read_text()).tag.endswith("svg")  # noqa: S314 - our own


def test_a_refused_command_is_one_process_with_its_exit_code(worker: InProcessWorker) -> None:
    brought(worker, "g/j", "pending")
    program = str(Path(sys.executable).with_name("interlock"))

    refused = subprocess.run([program, "job", "approve", "g/j"], capture_output=True, check=False)

    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"g/j is pending: approve is not allowed; legal now: step" in refused.stderr
