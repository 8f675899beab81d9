"""Each event is answered, whatever it names, and applied once, however often it is read."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.machines import MACHINES
from interlock.kernel.store.inboxes import Mail
from interlock.systems.runs.effects.events import EventResult, apply_event
from interlock.systems.runs.machines.events import run_event
from interlock.systems.runs.start import newest_run_number
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.systems import handlers
from tests.kernel.samples import RUN_BIRTH
from tests.kernel.store.machines_runs import HOLDER, fail, settle
from tests.systems.runs.workspaces import StoredWorkspace
from tests.workers.engine.running import perform


def mail_of(kind: str, *, mail: str = "17-0", **data: Any) -> Mail:
    """Return an event as an inbox stores it."""
    return Mail(mail, 17, {"sender": "outside", "event": {"type": kind, "data": data}})


def apply(workspace: StoredWorkspace, mail: Mail) -> EventResult:
    return apply_event(workspace.records.named("events"), workspace.open(), mail)


def run_started(workspace: StoredWorkspace, source: str, *, mail: str = "17-0") -> Mail:
    """Return an event that starts a run from a checkpoint of another one."""
    where = {"run_id": source, "checkpoint_sha": "a" * 40}
    starting = {"kind": "continuation", "source": where, "reason": "continue"}
    folder = {"run_folder": str(workspace.folder), "branch": "run-2"}
    return mail_of("RunStarted", mail=mail, run_id="2", starting_conditions=starting, **folder)


@pytest.fixture
def run(workspace: StoredWorkspace) -> str:
    """Return a run that has ended, with a codon."""
    run = workspace.start_run()
    workspace.codon(run)
    fail(workspace.world, run)
    settle(workspace.world, run)
    return run


def test_to_go_on_from_what_is_no_run_of_the_workspace_is_refused_and_what_follows_applied(
    workspace: StoredWorkspace, run: str
) -> None:
    workspace.world.create("other", {"folder": "/other", "host": "here"}, machine="workspace")
    workspace.world.create("other/1", RUN_BIRTH, machine="run")

    for source in ("1/1", f"{run}/1", "99", "other/1", workspace.id, "no id !"):
        refused = apply(workspace, run_started(workspace, source))

        assert (refused.applied, refused.error) == (False, "RunRefusedError")
        assert refused.why == f"there is no run {source} of {workspace.id}"
    assert newest_run_number(workspace.records, workspace.id) == 1
    assert apply(workspace, run_started(workspace, "1", mail="18-0")).record == f"{workspace.id}/2"


def test_an_event_about_what_is_not_there_is_refused(workspace: StoredWorkspace, run: str) -> None:
    for about, error in (
        ({"run_id": run, "codon_id": "other"}, "UnknownCodonError"),
        ({"run_id": "99", "codon_id": "clean"}, "RunRefusedError"),
        ({"run_id": f"{run}/1", "codon_id": "clean"}, "RunRefusedError"),
    ):
        assert apply(workspace, mail_of("CostsUpdated", cost=1, **about)).error == error


def test_events_wait_in_the_inbox_and_are_applied_in_their_order(
    workspace: StoredWorkspace,
) -> None:
    codon = workspace.codon(workspace.start_run(), cost=500, upto="running")
    about = {"run_id": codon.rpartition("/")[0], "codon_id": "clean"}
    told = [("CostsUpdated", {"cost": 700}), ("CostsIncremented", {"cost_delta": 5})]

    receipts = [
        workspace.runs.transition(
            workspace.open(), run_event({"type": name, "data": {**about, **said}})
        )
        for name, said in told
    ]

    assert [workspace.runs.answer(receipt) for receipt in receipts] == [None, None]
    assert workspace.world.record(codon).data["current_cost"] == 500
    read_events(workspace)
    answers = [workspace.runs.answer(receipt) for receipt in receipts]
    assert [answer.kind for answer in answers if answer] == ["event_applied"] * 2
    assert workspace.world.record(codon).data["current_cost"] == 705


def unclaimed(workspace: StoredWorkspace) -> str:
    """Return the key of the effect that has to read the events of a workspace."""
    entries = workspace.open().entries
    (entry,) = [one for one in entries if (one.name, one.state) == ("events", "owed")]
    return str(entry.key(workspace.id))


def read_events(workspace: StoredWorkspace) -> str:
    """Perform the effect that reads events, and return its line."""
    runner = Runner(workspace.records.dispatch, Resources(workspace.records.settings))
    machine, handler = MACHINES["workspace"], handlers()["workspace.events"]
    return perform(runner, machine, "events", handler, unclaimed(workspace))


def test_only_one_worker_at_a_time_reads_events(workspace: StoredWorkspace) -> None:
    codon = workspace.codon(workspace.start_run(), upto="running")
    about = {"run_id": codon.rpartition("/")[0], "codon_id": "clean", "new_count": 3}
    event = run_event({"type": "AssistantMessageCountUpdated", "data": about})
    receipt = workspace.runs.transition(workspace.open(), event)
    workspace.world.claim_key(unclaimed(workspace))
    workspace.runs.transition(workspace.open(), event)

    assert "another worker reads the delivered events" in read_events(workspace)
    assert workspace.runs.answer(receipt) is None


def test_a_transition_that_the_table_never_allows_is_a_defect_of_its_sender(
    workspace: StoredWorkspace,
) -> None:
    codon = workspace.codon(workspace.start_run())
    about = {"run_id": codon.rpartition("/")[0], "codon_id": "clean"}
    moved: dict[str, Any] = {"from": "completed", "to": "running"}
    moved["metadata"] = {"session_id": "s"}

    wrong = apply(workspace, mail_of("CodonTransitioned", **about, **moved))
    late = apply(workspace, mail_of("CostsIncremented", mail="18-0", **about, cost_delta=1))

    assert (wrong.error, wrong.defect) == ("InvalidTransitionError", True)
    assert (late.applied, late.defect) == (False, False)


@pytest.mark.parametrize(
    ("ids", "metadata", "lacking"),
    [
        ({"runId": "1", "codonId": "clean"}, {"claudePid": 7}, "claudeLogPath"),
        ({"run_id": "1", "codon_id": "clean"}, {"pid": 7}, "log_path"),
    ],
)
def test_an_event_is_answered_in_the_names_in_which_it_came(
    workspace: StoredWorkspace, ids: dict[str, str], metadata: dict[str, Any], lacking: str
) -> None:
    codon = f"{workspace.start_run()}/1"
    workspace.world.create(codon, {"codon_id": "clean"}, machine="codon", initial_lease=HOLDER)
    workspace.move(codon, "preparing", "starting")
    moved = {"from": "starting", "to": "initializing", "metadata": metadata}
    skipping = {"from": "starting", "to": "completing-sentinels"}
    for fields in (moved, skipping):
        event: Any = {"type": "CodonTransitioned", "data": {**ids, **fields}}
        workspace.runs.transition(workspace.open(), event)
    mails = workspace.records.inboxes.after(workspace.id, "0-0", 10)

    whys = [apply(workspace, mail).why for mail in mails]

    state = "completing-sentinels" if "runId" in ids else "completing_sentinels"
    assert whys == [
        f"Missing required metadata for transition to initializing: {lacking}",
        f"Invalid transition from starting to {state}",
    ]


def test_a_transition_that_was_applied_and_not_answered_is_answered_as_applied(
    workspace: StoredWorkspace,
) -> None:
    run = workspace.start_run()
    codon = workspace.codon(run, upto="running")
    moved: dict[str, Any] = {"from": "running", "to": "completing_sentinels"}
    mail = mail_of("CodonTransitioned", run_id=run, codon_id="clean", **moved)

    first, again = apply(workspace, mail), apply(workspace, mail)

    assert first.applied
    assert again == first
    assert workspace.world.record(codon).version == first.version
    later_mail = mail_of("CodonTransitioned", mail="18-0", run_id=run, codon_id="clean", **moved)
    assert apply(workspace, later_mail).error == "InvalidTransitionError"


def test_a_cost_that_was_applied_and_not_answered_counts_once_though_its_codon_has_ended(
    workspace: StoredWorkspace,
) -> None:
    run = workspace.start_run()
    codon = workspace.codon(run, cost=500, upto="running")
    mail = mail_of("CostsIncremented", run_id=run, codon_id="clean", cost_delta=7)
    assert apply(workspace, mail).applied
    done = {"checkpoint_sha": "b" * 40, "result_message_received": True}
    workspace.move(codon, "running", "completed", **done)

    again = apply(workspace, mail)

    assert again.applied
    assert workspace.world.record(codon).data["final_cost"] == 507


def test_a_run_that_was_begun_and_not_answered_begins_once(
    workspace: StoredWorkspace, run: str
) -> None:
    mail = run_started(workspace, run)

    first, again = apply(workspace, mail), apply(workspace, mail)

    assert (first.record, again.record) == (f"{workspace.id}/2", f"{workspace.id}/2")
    assert again.applied
    assert newest_run_number(workspace.records, workspace.id) == 2
