"""The checkpoints of a workspace, and the one from which a run is resumed."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.errors import CallError
from interlock.kernel.store.commands import Warrant
from interlock.systems.runs import history
from interlock.systems.runs.checkpoint_list import (
    CheckpointError,
    checkpoint_before,
    find_checkpoint,
    list_checkpoints,
    resume_checkpoint,
)
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.run_values import run_value
from interlock.systems.runs.sequence import Execution
from interlock.systems.runs.start import RunSetup, start_run
from interlock.workers.access.roles import Role
from interlock.workers.api.app import create_app
from interlock.workers.remote.client import HttpClient
from tests.kernel.store.machines_runs import HOLDER, LAUNCH, fail, settle
from tests.systems.runs.workspaces import PLAN, REASON, StoredWorkspace
from tests.workers.access.tokens import new_token

UNKNOWN = {"type": "unknown", "retriable": True, "message": "no"}


def execute_codon(
    workspace: StoredWorkspace, run: str, number: int, name: str, end: str, sha: str
) -> None:
    """Execute a codon to its end, with a checkpoint."""
    codon_id = f"{run}/{number}"
    workspace.world.create(codon_id, {"codon_id": name}, machine="codon", initial_lease=HOLDER)
    workspace.move(codon_id, "preparing", "starting")
    workspace.move(codon_id, "starting", "initializing", pid=7, log_path="x.log")
    workspace.move(codon_id, "initializing", "running", session_id="s")
    match end:
        case "completed":
            workspace.move(codon_id, "running", end, checkpoint_sha=sha)
        case "skipped":
            workspace.move(codon_id, "running", end, skipped_during="running", checkpoint_sha=sha)
        case _:
            why = {"exit_code": 1, "failure_reason": UNKNOWN, "failed_during": "running"}
            ignored = end == "ignored"
            workspace.move(
                codon_id, "running", "failed", **why, ignored=ignored, checkpoint_sha=sha
            )


def run_codons(workspace: StoredWorkspace, *ends: tuple[str, str]) -> str:
    """Start a run, and execute codons in it."""
    run = workspace.start_run()
    for number, (name, end) in enumerate(ends, start=1):
        execute_codon(workspace, run, number, name, end, f"{number:040x}")
    return run


def test_a_run_that_failed_at_its_last_attempt_goes_on_from_before_the_first(
    workspace: StoredWorkspace,
) -> None:
    run = run_codons(workspace, ("good", "completed"), ("bad", "failed"), ("bad", "failed"))

    found = resume_checkpoint(workspace.records, workspace.records.views.record(run))

    assert found is not None
    assert (found.sha, found.after) == (f"{1:040x}", "good")
    assert [one.codon_id for one in found.done] == ["good"]


def test_a_run_in_which_nothing_counts_goes_on_from_its_beginning(
    workspace: StoredWorkspace,
) -> None:
    run = run_codons(workspace, ("bad", "failed"))

    found = resume_checkpoint(workspace.records, workspace.records.views.record(run))

    assert found is not None
    assert (found.type, found.after, found.done) == ("initial", "", ())


@pytest.mark.parametrize("end", ["skipped", "ignored"])
def test_what_a_run_went_past_counts_as_done(workspace: StoredWorkspace, end: str) -> None:
    run = run_codons(workspace, ("good", "completed"), ("other", end), ("bad", "failed"))

    found = resume_checkpoint(workspace.records, workspace.records.views.record(run))

    assert found is not None
    assert (found.sha, found.after) == (f"{2:040x}", "other")


def test_an_attempt_that_failed_before_it_succeeded_counts_for_nothing(
    workspace: StoredWorkspace,
) -> None:
    run = run_codons(workspace, ("bad", "failed"), ("bad", "completed"))

    found = resume_checkpoint(workspace.records, workspace.records.views.record(run))

    assert found is not None
    assert [(one.codon_id, one.record) for one in found.done] == [("bad", f"{run}/2")]


def test_a_codon_that_was_lost_before_any_checkpoint_can_be_done_anew(
    workspace: StoredWorkspace,
) -> None:
    run = run_codons(workspace, ("good", "completed"))
    workspace.world.create(f"{run}/2", {"codon_id": "bad"}, machine="codon", initial_lease=HOLDER)
    fail(workspace.world, run)
    workspace.world.fire(f"{run}/2", "run_ended", {}, warrant=Warrant.component("codon_cleanup"))
    assert "error_checkpoint" not in workspace.world.record(f"{run}/2").data

    found = checkpoint_before(workspace.records, workspace.records.views.record(run), "bad")

    assert (found.sha, found.after) == (f"{1:040x}", "good")


def test_a_codon_at_which_its_run_ended_can_be_done_anew(workspace: StoredWorkspace) -> None:
    run = run_codons(workspace, ("good", "completed"))
    workspace.world.fire(run, "fail", {"reason": "it has no session", "codon": "next"})
    record = workspace.records.views.record(run)

    assert checkpoint_before(workspace.records, record, "next").sha == f"{1:040x}"
    with pytest.raises(CheckpointError, match="has not executed later"):
        checkpoint_before(workspace.records, record, "later")


def run_and_restore(workspace: StoredWorkspace, rescued: str = "e" * 40) -> tuple[str, str]:
    """Run a first run to its end, then start another that rescues its workspace; return both."""
    first = run_codons(workspace, ("clean", "completed"))
    fail(workspace.world, first)
    settle(workspace.world, first)
    done = Execution(
        codon_id="clean", iteration=None, status=CodonEnd.COMPLETED, record=f"{first}/1"
    )
    new = RunSetup(PLAN, {"kind": "fresh"}, (done,))
    second = start_run(workspace.records, workspace.open(), new, REASON).id
    if rescued:
        shas = {"sha": f"{1:040x}", "rescued": rescued}
        workspace.world.fire(second, "initial_checkpoint_set", shas, warrant=LAUNCH)
    return first, second


def test_what_was_rescued_is_a_checkpoint_at_which_counts_what_counted_before(
    workspace: StoredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "READ_FIRST", 1)  # the second run is read by itself
    first, second = run_and_restore(workspace)

    found = find_checkpoint(workspace.records, workspace.id, "eeee")
    shown = run_value(workspace.records.views.record(second), [], 0)

    assert [one.type for one in list_checkpoints(workspace.records, workspace.id)] == [
        "initial",
        "completed",
        "recovery",
        "initial",
    ]
    assert (found.type, found.run, found.after) == ("recovery", first, "clean")
    assert [one.record for one in found.done] == [f"{first}/1"]
    assert shown["rescued"] == found.sha, "the run tells where its files before are"


def test_what_a_run_that_never_began_left_was_left_by_the_one_before(
    workspace: StoredWorkspace,
) -> None:
    first, second = run_and_restore(workspace, rescued="")
    fail(workspace.world, second)
    settle(workspace.world, second)
    third = start_run(
        workspace.records, workspace.open(), RunSetup(PLAN, {"kind": "fresh"}), REASON
    ).id
    shas = {"sha": "f" * 40, "rescued": "e" * 40}
    workspace.world.fire(third, "initial_checkpoint_set", shas, warrant=LAUNCH)

    found = find_checkpoint(workspace.records, workspace.id, "eeee")

    assert (found.run, [one.record for one in found.done]) == (first, [f"{first}/1"])


def test_where_a_run_goes_on_is_read_from_no_other_run(workspace: StoredWorkspace) -> None:
    first, second = run_and_restore(workspace)
    workspace.write_field(first, "data", "broken")

    found = resume_checkpoint(workspace.records, workspace.records.views.record(second))

    assert found is not None
    assert (found.type, found.run, found.after) == ("initial", second, "clean")


def test_to_do_a_codon_anew_begins_with_what_was_before_its_first_attempt(
    workspace: StoredWorkspace,
) -> None:
    run = run_codons(workspace, ("good", "completed"), ("bad", "failed"), ("bad", "completed"))
    record = workspace.records.views.record(run)

    assert checkpoint_before(workspace.records, record, "bad").sha == f"{1:040x}"
    assert checkpoint_before(workspace.records, record, "good").type == "initial"
    with pytest.raises(CheckpointError, match="has not executed worse"):
        checkpoint_before(workspace.records, record, "worse")


def test_checkpoints_are_named_by_id_by_codon_and_by_what_they_were(
    workspace: StoredWorkspace,
) -> None:
    run_codons(workspace, ("good", "completed"), ("bad", "failed"))

    def found(name: str) -> str:
        return find_checkpoint(workspace.records, workspace.id, name).sha

    first = list_checkpoints(workspace.records, workspace.id)[0].sha
    assert found("initial") == first
    assert found("good:completed") == found("last-success") == f"{1:040x}"
    assert found("bad:error") == f"{2:040x}"
    assert found(first[:12].upper()) == first
    for name, why in (
        ("0000", "fits 0000000.* and 0000000"),
        ("000", "too short"),
        ("feed", "there is no checkpoint feed"),
        ("good:error", "there are: bad:error, good:completed"),
    ):
        with pytest.raises(CheckpointError, match=why):
            find_checkpoint(workspace.records, workspace.id, name)


def test_the_checkpoints_of_a_folder_are_read_over_http(workspace: StoredWorkspace) -> None:
    run = run_codons(workspace, ("good", "completed"), ("bad", "failed"))
    interlock = workspace.runs.client
    interlock.submit({"title": "x"}, id="b/one", machine="task")
    initial = workspace.shas["run-1"][0]

    with TestClient(create_app(interlock)) as http:
        tokens = [new_token(interlock, Role.VIEWER, machines=names) for names in ((), ("run",))]
        api, of_runs = (HttpClient(str(http.base_url), token, http=http) for token in tokens)
        found = api.checkpoints(run)
        with pytest.raises(CallError, match="may also see the records of: codon, workspace"):
            of_runs.checkpoints(run)
        assert api.checkpoints("b/one") == []

    names = ("sha", "type", "run", "codon", "after")
    assert found == [
        dict(zip(names, values, strict=True))
        for values in (
            (initial, "initial", run, "", ""),
            (f"{1:040x}", "completed", run, "good", "good"),
            (f"{2:040x}", "error", run, "bad", "good"),
        )
    ]
