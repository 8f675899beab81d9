"""Decisions of stewards on the command line: each may name the proposal that was seen."""

from __future__ import annotations

import json
import shlex

import pytest
from typer.testing import CliRunner

from interlock.workers.cli import app
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.cli.conftest import Ask, Refuse
from tests.systems.jobs.test_graphs import brought, settle


def test_a_sign_off_names_the_proposal_that_was_seen(
    worker: InProcessWorker, ask: Ask, refuse: Refuse
) -> None:
    phases = [{"name": name, "worker": {"command": "true"}} for name in ("a", "b")]
    seen = brought(worker, "g/j", "approval_required", phases=phases).proposal

    unseen = f"name the proposal that you saw: --proposal {seen} is the current one"
    for verb in (("approve", "g/j"), ("reject", "g/j", "--reason", "no")):
        assert refuse(*verb) == unseen
    rejected = ask("reject", "g/j", "--reason", "more tests", "--phase", "a", "--proposal", seen)
    assert rejected == {"id": "g/j", "state": "pending"}
    assert worker.graphs.job("g/j").data["phase"] == 0
    settle(worker, "g/j")
    stale = refuse("approve", "g/j", "--proposal", seen)
    now = f"g/j:{worker.graphs.job('g/j').entered}"
    printed = f"the decision was about proposal {seen}, but the current one is {now}; look again"
    assert stale == printed
    assert ask("approve", "g/j", "--proposal", now) == {"id": "g/j", "state": "success"}
    guidance = [{"from": "steward", "by": "person", "text": "more tests"}]
    assert worker.graphs.job("g/j").data["guidance"] == guidance


@pytest.mark.parametrize("choice", ["approve", "reject"])
def test_a_card_names_the_stewards_and_its_commands_are_theirs(
    worker: InProcessWorker, choice: str
) -> None:
    brought(worker, "g/j", "approval_required", stewards=["ann", "bob"])
    printed = CliRunner().invoke(app, ["cards"]).stdout

    assert "only these may answer: ann, bob" in printed
    (command,) = [line for line in printed.splitlines() if f"decide g/j {choice} " in line]
    result = CliRunner().invoke(app, shlex.split(command.replace("...", "wrong"))[1:])

    claimed = "the name ann is only claimed: no token proves it\n"
    assert (result.exit_code, result.stderr) == (0, claimed)
    assert worker.graphs.job("g/j").state != "approval_required"


def test_an_answer_is_explained_to_a_steward_as_what_it_would_do(worker: InProcessWorker) -> None:
    brought(worker, "g/j", "approval_required", stewards=["ann"])
    explain = ["explain", "g/j", "approve"]

    mine = CliRunner().invoke(app, [*explain, "--as", "ann"]).stdout
    others = CliRunner().invoke(app, [*explain, "--as", "bob"]).stdout

    assert "approve would take g/j from approval_required to success" in " ".join(mine.split())
    assert "only ann may decide: add --as ann" in " ".join(others.split())


@pytest.mark.parametrize(
    ("state_before", "words"),
    [
        ("intervention_required", ("resubmit", "g/j")),
        ("intervention_required", ("resubmit", "g/j", "--to", "review")),
        ("intervention_required", ("terminate", "g/j")),
        ("running", ("force-success", "g/j", "--reason", "done by hand")),
        ("review_required", ("restep", "g/j", "--phase", "default")),
    ],
)
def test_a_decision_about_an_old_proposal_is_refused(
    worker: InProcessWorker, ask: Ask, refuse: Refuse, state_before: str, words: tuple[str, ...]
) -> None:
    entered = brought(worker, "g/j", state_before).entered

    printed = refuse(*words, "--proposal", f"g/j:{entered - 1}")
    assert f"the decision was about proposal g/j:{entered - 1}" in printed
    assert worker.graphs.job("g/j").state == state_before

    assert ask(*words, "--proposal", f"g/j:{entered}")["state"] != state_before


def test_a_steward_gives_a_job_another_worker_by_command_or_card(
    worker: InProcessWorker, ask: Ask, refuse: Refuse
) -> None:
    brought(worker, "g/j", "intervention_required")
    assert "worker: name one of" in refuse("resubmit", "g/j", "--fields", '{"worker": {}}')
    assert refuse("resubmit", "g/j", "--fields", "[]") == "--fields must be a JSON object"
    review = '{"review": {"model": "Is it green?"}}'
    ask("resubmit", "g/j", "--command", "mend", "--objective", "green", "--fields", review)
    by_command = worker.graphs.job("g/j").data

    brought(worker, "g/k", "intervention_required")
    (card,) = [card for card in worker.client.cards() if card.record_id == "g/k"]
    schema = next(choice.schema for choice in card.affordances if choice.name == "resubmit")
    assert {"worker", "review", "objective", "acceptance"} <= set(schema["properties"])
    answer = {"worker": {"command": "mend"}, "objective": "green", **json.loads(review)}
    worker.client.decide("g/k", "resubmit", answer, proposal=card.proposal)
    by_card = worker.graphs.job("g/k").data

    for data in (by_command, by_card):
        assert data["phases"][0]["worker"]["command"] == "mend"
        assert (data["objective"], data["review"]["model"]) == ("green", "Is it green?")


@pytest.mark.parametrize(
    ("option", "fields", "problem"),
    [
        (("--command", "mend"), '{"worker": {"command": "x"}}', "worker is given by --command"),
        (("--cost", "2"), '{"limits": {"cost_micro": 5}}', "limits is given by --cost, --time"),
        (("--objective", "green"), '{"objective": "red"}', "objective is given by --objective"),
        (("--reason", "late"), '{"reason": "soon"}', "reason is given by --reason"),
    ],
)
def test_a_field_that_is_given_twice_is_refused(
    worker: InProcessWorker, refuse: Refuse, option: tuple[str, str], fields: str, problem: str
) -> None:
    before = brought(worker, "g/j", "intervention_required")

    assert problem in refuse("resubmit", "g/j", *option, "--fields", fields)
    assert worker.graphs.job("g/j") == before


@pytest.mark.parametrize(
    ("option", "fields", "problem"),
    [
        (("--command", "x"), '{"phases": [{"worker": {"command": "y"}}]}', "phases is given by"),
        (("--description", "x"), '{"description": "y"}', "description is given by --description"),
        (("--cost", "2"), '{"limits": {"time_s": 5}}', "limits is given by --cost, --time"),
    ],
)
def test_a_field_of_a_draft_that_is_given_twice_is_refused(
    worker: InProcessWorker, refuse: Refuse, option: tuple[str, str], fields: str, problem: str
) -> None:
    before = brought(worker, "g/j", "draft")

    assert problem in refuse("config", "g/j", *option, "--fields", fields)
    assert worker.graphs.job("g/j") == before


def test_a_waive_of_an_old_proposal_is_refused(worker: InProcessWorker, refuse: Refuse) -> None:
    brought(worker, "g/first", "pending")
    worker.graphs.create(
        "g/j", {"phases": [{"worker": {"command": "true"}}], "depends_on": ["g/first"]}
    )
    entered = worker.graphs.command("g/j", "activate").entered
    worker.graphs.command("g/first", "cancel")
    settle(worker, "g/j")
    assert worker.graphs.job("g/j").data["lost"]

    printed = refuse("waive", "g/j", "--proposal", f"g/j:{entered - 1}")

    assert f"the decision was about proposal g/j:{entered - 1}" in printed
    assert worker.graphs.job("g/j").data["lost"]
